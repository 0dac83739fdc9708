"""A machine of a run with transactions: the process on it, life after life, and what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.coordinator.coordination import Coordination
from penstock.coordinator.transactions.service import Transactions
from penstock.log.lake import LogLake
from tests.simulation.process import Crashed, SimClock, SimProcess
from tests.simulation.world import log_uniform

if TYPE_CHECKING:
    from tests.simulation.transactions.world import Transacting


@dataclass(frozen=True, slots=True)
class Life:
    """One process, with a lake open."""

    world: Transacting
    process: SimProcess
    lake: LogLake
    coordination: Coordination
    transactions: Transactions
    leaving: asyncio.Event
    """Set when it is to end in order."""

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until it is to leave."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.leaving.wait()


Work = Callable[[Life], Coroutine[Any, Any, None]]


class Machine:
    """Started again when its process crashes, until its work has ended."""

    def __init__(self, world: Transacting, name: str, work: Work) -> None:
        self.world = world
        self.name = name
        self.process: SimProcess | None = None
        self._work = work
        self._rng = world.kernel.rng(f"machine/{name}")
        self._leaving: asyncio.Event | None = None
        self._stopping = False
        self.life = asyncio.ensure_future(self._live())

    async def stop(self) -> None:
        """Let the process leave, for good."""
        self._stopping = True
        if self._leaving is not None and self.process is not None and not self.process.crashed:
            self.process.call(self._leaving.set)
        await self.life

    async def _live(self) -> None:
        clock: SimClock | None = None
        while True:
            self.process = self.world.new_process(self.name, clock)
            clock, self._leaving = self.process.clock, asyncio.Event()
            if self._stopping:
                self._leaving.set()
            try:
                await self.process.run(self._one_life(self.process, self._leaving))
                return
            except Crashed:
                self.world.counts["restart"] += 1
                await asyncio.sleep(log_uniform(self._rng, 0.05, 50.0))

    async def _one_life(self, process: SimProcess, leaving: asyncio.Event) -> None:
        life = self.world.open(process, leaving)
        await self._work(life)
        await self.world.close(life)
