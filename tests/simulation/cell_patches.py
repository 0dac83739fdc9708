"""Ways to write cells without their guards, for a while: those whose keys begin so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.tables import CellVersion
from penstock.log.errors import StoreUnavailable
from tests.simulation.table import SimTableClient


def blind(prefix: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        async def put(self: SimTableClient, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
            """Writes over whatever stands in the cell."""
            if not key.startswith(prefix):
                return await original(self, key, data, expected=expected)

            async def effect(memory: Any) -> CellVersion:
                stands = memory._cells.get(key)
                return await memory.put(key, data, expected=stands.version if stands is not None else None)

            return await self._connection.call("put", key, effect, data, conditional=True)

        return put

    return make


def believing(prefix: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        async def write(self: Cells, key: str, data: bytes, *, on: StoredCell | None, deadline_s: float) -> StoredCell:
            """Takes a write without an answer for carried out."""
            if not key.startswith(prefix) or on is None:
                return await original(self, key, data, on=on, deadline_s=deadline_s)
            write_id = self._runtime.new_id()
            try:
                version = await self._table.put(key, bytes.fromhex(write_id) + data, expected=on.version)
            except StoreUnavailable:
                return StoredCell(data, on.version, write_id)
            except Exception:  # noqa: BLE001  # a conflict: whatever stands there, it goes on with it
                return await original(self, key, data, on=on, deadline_s=deadline_s)
            return StoredCell(data, version, write_id)

        return write

    return make
