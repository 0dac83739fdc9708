"""A machine on which a topic's timers are played, life after life."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.coordinator.timers.delivery import _player, _unwatched
from penstock.log.errors import ClockSkewError, PenstockError, TopicDeleted, TopicNotFound
from tests.simulation.process import SimProcess
from tests.simulation.simulated import SimulatedMachine, log_uniform
from tests.simulation.timers.plot import TOPIC
from tests.simulation.timers.progress import Watched

if TYPE_CHECKING:
    from tests.simulation.timers.world import Timing


class Machine(SimulatedMachine):
    """Also started again when it was deployed anew."""

    leaves_at_once = True

    def __init__(self, world: Timing, name: str) -> None:
        super().__init__(world, name)
        self.world = world
        self.watched: Watched | None = None
        self.away_s = 0.0
        """How long it stays away when its process has ended; 0: as usual."""

    def began(self, process: SimProcess) -> None:
        self.watched = None

    def pause_s(self) -> float:
        away_s, self.away_s = self.away_s, 0.0
        return away_s or super().pause_s()

    async def work(self, process: SimProcess, leaving: asyncio.Event) -> None:
        world = self.world
        lake = world.lake(process)
        cells = world.cells(process, lake)
        while not leaving.is_set():
            try:
                async with _player(lake, cells, TOPIC, world.plot.options) as player:  # as `play` does
                    self.watched = Watched(player, process)
                    await player.run(leaving, _unwatched)
                self.watched = None
            except PenstockError as error:
                self.watched = None
                world.check_expected(process.name, error, allowed=isinstance(error, TopicNotFound | TopicDeleted | ClockSkewError))
                await asyncio.sleep(log_uniform(self._rng, 0.1, 2.0))
        with suppress(PenstockError):
            await lake.close()
