"""Broadcasting: every member gets every message, in queue order."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from ..coordinator.coordination import Coordination
from ..coordinator.queues.restores import InconsistentRestore
from ..coordinator.registry.broadcast_progress import MemberProgress, open_progress
from ..log.errors import (
    ClosedError,
    DataDamaged,
    InvalidArgument,
    OffsetOutOfRange,
    RetryError,
    UnknownOutcome,
)
from ..log.escapes import escaped
from ..log.filter.filters import parse_filter
from ..log.format.growth import former_queues
from ..log.lake import LogLake
from ..log.limits import Duration, checked_duration
from ..log.message.message import MessageView, views
from ..log.paths import check_group_name
from ..log.read.reader import Reader
from ..log.runtime.backoff import Backoff
from ..log.topic.topics import Topic
from .consumer import Consumer
from .dead_letters.group_filter import GroupFilter
from .feed.feed import Feed
from .handlers.executor import Executor, executor_of
from .handlers.missing_result import MissingResultLog
from .handlers.results import Listener
from .limits import CONSUME_TIMEOUT, CONSUME_TIMEOUT_MAX, HUNG_MAX, ROUNDS_PER_TIMEOUT
from .membership import Subscription, check_subscribed
from .schedule.lanes import Lane, LaneRun

log = logging.getLogger("penstock.consumers")

SAVE_EVERY = timedelta(seconds=1)
HANDLERS_MAX = 256
"""The handlers at once, at most one for each queue."""
_MEMBER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FETCH_ROWS_MAX = 500
_FETCH_BYTES_MAX = 4 * 1024 * 1024
_TROUBLE_S = 0.2


class _Turn:
    until_s = math.inf
    """No lease is checked."""

    def __init__(self, message: MessageView) -> None:
        self.run = LaneRun(Lane(0), (message,))
        self.over = asyncio.Event()

    def moved(self, *_: LaneRun) -> None:
        if self.run.ended:
            self.over.set()


class BroadcastConsumer(Consumer):
    """A named member of a broadcasting group, whose listener gets every message. ``lake.broadcast_consumer`` makes it.

    Use it in an ``async with`` block, or close it: that lets running handlers end, and saves its progress.

    Messages of one queue come one after the other, different queues side by side. A queue that the topic got later begins once the messages before
    it are done that its message groups had in their former queue. A listener that fails, raises or runs longer than
    ``consume_timeout`` is logged, and the message counts as done. Progress is saved every second and on close: after a crash the messages of the last
    second come again, as do messages whose handlers outlast the close. A later consumer of the name ends this one with `FencedError`.
    """

    _OPERATION: ClassVar[str] = "broadcast"

    member: str
    """The name under which its progress is kept."""

    def __init__(
        self,
        lake: LogLake,
        coordination: Coordination,
        *,
        group: str,
        member: str,
        subscriptions: Mapping[str, Subscription],
        listener: Listener,
        consume_timeout: Duration = CONSUME_TIMEOUT,
        save_every: timedelta = SAVE_EVERY,
    ) -> None:
        check_group_name(group)
        check_member_name(member)
        timeout = checked_duration(
            "consume_timeout", consume_timeout, most=CONSUME_TIMEOUT_MAX, operation="broadcast", above_zero=True
        )
        super().__init__(group, name=f"member {member} of broadcasting group {group}")
        self.member = member
        self._lake = lake
        self._coordination = coordination
        self._subscriptions = dict(subscriptions)
        self._listener = listener
        self._timeout_s = timeout.total_seconds()
        self._save_s = save_every.total_seconds()
        self._no_answers = MissingResultLog(group, listener, then="it is logged, and nothing is tried again")
        self._feeds: dict[str, Feed] = {}
        self._progress: dict[str, MemberProgress] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._executor: Executor | None = None
        self._turns: dict[tuple[str, int], _Turn] = {}
        self._queues: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._passed = asyncio.Event()
        """Set as messages are done, for queues that wait for a former one."""

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        topics = {name: await self._lake.topic(name) for name in self._subscriptions}
        for name, topic in topics.items():
            await check_subscribed(topic, self._subscriptions[name].filter)
        await self._lake.keep_time()  # the lake's time tells when the next entries are expected
        for name, topic in topics.items():
            offsets = await Reader(topic).resolve(self._subscriptions[name].start)
            progress = await open_progress(
                self._coordination.cells,
                self._lake.runtime,
                group=self.group,
                topic=name,
                member=self.member,
                life=topic.life,
                start=tuple(offset for _, offset in sorted(offsets.items())),
            )
            if len(progress.progress.offsets) > topic.settings.queues:
                await topic.tail.catch_up()
            await self._check_end(topic, progress.progress.offsets)
            self._progress[name] = progress
            queues = range(max(len(progress.progress.offsets), topic.settings.queues))
            self._next |= {(name, queue): progress.progress.of(queue) for queue in queues}
        self._feeds = {name: Feed(topic) for name, topic in topics.items()}

    async def _check_end(self, topic: Topic, offsets: Sequence[int]) -> None:
        """Raise `InconsistentRestore` when the log ends before the member's progress."""
        for queue, offset in enumerate(offsets):
            if offset > topic.tail.state.next_offset(queue):
                await topic.tail.catch_up()
            if offset > (following := topic.tail.state.next_offset(queue)):
                raise InconsistentRestore(
                    "the log was put back to an older state, and to go on would pass messages over",
                    operation="broadcast",
                    object=f"{self.group}, member {self.member}, {topic.paths.topic} queue {queue}",
                    expected=f"the next offset to be written at {offset} or above",
                    observed=following,
                    hint="put back a coordination table that is as old as the bucket or older, or give the member another name: "
                    "it begins at its start position",
                )

    async def _work(self) -> None:
        self._executor = executor_of(
            self._listener,
            batches=False,
            at_once=min(max(1, len(self._next)), HANDLERS_MAX),
            clock=self._lake.runtime.clock,
            group=self.group,
        )
        others = [asyncio.ensure_future(work) for work in (self._save_often(), self._time_out(self._executor))]
        saving, growing = others[0], asyncio.ensure_future(self._grown())
        try:
            while not (self._stopping.is_set() and saving.done() and all(task.done() for task in self._queues.values())):
                for queue in self._next.keys() - self._queues.keys():
                    self._queues[queue] = asyncio.ensure_future(self._follow(*queue, self._executor))
                waiting = [task for task in (saving, growing, *self._queues.values()) if not task.done()]
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not task.cancelled():
                        task.result()
                if growing.done() and not self._stopping.is_set():
                    growing = asyncio.ensure_future(self._grown())
            await self._save()
        finally:
            tasks = [*others, growing, *self._queues.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _grown(self) -> None:
        """Return once a topic has got more queues, which are noted, or the consumer stops."""
        while not self._stopping.is_set():
            queues = [(name, queue) for name, feed in self._feeds.items() for queue in range(feed.topic.settings.queues)]
            if new := [queue for queue in queues if queue not in self._next]:
                self._next |= dict.fromkeys(new, 0)
                return
            await self._unless_stopping(asyncio.sleep(self._save_s))

    async def _give_up(self) -> None:
        self._stopping.set()

    def _break_off(self) -> None:
        for task in self._queues.values():
            task.cancel()  # only these: saving what was done goes on

    async def _end(self) -> None:
        for feed in self._feeds.values():
            await feed.close()
        if self._executor is not None:
            await self._executor.close()

    def _handles_here(self) -> bool:
        return self._executor is not None and self._executor.runs_here()

    # --- Messages ---------------------------------------------------------------------------------------------------------------

    async def _follow(self, topic: str, queue: int, executor: Executor) -> None:
        feed, keep = self._feeds[topic], GroupFilter(self.group, parse_filter(self._subscriptions[topic].filter))
        feed.attach(queue)
        pause = Backoff(_TROUBLE_S)
        former = list(former_queues(feed.topic.tail.state.growths, queue))
        while not self._stopping.is_set() and any(self._next[topic, one] < mark for one, mark in former):
            self._passed.clear()
            await self._unless_stopping(self._passed.wait())
        while not self._stopping.is_set():
            start = self._next[topic, queue]
            try:
                rows = await feed.fetch(queue, start, rows_max=_FETCH_ROWS_MAX, bytes_max=_FETCH_BYTES_MAX)
            except OffsetOutOfRange:
                kept = await feed.kept_from(queue, start)
                gone = "%s: offsets %d to %d of %s queue %d are gone by retention"
                log.error(gone, self._name, start, kept - 1, topic, queue)  # noqa: TRY400 - it says all
                self._advance(topic, queue, kept)
                continue
            except (RetryError, DataDamaged) as error:
                log.warning("%s cannot read: %s", self._name, error)
                await self._unless_stopping(asyncio.sleep(pause.next_s()))
                continue
            if rows is None:
                await self._unless_stopping(feed.arrived(queue, start))
                continue
            pause = Backoff(_TROUBLE_S)
            for message in views(topic, keep.apply(rows, feed.schema)):
                if self._stopping.is_set():
                    return
                await self._handle(message, executor)
                self._advance(topic, queue, message.offset + 1)
            self._advance(topic, queue, start + rows.num_rows)

    def _advance(self, topic: str, queue: int, following: int) -> None:
        self._next[topic, queue] = following
        self._passed.set()

    async def _handle(self, message: MessageView, executor: Executor) -> None:
        queue, turn = (message.topic, message.queue), _Turn(message)
        self._turns[queue] = turn
        try:
            executor.start(turn, (turn.run,))
            await turn.over.wait()
        finally:
            del self._turns[queue]
        failure = turn.run.failure
        if failure is not None:
            self._no_answers.note(failure.reason)
        if failure is not None or not turn.run.done:
            log.warning(
                "%s: %s queue %d, offset %d failed, and is not tried again: %s",
                self._name,
                *queue,
                message.offset,
                "the listener declined it" if failure is None else escaped(failure.reason),
            )
        if executor.hung > HUNG_MAX:
            raise ClosedError("too many handlers hang", operation="broadcast", object=self.group, observed=executor.hung)

    async def _time_out(self, executor: Executor) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._timeout_s / ROUNDS_PER_TIMEOUT))
            before_s = self._lake.runtime.clock.monotonic_s() - self._timeout_s
            for turn in list(self._turns.values()):
                if turn.run.is_late(before_s):
                    turn.run.time_out(f"its handler ran longer than {self._timeout_s:g} s")
                    executor.gave_up(turn.run)
                    turn.over.set()

    async def _unless_stopping(self, work: Any) -> None:  # noqa: ANN401 - any awaitable
        waiting = [asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting[0].done():
                waiting[0].result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    # --- Progress ---------------------------------------------------------------------------------------------------------------

    async def _save_often(self) -> None:
        while not self._stopping.is_set():
            await self._unless_stopping(asyncio.sleep(self._save_s))
            try:
                await self._save()
            except (RetryError, UnknownOutcome) as error:
                log.warning("%s cannot save its progress: %s", self._name, error)

    async def _save(self) -> None:
        for topic, progress in self._progress.items():
            count = sum(name == topic for name, _ in self._next)
            await progress.save(tuple(self._next[topic, queue] for queue in range(count)))


def check_member_name(member: object) -> None:
    if not isinstance(member, str) or not _MEMBER.fullmatch(member):
        raise InvalidArgument(
            "bad member name",
            operation="broadcast",
            expected="1 to 64 letters, digits, '_', '-' and '.'",
            observed=repr(member),
        )
