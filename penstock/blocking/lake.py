"""A lake. The work is done on the lake's event-loop thread.

Made by infra/scripts/blocking_face.py (`make face`). Do not edit: change the asynchronous classes, and make it anew. They are in

    penstock.aio.consumers
    penstock.aio.lake
    penstock.log.lake
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any, Literal, Unpack, overload

from penstock.aio.consumers import PUSH_DEFAULTS, SIMPLE_DEFAULTS
from penstock.aio.lake import Lake as AsyncLake
from penstock.aio.transactions import FIRST_CHECK
from penstock.consumers import BatchListener, Listener, Metrics
from penstock.consumers.arguments import Queues, Topics
from penstock.consumers.dead_letters.redrive import RedriveReport
from penstock.consumers.handlers.results import Result
from penstock.consumers.trace.trace import Trace
from penstock.coordinator import (
    ATTEMPTS_DEFAULT,
    DeadLetterPolicy,
    DeadLetterPolicyLike,
    DeliveryOrder,
    DeliveryOrderLike,
    GroupChanges,
    GroupDescription,
    GroupSettings,
    ParkedGroup,
    RetryPolicy,
    TimerStatistics,
    WorkerStatus,
)
from penstock.coordinator.transactions.checking.checker import Checker
from penstock.coordinator.transactions.statistics import TransactionStatistics
from penstock.log import MessageView, Position, WaitingMessage
from penstock.log.describe import TopicDescription
from penstock.log.format.state import SchemaVersion
from penstock.log.limits import Duration, Strings
from penstock.log.produce.accumulator import ProducerStatistics
from penstock.log.schema.sources import SchemaLike
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.topic.settings import TopicChanges, TopicRecord

from .consumers import BroadcastConsumer, PullConsumer, PushConsumer, SimpleConsumer
from .face import core_of
from .lake_face import LakeFace
from .topics import Reader
from .transactions import Checking, Transaction


class Lake(LakeFace[AsyncLake]):
    """Topics, producers, readers and consumer groups under one root. Use it in a ``with`` block, or close it: that writes what was sent."""

    def create_group(
        self,
        name: str,
        *,
        delivery_order: DeliveryOrderLike = DeliveryOrder.ORDERLY,
        retry: RetryPolicy | None = None,
        max_attempts: int | None = ATTEMPTS_DEFAULT,
        dead_letter_policy: DeadLetterPolicyLike = DeadLetterPolicy.CONTINUE,
        filters: Mapping[str, str] | None = None,
    ) -> GroupSettings:
        """Create a consumer group; fine when it exists with these settings. A consumer creates its group by itself, too.

        ``delivery_order`` is ORDERLY (a message group's messages one after the other) or CONCURRENT, for good. ``retry``: when a failed message is
        run again (default: each second, CONCURRENT: by RocketMQ's table of 10 s to 2 h). After ``max_attempts`` deliveries (None: any number) it
        goes to the dead-letter queue. With ``dead_letter_policy="park"`` its message group stands still instead, until it is released or skipped.
        ``filters`` are by topic: ``{"orders": "paid || refunded"}``, ``{"orders": "SQL92: price > 10"}``.

        Raises `GroupExists` with both settings when it has other ones, `InvalidArgument` or `LimitExceeded` for a bad name or value.
        """
        return self._portal.run(
            lambda: self._core.create_group(
                name,
                delivery_order=delivery_order,
                retry=retry,
                max_attempts=max_attempts,
                dead_letter_policy=dead_letter_policy,
                filters=filters,
            )
        )

    def alter_group(self, name: str, **changes: Unpack[GroupChanges]) -> GroupSettings:
        """Change ``retry``, ``max_attempts``, ``dead_letter_policy`` or ``filters``; members see it within seconds.

        Raises `GroupNotFound`, and `InvalidArgument` for anything else.
        """
        return self._portal.run(lambda: self._core.alter_group(name, **changes))

    def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a consumer group. A later group of its name begins anew.

        Raises `GroupInUse` when a member lives, or messages that the group gave up have no dead letter yet. A member that seems dead is watched for
        its lease and a quarter more. With ``force`` live members end with an error, and unwritten dead letters are lost, with an error in the log.
        Raises `GroupNotFound`.
        """
        self._portal.run(lambda: self._core.delete_group(name, force=force))

    def groups(self) -> dict[str, GroupSettings]:
        """The settings of all consumer groups, by name."""
        return self._portal.run(self._core.groups)

    def describe_group(self, name: str, *, table_age: Duration | None = None) -> GroupDescription:
        """Settings, members, and the owner, progress and obstacles of every queue. Raises `GroupNotFound`.

        With ``table_age`` a lag may include messages that retention dropped within that time. That saves a request for each topic.
        """
        return self._portal.run(lambda: self._core.describe_group(name, table_age=table_age))

    def workers(self, *, watch: Duration | None = None, group: str | None = None) -> list[WorkerStatus]:
        """The processes with open consumers, of all groups or one, and whether each lives. They are watched until that is known, at most for
        ``watch``.
        """
        return self._portal.run(lambda: self._core.workers(watch=watch, group=group))

    def reset_offsets(self, group: str, topic: str, to: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic (backtrack), while its consumers run. Returns the offset of each queue.

        ``to`` is an offset, a store time with a zone, ``"earliest"`` or ``"latest"``, turned into offsets once, now; ``queues``: only these.
        Members carry it out within seconds: messages in flight are fenced, nothing before the new offsets is handed out again, and nothing after
        them is lost. Raises `GroupNotFound`, `TopicNotFound`, `InvalidArgument`, and `OffsetOutOfRange` for an offset that is not kept.
        """
        return self._portal.run(lambda: self._core.reset_offsets(group, topic, to, queues=queues))

    def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The parked message groups, with the message that each stands at; only those of a topic, of a queue, or of this name."""
        return self._portal.run(lambda: self._core.parked(group, topic=topic, queue=queue, message_group=message_group))

    def release(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Try parked messages again, with no strike against them. They are chosen as by `parked`. Returns the groups that were ordered released.

        The order is one write, and the owners of the queues carry it out within seconds. Raises `InvalidArgument` when a named message group is not
        parked.
        """
        return self._portal.run(lambda: self._core.release(group, topic=topic, queue=queue, message_group=message_group))

    def skip(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on behind it. Otherwise like `release`."""
        return self._portal.run(lambda: self._core.skip(group, topic=topic, queue=queue, message_group=message_group))

    def redrive(
        self,
        group: str,
        *,
        limit: int | None = None,
        where: Callable[[MessageView], bool] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
        dry_run: bool = False,
        only_group: bool = False,
    ) -> RedriveReport:
        """Send the dead letters of a group back to the topics they came from, oldest first, at most ``limit``. Consumers may run meanwhile.

        Each goes back once, however often this is repeated, as the original message, to every group that reads the topic. ``where`` chooses by the
        dead letter. Letters that it leaves out, and letters that cannot be sent now (see the report), may go back later. With ``dry_run`` nothing
        is sent. With ``only_group`` this group alone gets them; Kafka's clients, readers, tables and Spark see them as any message.

        Raises `TopicNotFound` when the group has no dead letters, and `DataDamaged` at one that cannot be read (``damaged="skip"`` leaves it out).
        Raises errors of sending; messages sent before stay sent.
        """
        return self._portal.run(
            lambda: self._core.redrive(group, limit=limit, where=where, damaged=damaged, dry_run=dry_run, only_group=only_group)
        )

    def trace(
        self, message_id: str, *, topic: str | None = None, progress: Callable[[int, int], None] = lambda done, topics: None
    ) -> Trace:
        """The stored traces of one message: its places, and its state in every consumer group that reads its topic.

        It is looked for in ``topic`` and the dead-letter queues of its groups, or in all topics, by their tables' Bloom filters and the newer part
        of their logs. ``progress`` is given the number of topics that are done and of all topics. A message that is not found, or not any more, has
        no places. The number of deliveries of a settled message is not stored.

        Raises `InvalidArgument` for what cannot be an id, and `TopicNotFound`. ``unread`` names what cannot be read.
        """
        return self._portal.run(lambda: self._core.trace(message_id, topic=topic, progress=progress))

    def recall(self, recall_handle: str) -> WaitingMessage:
        """Recall a delayed message, so that it is never delivered. Returns the message.

        ``recall_handle`` is that of the `SendResult`, or of a message that `waiting` lists. Raises `NotRecallable` when it was delivered, is on its
        way or was recalled before. Raises `MessageNotFound` for a handle of another lake, a deleted topic, or no message. Raises `InvalidArgument`,
        `ReadOnlyError`, and `UnknownOutcome`: then recall it again.
        """
        return self._portal.run(lambda: self._core.recall(recall_handle))

    def waiting(self, topic: str, *, until: datetime | None = None, limit: int | None = None) -> list[WaitingMessage]:
        """The delayed messages of a topic that are still to be delivered, by delivery time and then as they were sent, all in memory at once.

        ``until`` (exclusive) leaves out messages due later; ``limit`` takes only the first. Messages on their way into the topic do not wait any
        more. Raises `InvalidArgument` for a topic that is not of type DELAY, and `TopicNotFound`.
        """
        return self._portal.run(lambda: self._core.waiting(topic, until=until, limit=limit))

    def timer_statistics(self) -> dict[str, TimerStatistics]:
        """The work of this process by topic whose delayed messages it delivers, and the number of messages that wait. Any thread may ask."""
        return self._core.timer_statistics()

    def transaction(
        self,
        *,
        producer_group: str | None = None,
        consumer: SimpleConsumer | None = None,
        checker: Checker | None = None,
        first_check: Duration = FIRST_CHECK,
    ) -> Transaction:
        """Begin a transaction: ``with lake.transaction(producer_group=…) as tx``. Nothing is written before its first send.

        Messages given to ``tx.send`` are durable and invisible until ``tx.commit()`` makes all of them visible, in one entry of each topic, or
        ``tx.rollback()`` gives them up. Do the local work between the last send and the commit. If neither happens, the group's checkers are asked:
        first after ``first_check`` (60 s), or up to 5 s later. A transaction that is open for 4 hours is rolled back.

        ``checker`` is registered as by `check_transactions`, for all transactions of the group in this lake: the one given last counts.

        An exception that leaves the block rolls back. If the outcome of the local work is unknown, leave the block without a decision: then the
        checker is asked.

        With a ``consumer``, ``tx.ack`` settles messages that it was given when, and only when, the transaction commits: exactly once from topic to
        topic. Such a transaction has no checker: if it is not committed when the messages are handed out again, it is rolled back. The producer
        group is then the consumer's by default.

        Raises `InvalidArgument` when there is no checker, for a consumer of another lake, or for a ``first_check`` not above 0. Raises
        `LimitExceeded` for one of more than an hour, and `ReadOnlyError`.
        """
        return Transaction(
            self._begun(
                lambda: self._core.transaction(
                    producer_group=producer_group, consumer=core_of(consumer), checker=checker, first_check=first_check
                )
            ),
            self._portal,
        )

    def check_transactions(self, producer_group: str, checker: Checker) -> Checking:
        """Answer for a producer group's transactions whether they commit, for as long as this lake is open or until the result is closed.

        For an undecided transaction one live member of the group is asked, first 60 s after its first message (or the sender's ``first_check``),
        then every 60 s, at most 15 times; then it is rolled back. ``checker`` takes a `CheckedTransaction` and returns
        `TransactionResolution.COMMIT`, ``ROLLBACK`` or ``UNKNOWN``; an ordinary function runs in a thread, a coroutine function on the lake's event
        loop. A checker that raises, or takes more than 15 s, counts as not knowing. It may be asked while the sender is still at work, and twice.
        Raises `InvalidArgument`, `LimitExceeded` and `ReadOnlyError`.
        """
        return Checking(self._begun(lambda: self._core.check_transactions(producer_group, checker)), self._portal)

    def transaction_statistics(self) -> TransactionStatistics:
        """The work of this process on transactions, its own and others', and their state. Any thread may ask."""
        return self._core.transaction_statistics()

    @property
    def coordination_url(self) -> str | None:
        """The name of the table of consumer groups; None: the lake's default."""
        return self._core.coordination_url

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
        return PushConsumer(
            self._joined(
                lambda: self._core.push_consumer(
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
            ),
            self._portal,
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

        A received message that is not acknowledged in time is received again; after ``max_attempts`` deliveries the ``dead_letter_policy`` applies.
        `SimpleConsumer` has the order of messages. A group may also have push consumers.

        ``receive_max`` bounds one ``receive``; ``cache_messages`` and ``cache_bytes`` bound what is fetched ahead. ``filter``, ``start``,
        ``metrics``, stated settings of the group, and errors are as of `push_consumer`.
        """
        return SimpleConsumer(
            self._joined(
                lambda: self._core.simple_consumer(
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
        self, topic: Topics, *, group: str, queues: Queues | None = None, filter: str | None = None, start: Position = "earliest"
    ) -> PullConsumer:
        """Join a consumer group, and read a topic, or several (``{topic: filter}``), by ``poll`` and ``commit``.

        The queues are shared evenly among the group's members and may come and go (subscribe). ``queues``, numbers of the topic or ``{topic:
        numbers}``, asks for these instead, however many others the group has (assign). The messages of a queue come in order from the committed
        offset. Nothing is retried or dead-lettered: the caller goes back with ``seek``. Messages handed out and not committed come again, after a
        crash or with the queue's next owner.

        ``filter``, ``start`` and errors are as of `push_consumer`. A group with messages that are tracked by themselves (failed, in flight, parked)
        ends its PullConsumers with `penstock.consumers.GroupMixed`.
        """
        return PullConsumer(
            self._joined(lambda: self._core.pull_consumer(topic, group=group, queues=queues, filter=filter, start=start)),
            self._portal,
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

        ``member`` is the name under which this process's progress is kept, saved each second and at closing. A consumer that opens the name again
        goes on there, after a crash up to a second before. The former owner of the name ends with `FencedError` when it next has progress to save;
        until then both may get a message. The messages of a queue are run one after the other. A message whose listener fails, raises or runs longer
        than ``consume_timeout`` is logged, and not tried again. ``listener`` is as of `push_consumer`.

        ``start`` is the place of a new name; ``filter`` is this member's own. Raises `InvalidArgument`, `TopicNotFound`, `ReadOnlyError`,
        `OffsetOutOfRange`.
        """
        return BroadcastConsumer(
            self._joined(
                lambda: self._core.broadcast_consumer(
                    topic,
                    group=group,
                    member=member,
                    listener=listener,
                    filter=filter,
                    start=start,
                    consume_timeout=consume_timeout,
                )
            ),
            self._portal,
        )

    @property
    def read_only(self) -> bool:
        """Whether the lake refuses writes."""
        return self._core.read_only

    @property
    def url(self) -> str:
        """The URL of the lake, without secrets."""
        return self._core.url

    def alter_topic(self, name: str, **changes: Unpack[TopicChanges]) -> TopicRecord:
        """Change ``retention``, ``retention_bytes``, ``limits``, ``iceberg`` or ``configs`` of a topic, these as a whole or as a
        mapping of some, with None for one that goes. Raises `InvalidArgument` for anything else.

        ``queues``: give it more queues, a multiple of its present ones, while it is used. Producers route anew by themselves; messages of a message
        group that moves wait in its new queue until an ORDERLY consumer group has settled those in the former one. Raises `InvalidArgument` or
        `LimitExceeded` for another number, before anything is changed.
        """
        return self._portal.run(lambda: self._core.alter_topic(name, **changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages; maintenance removes the objects. A new topic of the name may follow at once."""
        self._portal.run(lambda: self._core.delete_topic(name))

    def topics(self, *, damaged: Literal["raise", "skip"] = "raise") -> dict[str, TopicRecord]:
        """The topics by name. Raises `DataDamaged` for settings that cannot be read; ``damaged="skip"`` leaves the topic out."""
        return self._portal.run(lambda: self._core.topics(damaged=damaged))

    def evolve_topic(
        self, name: str, schema: SchemaLike, *, rename: Mapping[str, str] | None = None, retire: Strings = (), dry_run: bool = False
    ) -> TopicSchema:
        """Make ``schema`` the topic's schema from now on, and return it with its version; nothing happens where it is already.

        Allowed are new nullable fields, wider types (int to bigint, float to double, a decimal with more digits before the point), NOT NULL relaxed,
        fields renamed (``rename``: new names by the old ones' paths) and retired (``retire``: their paths). Producers with an earlier version go on.
        Raises `InvalidArgument`, naming the field, for any other change, and for a topic without a schema. ``dry_run`` changes nothing.
        """
        return self._portal.run(lambda: self._core.evolve_topic(name, schema, rename=rename, retire=retire, dry_run=dry_run))

    def topic_schema(self, name: str) -> TopicSchema | None:
        """The present schema of a topic."""
        return self._portal.run(lambda: self._core.topic_schema(name))

    def schema_history(self, name: str) -> tuple[SchemaVersion, ...]:
        """The last 100 versions of a topic's schema, oldest first."""
        return self._portal.run(lambda: self._core.schema_history(name))

    def producer_statistics(self) -> list[tuple[str, ProducerStatistics]]:
        """The topic and the counts of each open producer, from any thread."""
        return self._core.producer_statistics()

    def reader(self, topic: str) -> Reader:
        """Open a reader. Raises `TopicNotFound`."""
        return Reader(self._portal.run(lambda: self._core.reader(topic)), self._portal)

    def describe_topic(self, name: str) -> TopicDescription:
        """A topic's settings, offsets, table, and hottest queues and message groups."""
        return self._portal.run(lambda: self._core.describe_topic(name))
