"""The synchronous face of a lake: the same objects as `penstock.aio`, run on one event-loop thread of this process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import EllipsisType, TracebackType
from typing import Any, Literal, Self, TypeVar

from penstock.consumers import Metrics, PushOptions, SimpleOptions
from penstock.consumers.consumer import Consumer
from penstock.consumers.statistics import sends_counted
from penstock.consumers.subscribe import Queues, Topics
from penstock.coordinator import DeadLetterPolicy, DeliveryOrder, RetryPolicy
from penstock.log import (
    ClosedError,
    ForkedError,
    MessageType,
    ObjectStore,
    Position,
    ProducerOptions,
    ProducerStatistics,
    Runtime,
    TopicDescription,
    TopicLimits,
    TopicRecord,
    TopicSettings,
)
from penstock.log import Producer as AsyncProducer
from penstock.log.portal import Portal

from . import aio
from .blocking.consumers import BroadcastConsumer, PullConsumer, PushConsumer, SimpleConsumer
from .blocking.face import close_after
from .ends import Producer, Reader
from .group_operations import GroupOperations
from .timer_operations import TimerOperations
from .transaction_operations import TransactionOperations

_PUSH = PushOptions()
_SIMPLE = SimpleOptions()

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
    """Open a lake: a folder, ``memory://``, ``s3://bucket/prefix?region=…``, ``gs://…`` or ``az://…`` (see `penstock.log.open_store`).

    Nothing is read or written yet. ``read_only=True`` never writes. A store may be given instead of a URL, for example a
    `penstock.log.stores.MemoryStore` that several lakes share.

    ``coordination`` names the table of consumer groups, the same for all that use the lake: ``dynamodb://table?region=…``,
    ``sqlite:///path``, ``store`` (the lake's own object store). The default is SQLite beside a lake in a folder, otherwise ``store`` (see
    `penstock.coordinator.open_table`).

    With ``maintenance``, a process that has written to the lake and keeps it open takes its share of the upkeep in the background. That is
    publishing to the Delta tables, compaction, retention, trimming and collection. With ``maintenance=False`` that is left to others,
    such as `penstock maintain`. Raises `InvalidArgument` for an unknown scheme or option.
    """
    return Lake(
        aio.connect(
            url,
            store=store,
            read_only=read_only,
            coordination=coordination,
            maintenance=maintenance,
            options=options,
            runtime=runtime,
        )
    )


class Lake(GroupOperations, TimerOperations, TransactionOperations):
    """Topics, producers, readers and consumer groups under one root. Use it in a ``with`` block, or close it: that writes pending messages."""

    def __init__(self, lake: aio.Lake) -> None:
        super().__init__(lake, Portal())
        self._lake = self._timers = self._transacting = lake
        self._producers: weakref.WeakSet[AsyncProducer] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        os.register_at_fork(after_in_child=_in_child(weakref.WeakMethod(self._after_fork)))

    @property
    def url(self) -> str:
        """The lake's URL, without secrets."""
        return self._lake.url

    @property
    def read_only(self) -> bool:
        """Whether it was opened never to be written to."""
        return self._lake.read_only

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        message_type: MessageType | str = MessageType.NORMAL,
        queues: int = 16,
        retention: timedelta | None = timedelta(days=3),
        retention_bytes: int | None = None,
        limits: TopicLimits | None = None,
    ) -> TopicRecord:
        """Create a topic; fine when it exists with these settings.

        A name has letters, digits, ``_`` and ``-``, at most 127 (of type DELAY 120). ``message_type`` is NORMAL, FIFO, DELAY or
        TRANSACTION. One queue gives a global order; idle queues cost nothing. Messages older than ``retention`` are dropped; a delayed
        message's age counts from its delivery time. So are messages beyond ``retention_bytes`` of table files in a queue. Raises
        `TopicExists` when it exists with other settings, `InvalidArgument` or `LimitExceeded` for a bad name or value.
        """
        settings = TopicSettings(
            message_type=message_type,  # type: ignore[arg-type]
            queues=queues,
            retention=retention,
            retention_bytes=retention_bytes,
            limits=limits or TopicLimits(),
        )
        return self._portal.run(lambda: self._lake.create_topic(name, settings))

    def describe_topic(self, name: str) -> TopicDescription:
        """Settings, offsets of every queue, and the hottest queues and message groups of the messages stored last."""
        return self._portal.run(lambda: self._lake.describe_topic(name))

    def alter_topic(self, name: str, **changes: object) -> TopicRecord:
        """Change ``retention``, ``retention_bytes`` or ``limits``. Raises `InvalidArgument` for anything else."""
        return self._portal.run(lambda: self._lake.alter_topic(name, **changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages. A new topic of the name may follow at once."""
        self._portal.run(lambda: self._lake.delete_topic(name))

    def topics(self, *, damaged: Literal["raise", "skip"] = "raise") -> dict[str, TopicRecord]:
        """The topics by name. Raises `DataDamaged` when the settings of one cannot be read; ``damaged="skip"`` leaves it out."""
        return self._portal.run(lambda: self._lake.topics(damaged=damaged))

    # --- Producers and readers --------------------------------------------------------------------------------------------------

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        linger: timedelta = timedelta(milliseconds=25),
        batch_bytes: int = ProducerOptions().batch_bytes,
        memory_bytes: int = ProducerOptions().memory_bytes,
        on_full: Literal["block", "raise"] = "block",
        block_timeout: timedelta = timedelta(seconds=60),
        delivery_timeout: timedelta = timedelta(seconds=120),
        metrics: Metrics | None = None,
    ) -> Producer:
        """Open a producer. With a ``name`` it fences every earlier instance of that name, and its sends may carry sequences.

        ``metrics`` counts; the other arguments are described at `penstock.log.ProducerOptions`. Raises `TopicNotFound`, `ReadOnlyError`,
        `ClockSkewError`, `UnsafeStoreError` or `PermissionDenied` before anything is sent.
        """
        options = ProducerOptions(
            linger=linger,
            batch_bytes=batch_bytes,
            memory_bytes=memory_bytes,
            on_full=on_full,
            block_timeout=block_timeout,
            delivery_timeout=delivery_timeout,
            on_batch=sends_counted(metrics, topic=topic) if metrics is not None else None,
        )
        core = self._portal.run(lambda: self._lake.producer(topic, name=name, options=options))
        self._producers.add(core)
        return Producer(core, self._portal)

    def producer_statistics(self) -> list[tuple[str, ProducerStatistics]]:
        """The topic and the counts of each open producer, for metrics."""
        return self._lake.producer_statistics()

    def reader(self, topic: str) -> Reader:
        """Open a reader: any queue, from any place, without a consumer group."""
        return Reader(self._portal.run(lambda: self._lake.reader(topic)), self._portal)

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
        threads: int = _PUSH.threads,
        cache_messages: int = _PUSH.cache_messages,
        cache_bytes: int = _PUSH.cache_bytes,
        consume_timeout: timedelta = _PUSH.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: Literal["group", "queue"] | None = None,
        batch_messages: int = _PUSH.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer:
        """Join a consumer group, and run ``listener`` for every message of a topic, or of several: ``{topic: filter}``.

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
        core = self._joined(
            lambda: self._lake.push_consumer(
                topic,
                group=group,
                listener=listener,
                delivery_order=delivery_order,
                filter=filter,
                start=start,
                retry=retry,
                max_attempts=max_attempts,
                dead_letter_policy=dead_letter_policy,
                threads=threads,
                cache_messages=cache_messages,
                cache_bytes=cache_bytes,
                consume_timeout=consume_timeout,
                on_expired=on_expired,
                batch=batch,
                batch_messages=batch_messages,
                metrics=metrics,
            )
        )
        return PushConsumer(core, self._portal)

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
        receive_max: int = _SIMPLE.receive_max,
        cache_messages: int = _SIMPLE.cache_messages,
        cache_bytes: int = _SIMPLE.cache_bytes,
        metrics: Metrics | None = None,
    ) -> SimpleConsumer:
        """Join a consumer group, and receive messages of a topic, or of several (``{topic: filter}``), by ``receive`` and ``ack``.

        A received message is invisible to others for a while. If it is acknowledged in that time, it never comes back. Otherwise that was a
        failed attempt, and it is received again, until after ``max_attempts`` deliveries the ``dead_letter_policy`` applies. ORDERLY: while
        a message of a message group is out, later ones of that group wait, unless the same ``receive`` gave them; other groups do not. A
        group may also have push consumers.

        ``receive_max`` bounds what one ``receive`` may ask for; ``cache_messages`` and ``cache_bytes`` bound what is fetched ahead.
        ``filter``, ``start``, ``metrics`` and stated settings of the group are as `push_consumer` says. Raises `InvalidArgument` for errors
        of the call, and, with both settings, when the group has other ones than stated. Raises `LimitExceeded`, `TopicNotFound`,
        `ReadOnlyError`, `OffsetOutOfRange`.
        """
        return SimpleConsumer(
            self._joined(
                lambda: self._lake.simple_consumer(
                    topic,
                    group=group,
                    delivery_order=delivery_order,
                    filter=filter,
                    start=start,
                    max_attempts=max_attempts,
                    dead_letter_policy=dead_letter_policy,
                    receive_max=receive_max,
                    cache_messages=cache_messages,
                    cache_bytes=cache_bytes,
                    metrics=metrics,
                )
            ),
            self._portal,
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

        The queues are shared evenly among the group's members and may come and go (subscribe). ``queues``, numbers of the topic or
        ``{topic: numbers}``, asks for these instead, however many others the group has (assign). The messages of a queue come in order from
        the offset that the group has committed. Nothing is retried or dead-lettered: the caller goes back with ``seek``. Messages handed
        out and not committed come again, after a crash or with the queue's next owner.

        ``filter`` and ``start`` are as `push_consumer` says. Raises `InvalidArgument` for errors of the call, and when the group has
        another filter. Raises `LimitExceeded`, `TopicNotFound`, `ReadOnlyError`, `OffsetOutOfRange`. A group with messages that are tracked
        by themselves (failed, in flight, parked) ends its PullConsumers with `penstock.consumers.GroupMixed`.
        """
        return PullConsumer(
            self._joined(lambda: self._lake.pull_consumer(topic, group=group, queues=queues, filter=filter, start=start)),
            self._portal,
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
        consume_timeout: timedelta = _PUSH.consume_timeout,
    ) -> BroadcastConsumer:
        """Run ``listener`` for every message of a topic, or of several (``{topic: filter}``), in every member of a broadcasting group.

        ``member`` is the name under which this process's progress is kept, saved each second and at closing. A consumer that opens the name
        again goes on there, after a crash up to a second before. A name belongs to the consumer that opened it last. The former one ends
        with `FencedError` when it next has progress to save, so until then both may be given a message. The messages of a queue are run one
        after the other, different queues side by side. A message whose listener fails, raises or runs longer than ``consume_timeout`` is
        logged, and not tried again.

        ``start`` says where a new name begins; ``filter`` is this member's own. Raises `InvalidArgument` for errors of the call,
        `TopicNotFound`, `ReadOnlyError`, `OffsetOutOfRange`.
        """
        core = self._joined(
            lambda: self._lake.broadcast_consumer(
                topic,
                group=group,
                member=member,
                listener=listener,
                filter=filter,
                start=start,
                consume_timeout=consume_timeout,
            )
        )
        return BroadcastConsumer(core, self._portal)

    def _joined(self, open_consumer: Callable[[], Awaitable[ConsumerT]]) -> ConsumerT:
        core = self._portal.run(open_consumer)
        self._consumers.add(core)
        return core

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """Fail all producers in a child process. The event-loop thread does not exist there, so calls raise instead of waiting for ever."""
        error = ForkedError("the process was forked after the lake was opened", operation="send", hint="connect again in the child")
        for producer in list(self._producers):
            producer.after_fork(error)

    def close(self) -> None:
        """Close consumers, write pending messages, then release everything.

        Closing again does nothing; a concurrent caller waits for the same end.
        """
        if self._portal.stopped:
            return
        for consumer in list(self._consumers):
            consumer.check_outside()
        try:
            self._portal.run(self._lake.close)
        except ClosedError:
            if not self._portal.stopped:
                raise  # a send's error that nobody was told; otherwise another thread's closing came to its end
        finally:
            self._portal.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        close_after(self.close, error)


def _in_child(method: weakref.WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """A call of ``method`` for as long as its object lives; hooks of fork cannot be removed."""

    def call() -> None:
        if (alive := method()) is not None:
            alive()

    return call
