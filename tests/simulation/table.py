"""The simulated coordination table: a `MemoryTable` behind the same network, so that its calls meet the faults of all real tables.

A lost request or answer, a late or repeated one are those of any network; 503 is also a throttled DynamoDB and a locked SQLite file, 409 a
store that could not decide, and a conflict after one's own success a client's hidden second try.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.coordinator.tables import Cell, CellVersion
from penstock.coordinator.tables.memory import MemoryTable
from penstock.log.errors import PenstockError
from tests.simulation.faults import FaultPlan
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.requests import Connection, SimService
from tests.simulation.trace import Trace

DYNAMODB_MS: Mapping[str, tuple[float, float]] = {"put": (8, 40), "get": (4, 25), "delete": (8, 40), "keys": (30, 200)}
"""Median and 99th percentile of an answer, in milliseconds."""
CELLS_ON_S3_MS: Mapping[str, tuple[float, float]] = {"put": (28, 75), "get": (25, 85), "delete": (28, 75), "keys": (40, 200)}
SQLITE_MS: Mapping[str, tuple[float, float]] = {"put": (5, 40), "get": (0.2, 2), "delete": (5, 40), "keys": (1, 20)}


TABLE_NETWORK = Network(
    latency_ms=DYNAMODB_MS, very_slow=0.001, time_out_s=2.0, slow_s=(0.2, 4.0), late_s=(0.5, 120.0), pause_s=(0.1, 300.0)
)
"""Clients of tables give up sooner than those of objects, and what is late is late by seconds."""
CALM_NETWORK = replace(TABLE_NETWORK, very_slow=0.0)
"""Never slower than usual."""


class SimTable(SimService[MemoryTable]):
    """The one table of a run."""

    def __init__(
        self,
        name: str,
        *,
        loop: SimLoop,
        plan: FaultPlan | None,
        network: Network,
        rng_of: Callable[[str], random.Random],
        trace: Trace,
        counts: Counter[str],
    ) -> None:
        memory = MemoryTable(name=name)
        super().__init__(name, memory, loop=loop, plan=plan, network=network, rng_of=rng_of, trace=trace, counts=counts)

    def client(self, process: SimProcess) -> SimTableClient:
        """The table as ``process`` sees it."""
        return SimTableClient(self, process)


class SimTableClient:
    """A `CellTable` for one process."""

    lists_cheaply = False

    def __init__(self, table: SimTable, process: SimProcess) -> None:
        self._table = table
        self._connection: Connection[MemoryTable] = Connection(table, process)

    @property
    def url(self) -> str:
        return self._table.memory.url

    async def get(self, key: str) -> Cell | None:
        return await self._connection.call("get", key, lambda memory: memory.get(key))

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        return await self._connection.call(
            "put", key, lambda memory: memory.put(key, data, expected=expected), data, conditional=True
        )

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        await self._connection.call("delete", key, lambda memory: memory.delete(key, expected=expected), conditional=True)

    async def keys(self, prefix: str) -> list[str]:
        return await self._connection.call("keys", prefix, lambda memory: memory.keys(prefix))

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        # It takes what `keys` takes: both scan the table.
        return await self._connection.call("keys", " ".join(prefixes), lambda memory: memory.read_all(prefixes, known=known))

    async def close(self) -> None:
        pass
