"""The consumers of a lake."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from types import EllipsisType
from typing import Any, Literal, TypeVar, overload

from penstock.consumers import (
    BatchListener,
    BroadcastConsumer,
    Listener,
    MemoryMetrics,
    Metrics,
    PullConsumer,
    PushConsumer,
    PushOptions,
    SimpleConsumer,
    SimpleOptions,
)
from penstock.consumers.arguments import Queues, Topics, assignment, check_listener, settings_stated, subscribed
from penstock.consumers.consumer import Consumer
from penstock.consumers.handlers.results import Result
from penstock.consumers.membership import Subscription
from penstock.coordinator import Coordination, DeadLetterPolicyLike, DeliveryOrderLike, RetryPolicy, open_coordination
from penstock.log import ClosedError, MessageView, ObjectStore, Position, ReadOnlyError, Runtime
from penstock.log.lake import LogLake
from penstock.log.limits import REFUSAL_TIMEOUT, Duration

PUSH_DEFAULTS = PushOptions()
SIMPLE_DEFAULTS = SimpleOptions()
_SECRETS = ("access_key_id", "secret_access_key", "session_token")
ConsumerT = TypeVar("ConsumerT", bound=Consumer)


class OpenConsumers:
    """Consumers that are not closed to the end."""

    def __init__(self) -> None:
        self._open: list[Consumer] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, consumer: ConsumerT) -> ConsumerT:
        self._open = [one for one in self._open if not one.done] + [consumer]
        return consumer

    def check_outside(self) -> None:
        """Raise `InvalidArgument` inside a handler of one of them."""
        for consumer in self._open:
            consumer.check_outside()

    async def close(self) -> None:
        """Close them all. Raises the first error that was not raised before."""
        untold = [one for one in self._open if not one.closed]
        ends = await asyncio.gather(*(one.close() for one in self._open), return_exceptions=True)
        for consumer, end in zip(self._open, ends, strict=True):
            if consumer in untold and end is not None:
                raise end


class ConsumingLake(LogLake):
    """The log's lake with the table of consumer groups, and consumers."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        coordination: str | None = None,
        options: Mapping[str, str] | None = None,
        refusal_timeout: Duration = REFUSAL_TIMEOUT,
    ) -> None:
        """``coordination`` names the table of consumer groups (see `penstock.coordinator.open_table`), the same for all workers of a lake."""
        super().__init__(store, runtime=runtime, read_only=read_only, refusal_timeout=refusal_timeout)
        self._table_url = coordination
        # A table in the same cloud takes the same credentials; whatever else is in the options is about the store.
        self._table_options = {name: value for name, value in (options or {}).items() if name in _SECRETS}
        self._coordination: Coordination | None = None
        self._consumers = OpenConsumers()
        self._ending: asyncio.Task[None] | None = None

    @property
    def coordination_url(self) -> str | None:
        """The name of the table of consumer groups; None: the lake's default."""
        return self._table_url

    @property
    def coordination(self) -> Coordination:
        """The table of consumer groups, and this process's part in it; opened when it is first needed."""
        self._check_open()
        if self._coordination is None:
            self._coordination = open_coordination(
                self._table_url,
                store=self.store,
                runtime=self.runtime,
                options=self._table_options,
                label=f"{socket.gethostname()}/{os.getpid()}",
                refusal_timeout=self.refusal_timeout,
                read_only=self.read_only,
            )
        return self._coordination

    @overload
    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: Listener,
        delivery_order: DeliveryOrderLike | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicyLike | None = None,
        threads: int = PUSH_DEFAULTS.threads,
        cache_messages: int = PUSH_DEFAULTS.cache_messages,
        cache_bytes: int = PUSH_DEFAULTS.cache_bytes,
        consume_timeout: Duration = PUSH_DEFAULTS.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: None = None,
        batch_messages: int = PUSH_DEFAULTS.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer: ...
    @overload
    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: BatchListener,
        delivery_order: DeliveryOrderLike | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicyLike | None = None,
        threads: int = PUSH_DEFAULTS.threads,
        cache_messages: int = PUSH_DEFAULTS.cache_messages,
        cache_bytes: int = PUSH_DEFAULTS.cache_bytes,
        consume_timeout: Duration = PUSH_DEFAULTS.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: Literal["group", "queue"],
        batch_messages: int = PUSH_DEFAULTS.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer: ...
    @overload
    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: Callable[[MessageView | list[MessageView]], Result | Awaitable[Result]],
        delivery_order: DeliveryOrderLike | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicyLike | None = None,
        threads: int = PUSH_DEFAULTS.threads,
        cache_messages: int = PUSH_DEFAULTS.cache_messages,
        cache_bytes: int = PUSH_DEFAULTS.cache_bytes,
        consume_timeout: Duration = PUSH_DEFAULTS.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: Literal["group", "queue"] | None,
        batch_messages: int = PUSH_DEFAULTS.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer: ...
    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: Callable[[Any], Any],
        delivery_order: DeliveryOrderLike | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicyLike | None = None,
        threads: int = PUSH_DEFAULTS.threads,
        cache_messages: int = PUSH_DEFAULTS.cache_messages,
        cache_bytes: int = PUSH_DEFAULTS.cache_bytes,
        consume_timeout: Duration = PUSH_DEFAULTS.consume_timeout,
        on_expired: Literal["skip", "stop"] = "skip",
        batch: Literal["group", "queue"] | None = None,
        batch_messages: int = PUSH_DEFAULTS.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer:
        """Join a consumer group, and run ``listener`` for every message of a topic, or of several: ``{topic: filter}``.

        On an event loop, use ``async with lake.push_consumer(…) as consumer``, or await it. Errors of the call are raised at once, a topic or group
        that does not fit when it is awaited.

        ``listener`` takes a `MessageView` and returns `ConsumeResult.SUCCESS`, ``FAILURE``, ``DEAD_LETTER`` or `RetryAfter`. Raising, returning
        anything else, or running longer than ``consume_timeout`` is a failure; a listener that is annotated ``-> None`` is refused. An ordinary
        function runs in ``threads`` threads, a coroutine function in as many tasks on the lake's event loop. With ``batch`` it takes a list, of one
        message group or of one queue, of at most ``batch_messages``; it may return a `BatchResult`.

        A message that succeeded is handed out again only after a crash or a reset. In an ORDERLY group the messages of a message group run one
        after the other, and a failing one blocks its message group. In a CONCURRENT one all run side by side.

        ``delivery_order``, ``retry``, ``max_attempts`` (None: any number), ``dead_letter_policy`` and ``filter`` (``"paid || refunded"``, ``"SQL92:
        price > 10"``) are the settings of the group, which is created when there is none. An omitted one is as the group has it; a stated one must
        agree.

        ``start`` is the place of a group that has not consumed the topic before: ``"earliest"``, ``"latest"``, a store time or an offset.
        ``cache_messages`` and ``cache_bytes`` bound the messages that are fetched and not yet settled. Messages that retention removed before the
        group had them are passed over with an error in the log, or (``on_expired="stop"``) end the consumer with `OffsetOutOfRange`.

        Raises `InvalidArgument`, also with both settings when the group has other ones. Raises `LimitExceeded`, `TopicNotFound`, `ReadOnlyError`,
        `OffsetOutOfRange`, `ClockSkewError`.
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
        return self._consumers.add(
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
        delivery_order: DeliveryOrderLike | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicyLike | None = None,
        receive_max: int = SIMPLE_DEFAULTS.receive_max,
        cache_messages: int = SIMPLE_DEFAULTS.cache_messages,
        cache_bytes: int = SIMPLE_DEFAULTS.cache_bytes,
        metrics: Metrics | None = None,
    ) -> SimpleConsumer:
        """Join a consumer group, and receive messages of a topic, or of several (``{topic: filter}``), by ``receive`` and ``ack``.

        On an event loop, use it as `push_consumer`.

        A received message that is not acknowledged in time is received again; after ``max_attempts`` deliveries the ``dead_letter_policy`` applies.
        `SimpleConsumer` has the order of messages. A group may also have push consumers.

        ``receive_max`` bounds one ``receive``; ``cache_messages`` and ``cache_bytes`` bound what is fetched ahead. ``filter``, ``start``,
        ``metrics``, stated settings of the group, and errors are as of `push_consumer`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        stated = settings_stated(delivery_order=delivery_order, max_attempts=max_attempts, dead_letter_policy=dead_letter_policy)
        options = SimpleOptions(
            receive_max=receive_max,
            cache_messages=cache_messages,
            cache_bytes=cache_bytes,
            metrics=MemoryMetrics() if metrics is None else metrics,
        )
        return self._consumers.add(
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

        On an event loop, use it as `push_consumer`.

        The queues are shared evenly among the group's members and may come and go (subscribe). ``queues``, numbers of the topic or ``{topic:
        numbers}``, asks for these instead, however many others the group has (assign). The messages of a queue come in order from the committed
        offset. Nothing is retried or dead-lettered: the caller goes back with ``seek``. Messages handed out and not committed come again, after a
        crash or with the queue's next owner.

        ``filter``, ``start`` and errors are as of `push_consumer`. A group with messages that are tracked by themselves (failed, in flight, parked)
        ends its PullConsumers with `penstock.consumers.GroupMixed`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        assigned = None if queues is None else assignment(queues, list(subscriptions))
        return self._consumers.add(
            PullConsumer(self, self.coordination, group=group, subscriptions=subscriptions, stated={}, queues=assigned)
        )

    def broadcast_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        member: str,
        listener: Listener,
        filter: str | None = None,
        start: Position = "earliest",
        consume_timeout: Duration = PUSH_DEFAULTS.consume_timeout,
    ) -> BroadcastConsumer:
        """Run ``listener`` for every message of a topic, or of several (``{topic: filter}``), in every member of a broadcasting group.

        On an event loop, use it as `push_consumer`.

        ``member`` is the name under which this process's progress is kept, saved each second and at closing. A consumer that opens the name again
        goes on there, after a crash up to a second before. The former owner of the name ends with `FencedError` when it next has progress to save;
        until then both may get a message. The messages of a queue are run one after the other. A message whose listener fails, raises or runs longer
        than ``consume_timeout`` is logged, and not tried again. ``listener`` is as of `push_consumer`.

        ``start`` is the place of a new name; ``filter`` is this member's own. Raises `InvalidArgument`, `TopicNotFound`, `ReadOnlyError`,
        `OffsetOutOfRange`.
        """
        subscriptions = self._subscribed(topic, filter, start)
        check_listener(listener, batch=False)
        return self._consumers.add(
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
        """Raises when no consumer may be opened, or none with these arguments."""
        self._check_open()
        if self._ending is not None:
            raise ClosedError("the lake is being closed", object=self.url)
        if self.read_only:
            raise ReadOnlyError(
                "the lake was opened with read_only=True, and a consumer writes how far it is", operation="subscribe"
            )
        return subscribed(topics, filter, start)

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all consumers, which lets their handlers end, then readers and producers, which writes pending messages, and then the rest.

        Raises the first error of a consumer or producer that was not raised before, and `InvalidArgument` inside a handler. A concurrent caller
        waits for the same end; closing again does nothing. Giving up waiting does not stop it.
        """
        self._consumers.check_outside()
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        elif self._ending.done():
            return  # the error was raised before
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        try:
            await self._consumers.close()
        finally:
            await super().close()
