"""Penstock for asynchronous callers: the same classes, natively on the running event loop.

    async with penstock.aio.connect("./lake") as lake:
        producer = await lake.producer("orders")
        receipt = await producer.send(penstock.Message(b"paid", message_group="user-7"))

``send`` is an ordinary call and returns a receipt at once; awaiting the receipt waits until the message is durable. On the loop's own thread
a full producer raises `BackPressureError`; ``await producer.wait_for_room()`` waits instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import EllipsisType
from typing import Any, Literal, TypeVar

from penstock.consumers import (
    BroadcastConsumer,
    MemoryMetrics,
    Metrics,
    PullConsumer,
    PushConsumer,
    PushOptions,
    SimpleConsumer,
    SimpleOptions,
)
from penstock.consumers.consumer import Consumer
from penstock.consumers.membership import Subscription
from penstock.consumers.subscribe import Queues, Topics, assignment, check_listener, settings_stated, subscribed
from penstock.coordinator import (
    DeadLetterPolicy,
    DeliveryOrder,
    Part,
    RetryPolicy,
    Timers,
    TimerStatistics,
    Upkeep,
    check_coordination,
    run_roles,
)
from penstock.coordinator.transactions.role import run_finisher
from penstock.coordinator.transactions.transaction import Transaction
from penstock.log import (
    ClosedError,
    InvalidArgument,
    MessageType,
    ObjectStore,
    PenstockError,
    PermissionDenied,
    Position,
    Producer,
    Reader,
    ReadOnlyError,
    Runtime,
    TopicSettings,
    open_store,
)
from penstock.log.limits import check_flag
from penstock.log.topics import Topic

from .timer_lake import TimerLake
from .transaction_lake import Checking, TransactionLake

__all__ = [
    "BroadcastConsumer",
    "Checking",
    "Lake",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Reader",
    "SimpleConsumer",
    "TopicSettings",
    "Transaction",
    "connect",
]

PUSH_DEFAULTS = PushOptions()
SIMPLE_DEFAULTS = SimpleOptions()

log = logging.getLogger("penstock.maintenance")

_MAINTAINING_ENDS_S = 5.0
_APPEAR_LATER = frozenset({MessageType.DELAY, MessageType.TRANSACTION})


ConsumerT = TypeVar("ConsumerT", bound=Consumer)


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    maintenance: bool = True,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
) -> Lake:
    """Open a lake on the running event loop. The arguments are those of `penstock.connect`."""
    check_flag("read_only", read_only, operation="connect")
    check_flag("maintenance", maintenance, operation="connect")
    _check_kind("store", store, ObjectStore)
    _check_kind("runtime", runtime, Runtime)
    _check_kind("options", options, Mapping)
    if options is not None and not all(isinstance(part, str) for pair in options.items() for part in pair):
        raise InvalidArgument("options are texts by name", operation="connect", expected='such as {"region": "eu-west-1"}')
    runtime = runtime or Runtime()
    if store is None:
        store = open_store(url or "", runtime=runtime, options=options)
    elif url is not None or options is not None:
        raise InvalidArgument(
            "a store is given, so there is nothing for a URL or for options to say",
            operation="connect",
            expected="either a URL or a store",
            observed=f"both, and the URL is {os.fspath(url)}" if url is not None else "options beside a store",
        )
    check_coordination(coordination, store)
    return Lake(store, runtime=runtime, read_only=read_only, coordination=coordination, maintenance=maintenance, options=options)


def _check_kind(name: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise InvalidArgument(
            f"{name} is of another kind", operation="connect", expected=kind.__name__, observed=type(given).__name__
        )


class Lake(TimerLake, TransactionLake):
    """Topics, producers, readers and consumer groups under one root. Use it in an ``async with`` block, or close it: that writes what was sent."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        coordination: str | None = None,
        maintenance: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """``coordination`` names the table of consumer groups (see `penstock.coordinator.open_table`); all workers of a lake must name the same.
        With ``maintenance`` it takes its share in publishing, compaction, retention, trimming and collection, beginning some seconds after its
        first write.
        """
        super().__init__(store, runtime=runtime, read_only=read_only, coordination=coordination, options=options)
        self._maintains = maintenance
        self._stop_maintaining = asyncio.Event()
        self._maintaining: asyncio.Task[object] | None = None
        self._timers = Timers(self)
        self._consumers: list[Consumer] = []
        self._ending: asyncio.Task[None] | None = None

    async def _writable(self, operation: str) -> None:
        await super()._writable(operation)
        self._take_part()

    def _take_part(self) -> None:
        if self._maintains and self._maintaining is None:
            self._maintaining = asyncio.ensure_future(self._maintain())

    async def _maintain(self) -> None:
        """Play the roles that maintain a lake, as far as they fall to this process. Nobody waits for it: failures are logged."""
        coordination, stop = self.coordination, self._stop_maintaining
        upkeep = Upkeep(self, coordination.cells, coordination.groups, on_step=self._log_step, on_look=self._timers.see)
        maintained = run_roles(
            coordination.cells,
            coordination.worker,
            coordination.watch,
            self.runtime,
            Part(topics=upkeep.topics, play=upkeep.play),
            stop,
            ready=coordination.claim,
            report=lambda topic, error: self._log_step(topic, "role", error),
        )
        timed = self._timers.run(coordination, stop, on_error=lambda topic, error: self._log_step(topic, "timers", error))
        finished = run_finisher(
            self.transactions,
            coordination,
            stop,
            report=lambda what, error: self._log_step(what, "transactions", error),
            patience_s=10.0,
        )
        await asyncio.gather(maintained, timed, finished)

    def timer_statistics(self) -> dict[str, TimerStatistics]:
        """The work of this process by topic whose delayed messages it delivers, and the number of messages that wait. Any thread may ask."""
        return dict(self._timers.statistics)

    async def timer_log(self, name: str, *, writable: bool = False) -> tuple[Topic, Topic]:
        """The timer log as `penstock.log.Lake.timer_log` gives it. Messages sent to the topic are delivered by this process, too."""
        found = await super().timer_log(name, writable=writable)
        if writable:
            self._timers.notice(name, found[0].record.created_ms)
        return found

    def _log_step(self, topic: str, step: str, result: object) -> None:
        if isinstance(result, PermissionDenied):
            log.info("this process may not maintain topic %s, and leaves it to others: %s", topic, result)
            self._stop_maintaining.set()
        elif isinstance(result, PenstockError):
            log.warning("maintenance of topic %s: %s failed, and is tried again: %s", topic, step, result)

    async def _end_maintaining(self) -> None:
        self._stop_maintaining.set()
        if self._maintaining is not None:
            await asyncio.wait((self._maintaining,), timeout=_MAINTAINING_ENDS_S)
            self._maintaining.cancel()  # every step may be broken off
            await asyncio.gather(self._maintaining, return_exceptions=True)

    # --- Consumers --------------------------------------------------------------------------------------------------------------

    async def topic(self, name: str, *, writable: bool = False) -> Topic:
        """The topic as `penstock.log.Lake.topic` gives it. A process that consumes a topic whose messages appear later than they are sent
        takes part in making them appear.
        """
        found = await super().topic(name, writable=writable)
        if self._consumers and found.settings.message_type in _APPEAR_LATER:
            if found.settings.message_type is MessageType.DELAY:
                self._timers.notice(name, found.record.created_ms)
            self._take_part()
        return found

    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: Callable[..., Any],
        delivery_order: DeliveryOrder | str | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicy | str | None = None,
        threads: int = PUSH_DEFAULTS.threads,
        cache_messages: int = PUSH_DEFAULTS.cache_messages,
        cache_bytes: int = PUSH_DEFAULTS.cache_bytes,
        consume_timeout: timedelta = PUSH_DEFAULTS.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: Literal["group", "queue"] | None = None,
        batch_messages: int = PUSH_DEFAULTS.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer:
        """Join a consumer group, and run ``listener`` for every message of a topic, or of several: ``{topic: filter}``.

        On an event loop, use ``async with lake.push_consumer(…) as consumer``, or await it.
        Errors of the call are raised at once, a topic or group that does not fit when it is awaited.

        ``listener`` takes a `MessageView` and returns `ConsumeResult.SUCCESS`, ``FAILURE``, ``DEAD_LETTER`` or `RetryAfter`. Raising,
        returning anything else, or running longer than ``consume_timeout`` is a failure too. An ordinary function runs in ``threads``
        threads, a coroutine function in as many tasks on the lake's event loop. With ``batch`` it takes a list, of one message group or of
        one queue, of at most ``batch_messages``; it may return a `BatchResult` that says how many succeeded.

        A message that succeeded is settled, and handed out again only after a crash or a reset. In an ORDERLY group the messages of a
        message group run one after the other, and a failing one blocks its message group. In a CONCURRENT one all run side by side.

        The group is created when there is none. ``delivery_order``, ``retry``, ``max_attempts`` (None: any number), ``dead_letter_policy``
        and ``filter`` (``"paid || refunded"``, ``"SQL92: price > 10"``) are the group's settings. An omitted one is as the group has it; a
        stated one must agree with the group.

        ``start`` says where a group begins that has not consumed the topic before: ``"earliest"``, ``"latest"``, a store time or an offset.
        ``cache_messages`` and ``cache_bytes`` bound the messages that are fetched and not yet settled. Messages that retention removed
        before the group had them are passed over with an error in the log, or (``on_expired="stop"``) end the consumer with
        `OffsetOutOfRange`. ``metrics`` counts.

        Raises `InvalidArgument` for errors of the call, and, with both settings, when the group has other ones. Raises `LimitExceeded`,
        `TopicNotFound`, `ReadOnlyError`, `OffsetOutOfRange`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        check_listener(listener, batch=batch is not None)
        stated = settings_stated(
            delivery_order=delivery_order, retry=retry, max_attempts=max_attempts, dead_letter_policy=dead_letter_policy
        )
        options = PushOptions(
            threads=threads,
            cache_messages=cache_messages,
            cache_bytes=cache_bytes,
            consume_timeout=consume_timeout,
            on_expired=on_expired,
            batch=batch,
            batch_messages=batch_messages,
            metrics=MemoryMetrics() if metrics is None else metrics,
        )
        return self._known(
            PushConsumer(
                self,
                self.coordination,
                group=group,
                subscriptions=subscriptions,
                listener=listener,
                stated=stated,
                options=options,
            )
        )

    def simple_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        delivery_order: DeliveryOrder | str | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicy | str | None = None,
        receive_max: int = SIMPLE_DEFAULTS.receive_max,
        cache_messages: int = SIMPLE_DEFAULTS.cache_messages,
        cache_bytes: int = SIMPLE_DEFAULTS.cache_bytes,
        metrics: Metrics | None = None,
    ) -> SimpleConsumer:
        """Join a consumer group, and receive messages of a topic, or of several (``{topic: filter}``), by ``receive`` and ``ack``.

        On an event loop, use ``async with lake.simple_consumer(…) as consumer``, or await it.
        Errors of the call are raised at once, a topic or group that does not fit when it is awaited.

        A received message is invisible to others for a while. If it is acknowledged in that time, it never comes back. Otherwise that was a
        failed attempt, and it is received again, until after ``max_attempts`` deliveries the ``dead_letter_policy`` applies. ORDERLY: while
        a message of a message group is out, later ones of that group wait, unless the same ``receive`` gave them; other groups do not. A
        group may also have push consumers.

        ``receive_max`` bounds what one ``receive`` may ask for; ``cache_messages`` and ``cache_bytes`` bound what is fetched ahead.
        ``filter``, ``start``, ``metrics`` and stated settings of the group are as `push_consumer` says. Raises `InvalidArgument` for errors
        of the call, and, with both settings, when the group has other ones than stated. Raises `LimitExceeded`, `TopicNotFound`,
        `ReadOnlyError`, `OffsetOutOfRange`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        stated = settings_stated(delivery_order=delivery_order, max_attempts=max_attempts, dead_letter_policy=dead_letter_policy)
        options = SimpleOptions(
            receive_max=receive_max,
            cache_messages=cache_messages,
            cache_bytes=cache_bytes,
            metrics=MemoryMetrics() if metrics is None else metrics,
        )
        return self._known(
            SimpleConsumer(self, self.coordination, group=group, subscriptions=subscriptions, stated=stated, options=options)
        )

    def pull_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        queues: Queues | None = None,
        filter: str | None = None,
        start: Position = "earliest",
    ) -> PullConsumer:
        """Join a consumer group, and read a topic, or several (``{topic: filter}``), by ``poll`` and ``commit``.

        On an event loop, use ``async with lake.pull_consumer(…) as consumer``, or await it.
        Errors of the call are raised at once, a topic or group that does not fit when it is awaited.

        The queues are shared evenly among the group's members and may come and go (subscribe). ``queues``, numbers of the topic or
        ``{topic: numbers}``, asks for these instead, however many others the group has (assign). The messages of a queue come in order from
        the offset that the group has committed. Nothing is retried or dead-lettered: the caller goes back with ``seek``. Messages handed
        out and not committed come again, after a crash or with the queue's next owner.

        ``filter`` and ``start`` are as `push_consumer` says. Raises `InvalidArgument` for errors of the call, and when the group has
        another filter. Raises `LimitExceeded`, `TopicNotFound`, `ReadOnlyError`, `OffsetOutOfRange`. A group with messages that are tracked
        by themselves (failed, in flight, parked) ends its PullConsumers with `penstock.consumers.GroupMixed`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        assigned = None if queues is None else assignment(queues, list(subscriptions))
        return self._known(
            PullConsumer(self, self.coordination, group=group, subscriptions=subscriptions, stated={}, queues=assigned)
        )

    def broadcast_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        member: str,
        listener: Callable[..., Any],
        filter: str | None = None,
        start: Position = "earliest",
        consume_timeout: timedelta = PUSH_DEFAULTS.consume_timeout,
    ) -> BroadcastConsumer:
        """Run ``listener`` for every message of a topic, or of several (``{topic: filter}``), in every member of a broadcasting group.

        On an event loop, use ``async with lake.broadcast_consumer(…) as consumer``, or await it.
        Errors of the call are raised at once, `TopicNotFound` when it is awaited.

        ``member`` is the name under which this process's progress is kept, saved each second and at closing. A consumer that opens the name
        again goes on there, after a crash up to a second before. A name belongs to the consumer that opened it last. The former one ends
        with `FencedError` when it next has progress to save, so until then both may be given a message. The messages of a queue are run one
        after the other, different queues side by side. A message whose listener fails, raises or runs longer than ``consume_timeout`` is
        logged, and not tried again.

        ``start`` says where a new name begins; ``filter`` is this member's own. Raises `InvalidArgument` for errors of the call,
        `TopicNotFound`, `ReadOnlyError`, `OffsetOutOfRange`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        check_listener(listener, batch=False)
        return self._known(
            BroadcastConsumer(
                self,
                self.coordination,
                group=group,
                member=member,
                subscriptions=subscriptions,
                listener=listener,
                consume_timeout=consume_timeout,
            )
        )

    def _subscribed(self, topics: Topics, filter: str | None, start: Position) -> dict[str, Subscription]:
        """The subscriptions of a consumer. Raises when no consumer may be opened, or none with these arguments."""
        self._check_open()
        if self._ending is not None:
            raise ClosedError("the lake is being closed", object=self.url)
        if self.read_only:
            raise ReadOnlyError(
                "the lake was opened with read_only=True, and a consumer writes how far it is", operation="subscribe"
            )
        return subscribed(topics, filter, start)

    def _known(self, consumer: ConsumerT) -> ConsumerT:
        self._consumers = [one for one in self._consumers if not one.done] + [consumer]
        return consumer

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all consumers, which lets their handlers end. Then close readers and producers, which writes pending messages, and then the
        rest.

        Raises the first error of a consumer or producer that nobody was told, and `InvalidArgument` inside a handler. A concurrent caller
        waits for the same end; closing again does nothing. Giving up waiting does not stop it.
        """
        for consumer in self._consumers:
            consumer.check_outside()
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        elif self._ending.done():
            return  # the error was raised before
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        try:
            await self._close_consumers()
        finally:
            await super().close()

    async def _close_consumers(self) -> None:
        untold = [one for one in self._consumers if not one.closed]
        ends = await asyncio.gather(*(one.close() for one in self._consumers), return_exceptions=True)
        for consumer, end in zip(self._consumers, ends, strict=True):
            if consumer in untold and end is not None:
                raise end

    async def _close(self) -> None:
        try:
            await self._end_maintaining()
        finally:
            await super()._close()
