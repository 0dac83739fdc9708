"""PushConsumer: hands messages to a listener as they come, and settles what it says of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self

from ..coordinator.coordination import Coordination
from ..coordinator.groups import DeliveryOrder, GroupRecord
from ..log.errors import ClosedError, InvalidArgument, PenstockError, unforeseen
from ..log.lake import Lake
from ..log.limits import MIB, is_positive
from .dead_letters import DeadLetterWriter
from .engine import PushSurroundings, QueueEngine
from .executor import Executor, Tasks, Threads, is_coroutine_function
from .failures import FailureLog
from .lanes import Run
from .limits import Limits
from .membership import Membership, Subscription
from .metrics import MemoryMetrics, Metrics, Sample
from .older import OlderHandlers
from .queue_life import QueueLife
from .queue_owner import queue_statistics
from .statistics import ConsumerStatistics, TopicCounters, consumer_samples

log = logging.getLogger("penstock.consumers")

THREADS = 20
CACHE_MESSAGES = 1_024
CACHE_BYTES = 64 * MIB
CONSUME_TIMEOUT = timedelta(minutes=15)
BATCH_MESSAGES = 32
_HUNG_MAX = 100
_ROUNDS_PER_TIMEOUT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """How a PushConsumer works. Raises `InvalidArgument` for what makes no sense."""

    threads: int = THREADS
    """Handlers at once: threads, or tasks of a coroutine function."""
    cache_messages: int = CACHE_MESSAGES
    """Fetched and not settled, over all queues."""
    cache_bytes: int = CACHE_BYTES
    on_expired: Literal["skip", "stop"] = "skip"
    """When retention took messages before the group had them: pass over them and log an error, or end with `OffsetOutOfRange`."""
    consume_timeout: timedelta = CONSUME_TIMEOUT
    """A handler that runs longer is a failed attempt; what it says later counts no more."""
    batch: Literal["group", "queue"] | None = None
    """Hand the listener lists: of one message group, or of one queue."""
    batch_messages: int = BATCH_MESSAGES
    """The most in a list."""
    window: int = 10_000
    """Messages of a queue from the first unsettled one to the last handed out; at the cap fetching stops."""
    metrics: Metrics = field(default_factory=MemoryMetrics)

    def __post_init__(self) -> None:
        for name in ("threads", "cache_messages", "cache_bytes", "batch_messages", "window"):
            if not is_positive(getattr(self, name)):
                raise InvalidArgument(
                    f"{name} must be a positive whole number", operation="push consumer", observed=getattr(self, name)
                )
        timeout: object = self.consume_timeout
        if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
            raise InvalidArgument("consume_timeout must be a timedelta above zero", operation="push consumer", observed=timeout)
        if self.on_expired not in ("skip", "stop"):
            raise InvalidArgument(
                "on_expired is not known", operation="push consumer", expected="'skip' or 'stop'", observed=self.on_expired
            )
        if self.batch not in (None, "group", "queue"):
            raise InvalidArgument(
                "batch is not known", operation="push consumer", expected="'group', 'queue' or None", observed=self.batch
            )


class PushConsumer:
    """A member of a consumer group that runs a listener for every message. Made by ``lake.push_consumer``.

    ORDERLY: the messages of a message group run one after the other, in the order they were stored, a later one only when the earlier one
    is settled; different groups side by side. CONCURRENT: all side by side. A message is acknowledged once, by its queue's owner; after a
    crash it may be handed out again. Every message carries its `delivery_attempt` and the `epoch` of the ownership, which fence what a
    paused process still does.
    """

    def __init__(
        self,
        lake: Lake,
        coordination: Coordination,
        *,
        group: str,
        subscriptions: Mapping[str, Subscription],
        listener: Callable[..., Any],
        stated: Mapping[str, object],
        options: PushOptions,
    ) -> None:
        self._lake = lake
        self._runtime = lake.runtime
        self._options = options
        self._listener = listener
        self.group = group
        self._membership = Membership(lake, coordination, group=group, subscriptions=subscriptions, stated=stated)
        self._worker = coordination.worker
        self._executor: Executor | None = None
        self._engines: dict[tuple[str, int], QueueEngine] = {}
        self._lives: dict[asyncio.Task[None], tuple[str, int]] = {}
        self._older: OlderHandlers | None = None
        self._failures = FailureLog(group)
        self._loop: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self.error: PenstockError | None = None
        """Why it ended by itself."""

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group. Raises before anything runs when topic, group or settings do not fit."""
        try:
            self._check_open()
            record = await self._membership.begin()
            self._check_open()
        except BaseException:
            await self._membership.end()
            raise
        orderly = record.settings.delivery_order is DeliveryOrder.ORDERLY
        batches = self._options.batch is not None
        clock = self._runtime.clock
        if is_coroutine_function(self._listener):
            self._executor = Tasks(self._listener, batches=batches, tasks=self._options.threads, clock=clock)
        else:
            self._executor = Threads(
                self._listener, batches=batches, threads=self._options.threads, clock=clock, name=f"penstock-{self.group}"
            )
        self._older = OlderHandlers(self._executor, orderly=orderly)
        self._unwatch = self._options.metrics.watch(self._samples)
        self._loop = asyncio.ensure_future(self._run())
        self._membership.follow(self._loop)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise ClosedError("the consumer was closed before it had begun", operation="consume", object=self.group)

    async def drain(self) -> None:
        """Begin to close, and start nothing more: on return handlers of what was on its way may still begin, no others."""
        await self._membership.give_up()
        for engine in self._engines.values():
            engine.drain()

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Start nothing more, wait for the handlers that run (at most ``timeout``), settle what they did, and leave the group.

        Closing again waits for the same end, at most as long as it says itself. Raises what ended the consumer by itself before.
        """
        self.check_outside()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        if timeout is not None:
            await asyncio.wait((self._closing,), timeout=timeout.total_seconds())
            if not self._closing.done() and self._loop is not None:
                self._loop.cancel()
        await asyncio.shield(self._closing)

    @property
    def closed(self) -> bool:
        """Whether somebody closes it, or did."""
        return self._closing is not None

    @property
    def done(self) -> bool:
        """Whether it was closed, to the end."""
        return self._closing is not None and self._closing.done()

    def check_outside(self) -> None:
        """Raise `InvalidArgument` inside a handler of this consumer, which would wait for itself."""
        if self._executor is not None and self._executor.runs_here():
            raise InvalidArgument(
                "a listener cannot close its own consumer: that waits for the listener's end",
                operation="close",
                object=self.group,
                hint="let it drain, which does not wait, or tell another thread or task to close it",
            )

    async def ended(self) -> None:
        """Wait until it was closed, or ended by itself. Raises why."""
        assert self._loop is not None, "it was started"
        await asyncio.wait((self._loop,))
        if self.error is not None:
            raise self.error

    async def _close(self) -> None:
        if self._loop is None:
            return
        if not self._loop.done():
            await self._membership.give_up()
        await asyncio.gather(self._loop, return_exceptions=True)
        if self._executor is not None:
            await self._executor.close()
        if self.error is not None:
            raise self.error

    async def _run(self) -> None:
        ticking = asyncio.ensure_future(self._time_out())
        try:
            await self._rounds()
        except PenstockError as error:
            log.error("the consumer of group %s ends: %s", self.group, error)  # noqa: TRY400 - it says all
            self.error = error
        except Exception as error:
            log.exception("the consumer of group %s ends", self.group)
            self.error = unforeseen(error, operation="consume")
        finally:
            if self._unwatch is not None:
                self._unwatch()
            ticking.cancel()
            for task in self._lives:
                task.cancel()
            await asyncio.gather(ticking, *self._lives, return_exceptions=True)
            await self._membership.end()

    async def _rounds(self) -> None:
        """Take and give back queues, until the member has left."""
        while True:
            change = await self._membership.round()
            if change is None:
                continue
            for (topic, queue), keeper in change.taken.items():
                self._own(topic, queue, keeper, change.record)
            for queue_of in change.drain:
                if queue_of in self._engines:
                    self._engines[queue_of].drain()
            for engine in self._engines.values():
                engine.notice(change.record)
            self._look_after_lives()
            if self._membership.leaving and not self._lives and change.may_leave:
                return
            await self._membership.rest(self._lives)

    def _own(self, topic: str, queue: int, keeper: Any, record: GroupRecord) -> None:  # noqa: ANN401
        options = self._options
        counters = TopicCounters.of(options.metrics, topic=topic, group=self.group)
        if keeper.taken_from:
            counters.take_overs.add()
        writer = DeadLetterWriter(self._lake, self.group, topic, queue, may_write=lambda: not keeper.ended.is_set())
        around = PushSurroundings(
            group=self.group,
            runtime=self._runtime,
            worker=self._worker,
            member=self._membership.member,
            start=self._start,
            abandoned=self._abandoned,
            returned=self._returned,
            room=self._room,
            failures=self._failures,
            freed=self._freed,
            on_expired=options.on_expired,
            limits=Limits(
                batch_of=options.batch,
                run_messages=options.batch_messages if options.batch else Limits().run_messages,
                retained=max(Limits().retained, options.cache_messages),
                window=options.window,
            ),
        )
        engine = QueueEngine(
            around, keeper, self._membership.feed(topic), writer, counters, topic=topic, queue=queue, record=record
        )
        self._engines[topic, queue] = engine
        if self._membership.leaving:
            engine.drain()
        self._lives[asyncio.ensure_future(engine.run())] = (topic, queue)

    def _look_after_lives(self) -> None:
        for task in [task for task in self._lives if task.done()]:
            queue_of = self._lives.pop(task)
            engine = self._engines.get(queue_of)
            if engine is not None and engine.ended.is_set():
                del self._engines[queue_of]
            task.result()

    # --- What queues ask ----------------------------------------------------------------------------------------------------------

    def _start(self, engine: QueueEngine, runs: Sequence[Run]) -> None:
        assert self._older is not None, "it was started"
        self._older.start(engine, runs)

    def _abandoned(self, engine: QueueEngine, runs: Sequence[Run]) -> None:
        if self._older is not None:
            self._older.add(engine, runs)

    def _returned(self, run: Run) -> None:
        if self._older is not None:
            self._older.ended(run)

    def _room(self, engine: QueueLife[Any]) -> tuple[int, int]:
        """What a queue may fetch: its part of the caches, and half of what the others leave."""
        count = max(1, len(self._engines))
        messages = sum(one.schedule.in_memory for one in self._engines.values())
        size = sum(one.schedule.in_memory * one.bytes_per_message for one in self._engines.values())
        own = engine.schedule.in_memory
        room = max(
            self._options.cache_messages // count - own, (self._options.cache_messages - messages) // 2, 1 if own == 0 else 0
        )
        room_bytes = max(self._options.cache_bytes / count - own * engine.bytes_per_message, (self._options.cache_bytes - size) / 2)
        if room_bytes < engine.bytes_per_message and own:
            return 0, 0
        return room, max(1, int(room_bytes))

    def _freed(self) -> None:
        for engine in self._engines.values():
            if engine.starving:
                engine.feed()

    async def _time_out(self) -> None:
        """Give up handlers that run too long."""
        timeout_s = self._options.consume_timeout.total_seconds()
        while True:
            await asyncio.sleep(min(1.0, timeout_s / _ROUNDS_PER_TIMEOUT))
            assert self._executor is not None, "it was started"
            assert self._older is not None, "it was started"
            before_s = self._runtime.clock.monotonic_s() - timeout_s
            reason = f"its handler ran longer than {timeout_s:g} s"
            self._older.time_out(before_s, reason)
            for engine in list(self._engines.values()):
                late = engine.time_out(before_s, reason)
                self._older.add(engine, late)
                for run in late:
                    self._executor.gave_up(run)
            if self._older.hung > _HUNG_MAX:
                self._membership.fail(
                    ClosedError("too many handlers hang", operation="consume", object=self.group, observed=self._older.hung)
                )

    # --- What operators see -------------------------------------------------------------------------------------------------------

    def statistics(self) -> ConsumerStatistics:
        """How its queues stand."""
        return ConsumerStatistics(
            group=self.group,
            queues=tuple(queue_statistics(engine, _in_flight(engine)) for engine in list(self._engines.values())),
            topic_queues=tuple(self._membership.queues.items()),
        )

    def _samples(self) -> list[Sample]:
        return list(consumer_samples(self.statistics(), now_ms=self._runtime.clock.wall_ms()))

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        if self._loop is None:
            await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _in_flight(engine: QueueEngine) -> int:
    return sum(len(run.messages) - run.done for run in list(engine.schedule.running))
