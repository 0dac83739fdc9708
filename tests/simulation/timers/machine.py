"""A machine on which a topic's timers are played, life after life."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.coordinator.timers.delivery import _player, _unwatched
from penstock.log.errors import ClockSkewError, PenstockError, TopicDeleted, TopicNotFound
from tests.simulation.process import Crashed, SimClock, SimProcess
from tests.simulation.timers.plot import TOPIC
from tests.simulation.timers.progress import Watched
from tests.simulation.world import log_uniform

if TYPE_CHECKING:
    from tests.simulation.timers.world import Timing


class Machine:
    """Started again when its process crashes or was deployed anew, until it is stopped."""

    def __init__(self, world: Timing, name: str) -> None:
        self.world = world
        self.name = name
        self.process: SimProcess | None = None
        self.watched: Watched | None = None
        self.rest_s = 0.0
        """How long it stays away when its process has ended."""
        self.life: asyncio.Task[None] | None = None
        self._rng = world.kernel.rng(f"machine/{name}")
        self._clock: SimClock | None = None
        self._leaving: asyncio.Event | None = None
        self._stopping = False

    def start(self) -> None:
        self.life = asyncio.ensure_future(self._live())

    async def deploy(self) -> None:
        """Let the process leave; the next one starts by itself."""
        if self.process is not None and self._leaving is not None and not self.process.crashed:
            self.world.counts["deploy"] += 1
            process = self.process
            process.call(self._leaving.set)
            await process.ended()

    async def stop(self) -> None:
        """Let the process leave, for good."""
        self._stopping = True
        if self.life is None:
            return
        if self._leaving is not None and self.process is not None:
            self.process.call(self._leaving.set)
        await self.life

    async def _live(self) -> None:
        while not self._stopping:
            self.watched = None
            self.process = self.world.new_process(self.name, self._clock)
            self._clock = self.process.clock
            self._leaving = asyncio.Event()
            with suppress(Crashed):
                await self.process.run(self._work(self.process, self._leaving))
            self.process.crash()
            if self._stopping:
                return
            self.world.counts["restart"] += 1
            rest_s, self.rest_s = self.rest_s, 0.0
            await asyncio.sleep(rest_s or log_uniform(self._rng, 0.05, 5.0))

    async def _work(self, process: SimProcess, leaving: asyncio.Event) -> None:
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
