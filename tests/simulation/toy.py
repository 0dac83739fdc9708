"""A toy protocol for testing the simulation itself: one counter, raised by compare-and-set, by several processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from penstock.log.errors import StoreUnavailable
from penstock.log.stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put
from tests.simulation.faults import FaultPlan
from tests.simulation.kernel import Kernel
from tests.simulation.process import Crashed, SimProcess
from tests.simulation.store import SimStore

COUNTER = "counter"


class Client:
    """Adds one at a time. A careful client looks, after any doubt, whether its addition is there; a careless one adds again."""

    def __init__(self, store: ObjectStore, process: SimProcess, *, careful: bool) -> None:
        self._store = store
        self._process = process
        self._careful = careful
        self.started = 0
        self.acknowledged = 0

    async def add(self, times: int) -> None:
        for _ in range(times):
            self.started += 1
            await self._add_one(f"{self._process.name}-{self.started}")
            self.acknowledged += 1
            await asyncio.sleep(self._process.runtime.random.expovariate(10))

    async def _add_one(self, write_id: str) -> None:
        while True:
            try:
                ids, mode = await self._read()
                if self._careful and write_id in ids:
                    return
                await self._store.put(COUNTER, json.dumps([*ids, write_id]).encode(), mode=mode)
                return
            except (Conflict, StoreUnavailable):
                await asyncio.sleep(self._process.runtime.random.uniform(0.01, 0.1))

    async def _read(self) -> tuple[list[str], IfMatch | Put]:
        try:
            found = await self._store.get(COUNTER)
        except ObjectMissing:
            return [], Put.CREATE
        return json.loads(found.data), IfMatch(found.version)


class World:
    """A run of the toy: ``clients`` processes that each add ``times``."""

    def __init__(self, kernel: Kernel, store: SimStore, *, clients: int, times: int, careful: bool = True) -> None:
        self.kernel = kernel
        self.store = store
        self.times = times
        self.processes = [kernel.process(f"adder-{number}", max_offset_ms=1000, max_drift=0.05) for number in range(clients)]
        self.clients = [Client(store.client(process), process, careful=careful) for process in self.processes]

    async def main(self) -> None:
        pairs = zip(self.processes, self.clients, strict=True)
        await asyncio.gather(*(self._live(process, client) for process, client in pairs))
        await self.store.settled()

    async def _live(self, process: SimProcess, client: Client) -> None:
        try:
            await process.run(client.add(self.times))
        except Crashed:
            self.kernel.counts["crash seen"] += 1

    def stored(self) -> Sequence[str]:
        held: Any = self.store.memory._objects.get(COUNTER)
        return json.loads(held.data) if held else []

    def right(self) -> bool:
        """What is stored is what was acknowledged, and at most the one addition that a crash left in doubt besides."""
        stored = self.stored()
        acknowledged = sum(client.acknowledged for client in self.clients)
        started = sum(client.started for client in self.clients)
        return len(set(stored)) == len(stored) and acknowledged <= len(stored) <= started


def play(seed: int, plan: FaultPlan | None = None, *, clients: int = 3, times: int = 4, careful: bool = True) -> World:
    """One run, to its end."""
    kernel = Kernel(seed)
    world = World(kernel, kernel.store(plan=plan), clients=clients, times=times, careful=careful)
    kernel.run(world.main())
    return world
