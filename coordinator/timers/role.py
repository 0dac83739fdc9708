"""The timers of a lake as a role: whoever plays it lets go what waits for the topics of type DELAY."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from ...log.errors import PenstockError, TopicDeleted, TopicNotFound
from ...log.lake import Lake
from ...log.paths import is_timer_log, topic_of
from ..cells import Cells
from ..coordination import Coordination
from ..roles import Part, Players, run_roles
from .cell import timer_cells
from .options import TimerOptions
from .play import play, play_once
from .player import TimerStatistics, wait_for

TIMERS = "timers"
"""The role's name."""
OnError = Callable[[str, PenstockError], None]
"""Hears of what failed, and for which topic (or ``-``)."""
_LOOK_S = 60.0
_PATIENCE_S = 10.0
_SOON_S = 900.0
"""A process that lets something go so soon is to be replaced soon when it dies."""


class Timers:
    """Plays the timers of one lake. Any number of processes may do so at once; one is enough.

    Which topics there are it is told: by who maintains the lake, and by who sends to one of them in this process.
    """

    def __init__(self, lake: Lake, *, cells: Cells | None = None, options: TimerOptions | None = None) -> None:
        self._lake = lake
        self._cells = cells or timer_cells(lake)
        self._options = options or TimerOptions()
        self._seen: frozenset[str] = frozenset()
        self._noticed: set[str] = set()
        self._awake: Callable[[], Awaitable[None]] | None = None
        self._news = asyncio.Event()
        self.statistics: dict[str, TimerStatistics] = {}
        """Of the topics that this process plays for."""

    def see(self, topics: Collection[str]) -> None:
        """These topics of the lake there are; those that are none of ours are passed over."""
        logs = frozenset(topic_of(name) for name in topics if is_timer_log(name))
        if logs - self._seen:
            self._news.set()
        self._seen = logs

    def notice(self, topic: str) -> None:
        """Something is sent to this topic."""
        if topic not in self._seen | self._noticed:
            self._noticed.add(topic)
            self._news.set()

    async def topics(self) -> Collection[str]:
        """Those that are known."""
        return self._seen | self._noticed

    async def run(self, coordination: Coordination, stop: asyncio.Event, *, on_error: OnError) -> None:
        """Play the role for a fair share of the topics until ``stop`` is set, from when there is one on."""
        if await self._wanted(stop):
            self._awake = coordination.worker.awake
            # Where nobody plays yet what is sent now may be due in a second. Else a process that opens the lake for a moment takes no part.
            patience_s = _PATIENCE_S if await self._others(coordination, on_error) else 0.0
            await run_roles(
                coordination.cells,
                coordination.worker,
                coordination.watch,
                self._lake.runtime,
                Part(role=TIMERS, topics=self.topics, play=self.play, news=self._news),
                stop,
                ready=coordination.claim,
                report=on_error,
                patience_s=patience_s,
            )

    async def play(self, topic: str, stop: asyncio.Event) -> None:
        """Let go what is due until ``stop`` is set."""
        try:
            await play(self._lake, self._cells, topic, stop, self._options, on_step=lambda one: self._step(topic, one))
        except (TopicNotFound, TopicDeleted):
            self._noticed.discard(topic)
            self.statistics.pop(topic, None)
            await wait_for(_LOOK_S, stop)
        finally:
            self.statistics.pop(topic, None)

    async def once(self, topic: str) -> TimerStatistics:
        """Let go what is due now."""
        return await play_once(self._lake, self._cells, topic, self._options)

    async def _step(self, topic: str, statistics: TimerStatistics) -> None:
        self.statistics[topic] = statistics
        if self._awake is not None and statistics.idle_s < _SOON_S:
            await self._awake()

    async def _others(self, coordination: Coordination, on_error: OnError) -> bool:
        try:
            return bool((await Players(coordination.cells, self._lake.runtime).get(TIMERS)).members)
        except PenstockError as error:
            on_error("-", error)
            return True

    async def _wanted(self, stop: asyncio.Event) -> bool:
        while not stop.is_set() and not await self.topics():
            self._news.clear()
            await wait_for(None, stop, self._news)
        return not stop.is_set()
