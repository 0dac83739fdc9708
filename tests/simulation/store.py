"""The simulated object store: a `MemoryStore` behind a network that delays, loses and repeats requests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.log.stores.memory import MemoryStore, join
from penstock.log.stores.protocol import Buffer, ObjectInfo, Put, PutMode, StoredObject, Version
from tests.simulation.faults import FaultPlan
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network
from tests.simulation.process import SimClock, SimProcess
from tests.simulation.requests import Connection, Gate, SimService
from tests.simulation.trace import Trace

__all__ = ["Gate", "SimClient", "SimStore"]


class SimStore(SimService[MemoryStore]):
    """The one store of a run."""

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
        memory = MemoryStore(name=name, clock=SimClock(loop))
        super().__init__(name, memory, loop=loop, plan=plan, network=network, rng_of=rng_of, trace=trace, counts=counts)

    def client(self, process: SimProcess) -> SimClient:
        """The store as ``process`` sees it."""
        return SimClient(self, process)


class SimClient:
    """An `ObjectStore` for one process."""

    def __init__(self, store: SimStore, process: SimProcess) -> None:
        self._store = store
        self._connection: Connection[MemoryStore] = Connection(store, process)

    @property
    def url(self) -> str:
        return self._store.memory.url

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        body = join(data)
        return await self._connection.call(
            "put", key, lambda m: m.put(key, body, mode=mode), body, conditional=mode is not Put.REPLACE
        )

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        body = join(data)
        await self._connection.call("put_large", key, lambda m: m.put_large(key, body), body)

    async def get(self, key: str) -> StoredObject:
        return await self._connection.call("get", key, lambda m: m.get(key))

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        return await self._connection.call("get_range", key, lambda m: m.get_range(key, start, limit))

    async def list_folders(self, prefix: str) -> Sequence[str]:
        return await self._connection.call("list_folders", prefix, lambda m: m.list_folders(prefix))

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        full = self._store.network.page_keys
        found: list[ObjectInfo] = []
        while True:
            page = full if max_keys is None else min(full, max_keys - len(found))
            rows = await self._connection.call("list", prefix, _lister(prefix, after, page))
            found += rows
            if len(rows) < page or len(found) == max_keys:
                return found
            after = rows[-1].key

    async def delete(self, key: str) -> None:
        await self._connection.call("delete", key, lambda m: m.delete(key))

    async def clock_ms(self) -> int:
        return await self._connection.call("clock", "", lambda m: m.clock_ms())

    async def close(self) -> None:
        pass


def _lister(prefix: str, after: str | None, page: int) -> Callable[[MemoryStore], Coroutine[Any, Any, list[ObjectInfo]]]:
    return lambda memory: memory.list(prefix, after=after, max_keys=page)
