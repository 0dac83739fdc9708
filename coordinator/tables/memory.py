"""A table in this process's memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from ...log.errors import PenstockError
from ...log.stores.protocol import Conflict
from .protocol import Cell, CellVersion, check_cell, check_cell_key


class MemoryTable:
    """Cells in a dictionary, which threads may share. Every call takes effect at once."""

    lists_cheaply = False

    def __init__(self, *, name: str = "") -> None:
        self._name = name
        self._cells: dict[str, Cell] = {}
        self._writes = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    async def get(self, key: str) -> Cell | None:
        check_cell_key(key)
        return self._cells.get(key)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        check_cell(key, data)
        with self._lock:
            self._require(key, expected, "put")
            # One counter for all cells: a recreated cell has no version of its former life.
            self._writes += 1
            version = CellVersion(str(self._writes))
            self._cells[key] = Cell(bytes(data), version)
            return version

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        check_cell_key(key)
        with self._lock:
            self._require(key, expected, "delete")
            del self._cells[key]

    async def keys(self, prefix: str) -> list[str]:
        with self._lock:
            return sorted(key for key in self._cells if key.startswith(prefix))

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        with self._lock:
            return {key: cell for key, cell in self._cells.items() if key.startswith(tuple(prefixes))}

    async def close(self) -> None:
        """Do nothing: others may share the table."""

    def _require(self, key: str, expected: CellVersion | None, operation: str) -> None:
        present = self._cells.get(key)
        if (present.version if present else None) != expected:
            raise Conflict(
                "the cell is not as expected",
                operation=operation,
                object=key,
                expected=expected.token if expected else "no cell",
                observed=present.version.token if present else "no cell",
            )
