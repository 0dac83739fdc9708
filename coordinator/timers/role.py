"""The timers of a lake as a role."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial

from ...log.errors import PenstockError, TopicDeleted, TopicNotFound, is_never_allowed
from ...log.lake import LogLake
from ...log.paths import is_timer_log, topic_of
from ...log.runtime.backoff import Backoff, wait_for
from ..cells.cells import Cells
from ..coordination import Coordination
from ..groups.record import GroupRecord
from ..rebalance.roles import OfferedRole, Players, run_roles, stand_in
from .cell.cell import timer_cells
from .delivery import play, play_once
from .options import TimerOptions
from .player import TimerStatistics
from .young_topics import YoungTopics, seconds_until_known, with_young_topics

TIMERS = "timers"
OnError = Callable[[str, PenstockError], None]
"""A callback with the topic (or ``-``) and the error."""
_LOOK_S = 60.0
_PATIENCE_S = 10.0
_PAUSE_S = 0.25
_AGAIN_S = 5.0
_SOON_S = 900.0
"""The idle time below which a dead player should be replaced quickly."""


class Timers:
    """Plays the timers of one lake. Any number of processes may do so at once; one is enough."""

    def __init__(self, lake: LogLake, *, cells: Cells | None = None, options: TimerOptions | None = None) -> None:
        self._lake = lake
        self._cells = cells or timer_cells(lake)
        self._options = options or TimerOptions()
        self._seen: frozenset[str] = frozenset()
        self._noticed: set[str] = set()
        self._sent_to: dict[str, asyncio.Event] = {}
        """Events set by sends, by topic played here."""
        self._young = YoungTopics(lake.runtime.clock)
        self._awake: Callable[[], Awaitable[None]] | None = None
        self._wakeup = asyncio.Event()
        self.statistics: dict[str, TimerStatistics] = {}

    def see(self, topics: Collection[str]) -> None:
        """Note the existing topics."""
        logs = frozenset(topic_of(name) for name in topics if is_timer_log(name))
        if logs - self._seen:
            self._wakeup.set()
        self._seen = logs

    def notice(self, topic: str, made_ms: int) -> None:
        self._young.notice(topic, made_ms)
        self._take_notice(topic)

    def _take_notice(self, topic: str) -> None:
        if (sent_to := self._sent_to.get(topic)) is not None:
            sent_to.set()
        if topic not in self._seen | self._noticed:
            self._noticed.add(topic)
            self._wakeup.set()

    async def topics(self) -> Collection[str]:
        return self._seen | self._noticed

    async def run(self, coordination: Coordination, stop: asyncio.Event, *, on_error: OnError) -> None:
        """Play a fair share of the topics until ``stop`` is set."""
        if await self._wanted(stop):
            await asyncio.gather(self._share(coordination, stop, on_error), self._tell(coordination, stop, on_error))

    async def _share(self, coordination: Coordination, stop: asyncio.Event, on_error: OnError) -> None:
        self._awake = coordination.worker.awake
        await self._let_others(coordination, stop, on_error)
        await run_roles(
            coordination.cells,
            coordination.worker,
            coordination.watch,
            self._lake.runtime,
            OfferedRole(role=TIMERS, topics=self.topics, play=self.play, wakeup=self._wakeup, heard=self._hear),
            stop,
            ready=coordination.claim,
            report=on_error,
            patience_s=0.0,
        )

    async def _tell(self, coordination: Coordination, stop: asyncio.Event, on_error: OnError) -> None:
        players = Players(coordination.cells, self._lake.runtime)
        await self._young.tell(players, TIMERS, stop, ready=coordination.claim, report=partial(on_error, "-"))

    def _hear(self, record: GroupRecord) -> None:
        for topic in self._young.receive(record):
            self._take_notice(topic)

    async def stand_in(
        self, coordination: Coordination, topic: str, made_ms: int, stop: asyncio.Event, *, on_error: OnError
    ) -> None:
        """Play a young topic until its players know of it, for a process that sends to it and takes no part. Raises `PermissionDenied`."""
        clock, backoff = self._lake.runtime.clock, Backoff(_PAUSE_S)
        players = Players(coordination.cells, self._lake.runtime)
        part = OfferedRole(role=TIMERS, topics=self.topics, play=self.play)
        while not stop.is_set() and (left_s := seconds_until_known(made_ms, clock.wall_ms())) > 0:
            try:
                await coordination.claim()
                await players.update(TIMERS, partial(with_young_topics, made_ms={topic: made_ms}, now_ms=clock.wall_ms()))
                await stand_in(
                    coordination.cells,
                    coordination.worker,
                    coordination.watch,
                    self._lake.runtime,
                    part,
                    topic,
                    stop,
                    for_s=left_s,
                    report=on_error,
                )
            except PenstockError as error:
                if is_never_allowed(error):
                    raise
                on_error(topic, error)
                await wait_for(backoff.next_s(), stop)
            else:
                return

    async def play(self, topic: str, stop: asyncio.Event) -> None:
        """Deliver until ``stop`` is set, or the topic was deleted."""
        sent_to = self._sent_to[topic] = asyncio.Event()
        try:
            with suppress(TopicDeleted):
                await self._play(topic, stop)
        except TopicNotFound:
            if not sent_to.is_set():
                self._noticed.discard(topic)
                await wait_for(_LOOK_S, stop, sent_to)
        finally:
            self._sent_to.pop(topic, None)

    async def _play(self, topic: str, stop: asyncio.Event) -> None:
        try:
            await play(self._lake, self._cells, topic, stop, self._options, on_step=lambda one: self._step(topic, one))
        finally:
            self.statistics.pop(topic, None)

    async def once(self, topic: str) -> TimerStatistics:
        return await play_once(self._lake, self._cells, topic, self._options)

    async def _step(self, topic: str, statistics: TimerStatistics) -> None:
        self.statistics[topic] = statistics
        if self._awake is not None and statistics.idle_s < _SOON_S:
            await self._awake()

    async def _let_others(self, coordination: Coordination, stop: asyncio.Event, on_error: OnError) -> None:
        """Keep a short-lived process from taking part while others play, whose heartbeats are watched from the first moment."""
        clock, watch = self._lake.runtime.clock, coordination.watch
        players = Players(coordination.cells, self._lake.runtime)
        until_s = clock.monotonic_s() + _PATIENCE_S
        while not stop.is_set() and (now_s := clock.monotonic_s()) < until_s:
            try:
                others = (await players.get(TIMERS)).members
                await watch.look(others)
            except PenstockError as error:
                on_error("-", error)
                look_s = now_s + _AGAIN_S
            else:
                if all(watch.is_dead(other) for other in others):
                    return
                look_s = max(now_s + _PAUSE_S, watch.due_s(other for other in others if not watch.is_dead(other)))
            await wait_for(min(look_s, until_s) - clock.monotonic_s(), stop)

    async def _wanted(self, stop: asyncio.Event) -> bool:
        while not stop.is_set() and not await self.topics():
            self._wakeup.clear()
            await wait_for(None, stop, self._wakeup)
        return not stop.is_set()
