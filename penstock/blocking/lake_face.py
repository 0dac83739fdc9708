"""What a lake has beside the calls that it only hands on, written by hand: settings as arguments, fork, and its end."""

from __future__ import annotations

import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Literal, TypeVar

from penstock import aio
from penstock.consumers import Metrics
from penstock.consumers.consumer import Consumer
from penstock.log import (
    ClosedError,
    ForkedError,
    MessageType,
    MessageTypeLike,
    ProducerOptions,
    Routing,
    RoutingLike,
    TopicLimits,
    TopicRecord,
    TopicSettings,
)
from penstock.log import Producer as AsyncProducer
from penstock.log.limits import Duration
from penstock.log.produce.metrics import sends_counted
from penstock.log.runtime.portal import Portal
from penstock.log.schema.labels import label_paths
from penstock.log.schema.sources import SchemaLike
from penstock.log.schema.topic_schema import schema_of_source

from .face import ClosableFace
from .topics import Producer

T = TypeVar("T")
ConsumerT = TypeVar("ConsumerT", bound=Consumer)
LakeT = TypeVar("LakeT", bound=aio.Lake)


class LakeFace(ClosableFace[LakeT]):
    """A lake on an event-loop thread of its own."""

    def __init__(self, core: LakeT) -> None:
        super().__init__(core, Portal())
        self._producers: weakref.WeakSet[AsyncProducer] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        os.register_at_fork(after_in_child=_in_child(weakref.WeakMethod(self._after_fork)))

    def create_topic(
        self,
        name: str,
        *,
        message_type: MessageTypeLike = MessageType.NORMAL,
        queues: int = 16,
        routing: RoutingLike = Routing.XXHASH64,
        retention: Duration | None = timedelta(days=3),
        retention_bytes: int | None = None,
        limits: TopicLimits | None = None,
        iceberg: bool = False,
        schema: SchemaLike | None = None,
        message_group: str | None = None,
        tag: str | None = None,
        keys: Sequence[str] = (),
        bloom: Sequence[str] = (),
    ) -> TopicRecord:
        """Create a topic; fine when it exists with these settings.

        A name has letters, digits, ``.``, ``_`` and ``-``, at most 249. ``message_type`` is NORMAL, FIFO, DELAY,
        TRANSACTION, or MIXED for all of these but delayed messages. One queue gives a global order; idle queues cost nothing.
        ``routing`` is how message groups find their queues: ``xxhash64``, or ``murmur2`` or ``crc32`` as Kafka's clients do.

        Messages older than ``retention`` are dropped; a delayed message's age counts from its delivery time. So are messages beyond
        ``retention_bytes`` of table files in a queue. With ``iceberg`` maintenance lists the table in Iceberg's metadata beside Delta's.

        With a ``schema`` the topic is typed: messages are rows. It is an Arrow schema, Spark SQL (``"id bigint not null, amount
        decimal(12,2)"``), a dataclass, TypedDict or pydantic model, JSON Schema or Avro as a dict, or a `Path` to a file. ``message_group``,
        ``tag`` and ``keys`` then name fields from which each row's are taken, and ``bloom`` fields of which the table's files have Bloom
        filters. Raises `TopicExists` when it exists with other settings, or with a schema that it never had. Raises `InvalidArgument` or
        `LimitExceeded` for a bad name or value.
        """
        settings = TopicSettings(
            message_type=message_type,
            queues=queues,
            routing=routing,
            retention=retention,
            retention_bytes=retention_bytes,
            limits=limits or TopicLimits(),
            iceberg=iceberg,
            schema=None if schema is None else schema_of_source(schema),
            message_group=message_group,
            tag=tag,
            keys=label_paths(keys),
            bloom=label_paths(bloom),
        )
        return self._portal.run(lambda: self._core.create_topic(name, settings))

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        linger: Duration = timedelta(milliseconds=25),
        batch_bytes: int = ProducerOptions().batch_bytes,
        memory_bytes: int = ProducerOptions().memory_bytes,
        on_full: Literal["block", "raise"] = "block",
        block_timeout: Duration = timedelta(seconds=60),
        delivery_timeout: Duration = timedelta(seconds=120),
        extra: Literal["refuse", "ignore"] = "refuse",
        invalid: Literal["refuse", "topic"] = "refuse",
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
            extra=extra,
            invalid=invalid,
            on_batch=sends_counted(metrics, topic=topic) if metrics is not None else None,
        )
        core = self._portal.run(lambda: self._core.producer(topic, name=name, options=options))
        self._producers.add(core)
        return Producer(core, self._portal)

    def _joined(self, open_consumer: Callable[[], Awaitable[ConsumerT]]) -> ConsumerT:
        core = self._portal.run(open_consumer)
        self._consumers.add(core)
        return core

    def _begun(self, begin: Callable[[], T]) -> T:
        """What a plain call gives that must be made on the event loop."""

        async def begun() -> T:
            return begin()

        return self._portal.run(begun)

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
            self._portal.run(self._core.close)
        except ClosedError:
            if not self._portal.stopped:
                raise  # a send's error that nobody was told; otherwise another thread's closing came to its end
        finally:
            self._portal.stop()


def _in_child(method: weakref.WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """A call of ``method`` for as long as its object lives; hooks of fork cannot be removed."""

    def call() -> None:
        if (alive := method()) is not None:
            alive()

    return call
