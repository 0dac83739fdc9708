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
from tests.simulation.process import SimProcess
from tests.simulation.simulated import SimulatedMachine

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


class Machine(SimulatedMachine):
    """Started again when its process crashes, until its work has ended."""

    ends_by_itself = True
    rest_s = (0.05, 50.0)

    def __init__(self, world: Transacting, name: str, work: Work) -> None:
        super().__init__(world, name)
        self._world = world
        self._work = work
        self.start()

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        life = self._world.open(process, leaving)
        await self._work(life)
        await self._world.close(life)
