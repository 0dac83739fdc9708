"""Workers in virtual time: each is a process of its own, over one simulated table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.coordinator.cells.cells import WRITE_ID_BYTES, Cells
from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.workers.lease import Heartbeat, decode_heartbeat
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.coordinator.workers.worker import Worker
from tests.simulation.faults import Fault, FaultPlan, ScriptedFaults, Where
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock, SimProcess
from tests.simulation.table import CALM_NETWORK, SimTable

T = TypeVar("T")


class Stage:
    """A table and processes around it. Without faults unless a script names them."""

    def __init__(self, seed: int | str = 1, *faults: tuple[Where, Fault], plan: FaultPlan | None = None) -> None:
        self.kernel = Kernel(seed)
        self.script = ScriptedFaults(faults)
        self.table: SimTable = self.kernel.table(plan=plan or self.script, network=CALM_NETWORK)

    @property
    def now_s(self) -> float:
        return self.kernel.loop.now

    def process(self, name: str, *, rate: float = 1.0) -> SimProcess:
        return self.kernel.process(name, clock=SimClock(self.kernel.loop, rate=rate, boot_s=1000.0))

    def cells(self, process: SimProcess) -> Cells:
        return Cells(self.table.client(process), process.runtime)

    def worker(self, process: SimProcess, *, lease_s: float = 5.0, label: str = "") -> Worker:
        return Worker(self.cells(process), process.runtime, lease_s=lease_s, label=label)

    def watch(self, process: SimProcess) -> LeaseWatch:
        return LeaseWatch(self.cells(process), process.runtime)

    async def heartbeat(self, worker: str) -> Heartbeat | None:
        """As it stands, at once and without a fault."""
        cell = await self.table.memory.get(worker_key(worker))
        return decode_heartbeat(cell.data[WRITE_ID_BYTES:], where=worker) if cell is not None else None

    def count(self, verb: str, process: SimProcess) -> int:
        return sum(call.verb == verb and call.process == process.name for call in self.table.calls)

    def play(self, script: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.kernel.run(script())


async def keep_looking(watch: LeaseWatch, owner: str) -> None:
    """Look as consumers do, until the owner is fenced."""
    while True:
        await watch.look([owner])
        if watch.is_dead(owner) and await watch.fence(owner):
            return
        clock = watch._clock
        await asyncio.sleep(max(0.001, watch.due_s([owner]) - clock.monotonic_s()))
