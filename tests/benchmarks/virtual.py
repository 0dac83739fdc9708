"""A world in virtual time: real code, one simulated process for each client, and a store as slow as S3.

Time passes only where something waits (a request, a linger), so figures of latency and of requests are the same on a busy machine and
on a quiet one. Work of the processor takes no time here; the figures that need it are measured on real clocks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.log import LogLake, Pace
from penstock.log.stores.counting import CountingStore, StoreStatistics
from penstock.log.stores.latency import S3_STANDARD, LatencyStore
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock, SimProcess

T = TypeVar("T")


class KindsStore(StoreWrapper):
    """Counts calls by verb and by the kind of object they ask for, to see where requests go."""

    def __init__(self, inner: ObjectStore, kinds: dict[str, int]) -> None:
        super().__init__(inner)
        self._kinds = kinds

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        kind = f"{call.verb} {kind_of(call.key)}"
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        return await run()


def kind_of(key: str) -> str:
    """What a key, or a listed prefix, is about."""
    for part in ("checkpoints", "floor", "handed", "jobs", "_delta_log", "table", "log"):
        if f"/{part}" in key:
            return {"handed": "hand-over", "jobs": "staged part", "log": "entry", "checkpoints": "checkpoint"}.get(part, part)
    return "other"


@dataclass(frozen=True)
class Client:
    """A process, the lake it has open, and what it asks of the store."""

    process: SimProcess
    lake: LogLake
    store: CountingStore


class World:
    """Everything of one seed."""

    def __init__(self, seed: int, *, pace: Pace | None = None) -> None:
        self.kernel = Kernel(f"benchmark-{seed}", max_steps=10**9)
        self.memory = MemoryStore(clock=SimClock(self.kernel.loop))
        self.kinds: dict[str, int] = {}
        self.clients: list[Client] = []
        self._pace = pace

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    def client(self, name: str) -> Client:
        """A new process on a machine of its own."""
        process = self.kernel.process(name)
        slow = LatencyStore(self.memory, profile=S3_STANDARD, runtime=process.runtime)
        store = CountingStore(KindsStore(slow, self.kinds))
        client = Client(process, LogLake(store, runtime=process.runtime, pace=self._pace), store)
        self.clients.append(client)
        return client

    def requests(self) -> StoreStatistics:
        """What all clients asked of the store so far."""
        total = StoreStatistics()
        for client in self.clients:
            total = added(total, client.store.statistics())
        return total

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.kernel.run(main)


def added(one: StoreStatistics, other: StoreStatistics) -> StoreStatistics:
    return one - (StoreStatistics() - other)
