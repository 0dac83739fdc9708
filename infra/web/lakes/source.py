"""One lake of the console: opened on demand or after a loss, and looked at once for all viewers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar, cast

from ....aio import Lake
from ....coordinator.operators.lake_view import GroupOverview, LakeOverview, LakeView, UnreadKind
from ....log.errors import PenstockError, ReopenError, RetryError
from ....log.message.message import from_ms
from ....log.runtime.runtime import Runtime
from ....log.stores.counting import CountingStore
from ....log.stores.wrapper import StoreWrapper
from ....log.topic.records import topic_names
from ...lake_metrics import view_of
from ..faults import ErrorReport
from .history import MetricsHistory, point_of
from .jobs import BackgroundJobs
from .memo import LookCache

T = TypeVar("T")

log = logging.getLogger("penstock.console")

WATCHING_USD = 0.45
"""The most that an open page may cost a month, unless an operator sets a pace."""
WATCHED_S_MAX = 3 * 3600.0
"""The longest time between two looks for an open page."""
WATCHED_MAX = 256
_MONTH_S = 730 * 3600

_waits: ContextVar[bool] = ContextVar("waits", default=False)

STALE_LOOKS = 3.0
"""The refreshes for which an old look is shown while the next one is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An unreadable part of the lake."""

    kind: str
    name: str
    fault: ErrorReport


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSnapshot:
    """All groups, timers and topics' names of a lake, by one look."""

    at: datetime
    topics: tuple[str, ...]
    seen: LakeOverview
    before: LakeOverview | None = None
    """The look before, for rates."""
    unread: tuple[UnreadableItem, ...] = ()
    had_topics: bool = False
    _made: dict[Callable[[LakeSnapshot], object], object] = field(init=False, default_factory=dict, repr=False, compare=False)

    def memoized(self, make: Callable[[LakeSnapshot], T]) -> T:
        """The result of ``make``, kept with this look."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    def group(self, name: str) -> tuple[GroupOverview, ...]:
        return tuple(one for one in self.seen.groups if one.group == name)

    def topic(self, name: str) -> tuple[GroupOverview, ...]:
        return tuple(one for one in self.seen.groups if one.topic == name)


@dataclass(slots=True)
class _Opened:
    lake: Lake
    view: LakeView
    last: LakeOverview | None = None
    had_topics: bool = False


@dataclass
class LakeSource:
    """A lake by its name in URLs. ``open`` gives a new `Lake`; ``refresh`` is the time of a look. Callers get the lake by `using`, which opens a lost
    one anew.
    """

    name: str
    open: Callable[[], Lake]
    runtime: Runtime
    refresh: timedelta
    coordination: str | None = None
    """None: the lake's default."""
    is_far: bool = False
    """Whether requests are what a look costs."""
    is_thrifty: bool = False
    """Whether open pages look less often where a look costs more, by a `CountingStore`."""
    memo: LookCache = field(init=False)
    shown: str = field(init=False)
    """The lake's URL without secrets."""
    history: MetricsHistory = field(init=False, default_factory=MetricsHistory)
    jobs: BackgroundJobs = field(init=False)
    _opened: _Opened | None = field(init=False, default=None)
    _had_topics: bool = field(init=False, default=False)
    _watch_usd: dict[Hashable, float] = field(init=False, default_factory=dict)
    """The cost of each open page's last look."""
    _endings: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.memo = LookCache(self.runtime.clock.monotonic_s)
        self.jobs = BackgroundJobs(self.runtime.clock)
        self.shown = self._open().lake.url  # a URL that is none is told at once; nothing is asked of the store

    async def using(self, work: Callable[[Lake], Awaitable[T]]) -> T:
        """The result of ``work``. After an error of a lost lake the next caller opens it anew."""
        opened = self._open()
        try:
            return await work(opened.lake)
        except ReopenError as error:
            self._lose(opened, error)
            raise

    async def look(self) -> LakeSnapshot:
        fresh_s = self.refresh.total_seconds()
        stale_s = 0.0 if _waits.get() else fresh_s * STALE_LOOKS
        return await self.memo.get(("look",), self._look, fresh_s=fresh_s, stale_s=stale_s)

    async def polled(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The result of ``make`` for open pages, shared, and made anew at `poll_interval`."""

        async def counted() -> T:
            _waits.set(True)  # for the new look: this one is in no hurry, and what it costs must be seen
            before_usd = self._spent_usd()
            made = await make()
            # The first one may have to open the lake, which says nothing of the next ones.
            self._watch_usd[key] = self._spent_usd() - before_usd if key in self._watch_usd else 0.0
            return made

        if len(self._watch_usd) > WATCHED_MAX:
            self._watch_usd.clear()
        return await self.memo.get(("watched", key), counted, fresh_s=0.9 * self.poll_interval(key).total_seconds())

    def poll_interval(self, key: Hashable) -> timedelta:
        """A reload may look after ``refresh``."""
        if not self.is_thrifty:
            return self.refresh
        wanted_s = self._watch_usd.get(key, 0.0) / WATCHING_USD * _MONTH_S
        return max(self.refresh, timedelta(seconds=min(wanted_s, WATCHED_S_MAX)))

    def _spent_usd(self) -> float:
        store = None if self._opened is None else self._opened.lake.store
        while isinstance(store, StoreWrapper) and not isinstance(store, CountingStore):
            store = store.inner
        return store.statistics().cost_usd if isinstance(store, CountingStore) else 0.0

    async def cached(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The result of ``make``, shared for a moment."""
        return await self.memo.get(key, make, fresh_s=min(2.0, self.refresh.total_seconds()))

    def changed(self) -> None:
        """Forget all looks after an action."""
        self.memo.clear()

    async def close(self) -> None:
        await self.jobs.close()
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await opened.lake.close()
        if self._endings:
            await asyncio.gather(*self._endings)

    def _open(self) -> _Opened:
        if self._opened is None:
            lake = self.open()
            self._opened = _Opened(lake, view_of(lake, precise=self.refresh, lists=self.is_far))
        return self._opened

    def _lose(self, opened: _Opened, error: PenstockError) -> None:
        if self._opened is opened:
            log.warning("the lake %s is opened anew: %s", self.name, error)
            self._opened = None
            ending = asyncio.ensure_future(self._end(opened.lake))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _end(self, lake: Lake) -> None:
        try:
            await lake.close()
        except PenstockError as error:
            log.warning("the lost lake %s did not close in order: %s", self.name, error)

    async def _look(self) -> LakeSnapshot:
        opened = self._open()
        unread: list[UnreadableItem] = []

        def failed(kind: UnreadKind, name: str, error: PenstockError) -> None:
            unread.append(UnreadableItem(kind=str(kind), name=name, fault=ErrorReport.of(error)))
            if isinstance(error, ReopenError):
                self._lose(opened, error)

        at = from_ms(opened.lake.runtime.clock.wall_ms())
        try:
            names = await topic_names(opened.lake.store)
            seen = await opened.view.look(failed=failed)
        except (ReopenError, RetryError) as error:
            self._lose(opened, error)
            raise
        before, opened.last = opened.last, seen
        self.history.add(point_of(at, seen))
        if opened.had_topics and not names:
            # What is open goes on as if nothing was written any more: a log that is gone looks like one that stands still.
            self._lose(opened, lake_gone_error(self.shown))
        opened.had_topics = bool(names)
        self._had_topics |= bool(names)
        return LakeSnapshot(at=at, topics=tuple(names), seen=seen, before=before, unread=tuple(unread), had_topics=self._had_topics)


def lake_gone_error(lake: str) -> ReopenError:
    """The error of a lake that lost all topics."""
    return ReopenError("the lake had topics, and has none any more", operation="look at the lake", object=lake)
