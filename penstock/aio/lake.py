"""A lake on the running event loop: the log's lake with consumer groups, delayed messages and transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Literal, Unpack

from penstock.consumers import SimpleConsumer
from penstock.consumers.dead_letters.redrive import RedriveReport, redrive
from penstock.consumers.trace.trace import Trace, trace
from penstock.coordinator import (
    ATTEMPTS_DEFAULT,
    DeadLetterPolicy,
    DeadLetterPolicyLike,
    DeliveryOrder,
    DeliveryOrderLike,
    GroupChanges,
    GroupDescription,
    GroupSettings,
    Operators,
    ParkedGroup,
    RetryPolicy,
    TimerStatistics,
    WorkerStatus,
)
from penstock.coordinator.transactions.checking.checker import Checker
from penstock.coordinator.transactions.ids import check_producer_group
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.coordinator.transactions.statistics import TransactionStatistics
from penstock.log import MessageType, MessageView, ObjectStore, Position, Runtime, WaitingMessage
from penstock.log.limits import REFUSAL_TIMEOUT, WAIT_MAX, Duration, check_flag, optional_duration
from penstock.log.produce.delays import RecallHandle
from penstock.log.topic.topics import Topic

from .consumers import ConsumingLake
from .maintenance import Maintenance
from .timers import DelayedMessages
from .transactions import FIRST_CHECK, Checking, TransactionService

_APPEAR_LATER = frozenset({MessageType.DELAY, MessageType.TRANSACTION})
"""The types of messages that are not visible when they are sent."""


class Lake(ConsumingLake):
    """Topics, producers, readers and consumer groups under one root. Use it in an ``async with`` block, or close it: that writes what was sent."""

    _TABLE_AT_ONCE = True

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        coordination: str | None = None,
        maintenance: bool = False,
        options: Mapping[str, str] | None = None,
        refusal_timeout: Duration = REFUSAL_TIMEOUT,
    ) -> None:
        """``coordination`` names the table of consumer groups (see `penstock.coordinator.open_table`), the same for all workers of a lake.
        ``maintenance``: take a share in publishing, compaction, retention, trimming and collection, some seconds after the first write.
        """
        super().__init__(
            store,
            runtime=runtime,
            read_only=read_only,
            coordination=coordination,
            options=options,
            refusal_timeout=refusal_timeout,
        )
        self._operators: Operators | None = None
        self._maintenance = Maintenance(self, wanted=maintenance)
        self._delayed = DelayedMessages(self)
        self._transacting = TransactionService(self)

    async def _writable(self, operation: str) -> None:
        await super()._writable(operation)
        self._maintenance.take_part()

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    async def topic(self, name: str, *, writable: bool = False) -> Topic:
        """A process that consumes a topic of delayed messages or transactions takes part in making them appear."""
        found = await super().topic(name, writable=writable)
        if self._consumers and not _APPEAR_LATER.isdisjoint(found.settings.message_type.taken):
            if found.settings.message_type is MessageType.DELAY:
                self._maintenance.timers.notice(name, found.record.created_ms)
            self._maintenance.take_part()
        return found

    async def timer_log(self, name: str, *, writable: bool = False) -> tuple[Topic, Topic]:
        """This process takes part in delivering messages sent to the topic."""
        found = await super().timer_log(name, writable=writable)
        if writable:
            self._maintenance.sends_to(name, found[0].record.created_ms)
        return found

    # --- Consumer groups --------------------------------------------------------------------------------------------------------

    async def create_group(
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
        stated = {
            "delivery_order": delivery_order,
            "max_attempts": max_attempts,
            "dead_letter_policy": dead_letter_policy,
            "filters": {} if filters is None else filters,
        }
        settings = GroupSettings.stating(stated if retry is None else {**stated, "retry": retry})
        return await self._operating.create(name, settings)

    async def alter_group(self, name: str, **changes: Unpack[GroupChanges]) -> GroupSettings:
        """Change ``retry``, ``max_attempts``, ``dead_letter_policy`` or ``filters``; members see it within seconds.

        Raises `GroupNotFound`, and `InvalidArgument` for anything else.
        """
        return await self._operating.alter(name, **changes)

    async def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a consumer group. A later group of its name begins anew.

        Raises `GroupInUse` when a member lives, or messages that the group gave up have no dead letter yet. A member that seems dead is watched for
        its lease and a quarter more. With ``force`` live members end with an error, and unwritten dead letters are lost, with an error in the log.
        Raises `GroupNotFound`.
        """
        check_flag("force", force, operation="delete_group")
        await self._operating.delete(name, force=force)

    async def groups(self) -> dict[str, GroupSettings]:
        """The settings of all consumer groups, by name."""
        return await self._operating.groups()

    async def describe_group(self, name: str, *, table_age: Duration | None = None) -> GroupDescription:
        """Settings, members, and the owner, progress and obstacles of every queue. Raises `GroupNotFound`.

        With ``table_age`` a lag may include messages that retention dropped within that time. That saves a request for each topic.
        """
        age = optional_duration("table_age", table_age, most=WAIT_MAX, operation="describe_group")
        return await self._operating.describe(name, table_age_s=0.0 if age is None else age.total_seconds())

    async def workers(self, *, watch: Duration | None = None, group: str | None = None) -> list[WorkerStatus]:
        """The processes with open consumers, of all groups or one, and whether each lives. They are watched until that is known, at most for
        ``watch``.
        """
        return await self._operating.workers(watch=watch, group=group)

    # --- Backtrack, parked message groups ---------------------------------------------------------------------------------------

    async def reset_offsets(self, group: str, topic: str, to: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic (backtrack), while its consumers run. Returns the offset of each queue.

        ``to`` is an offset, a store time with a zone, ``"earliest"`` or ``"latest"``, turned into offsets once, now; ``queues``: only these.
        Members carry it out within seconds: messages in flight are fenced, nothing before the new offsets is handed out again, and nothing after
        them is lost. Raises `GroupNotFound`, `TopicNotFound`, `InvalidArgument`, and `OffsetOutOfRange` for an offset that is not kept.
        """
        return await self._operating.reset(group, topic, to, queues)

    async def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The parked message groups, with the message that each stands at; only those of a topic, of a queue, or of this name."""
        return await self._operating.parked(group, topic=topic, queue=queue, message_group=message_group)

    async def release(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Try parked messages again, with no strike against them. They are chosen as by `parked`. Returns the groups that were ordered released.

        The order is one write, and the owners of the queues carry it out within seconds. Raises `InvalidArgument` when a named message group is not
        parked.
        """
        return await self._operating.release(group, topic=topic, queue=queue, message_group=message_group)

    async def skip(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on behind it. Otherwise like `release`."""
        return await self._operating.skip(group, topic=topic, queue=queue, message_group=message_group)

    @property
    def _operating(self) -> Operators:
        if self._operators is None:
            self._operators = Operators(self, self.coordination)
        self._check_open()
        return self._operators

    # --- Dead letters -----------------------------------------------------------------------------------------------------------

    async def redrive(
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
        self._check_open()
        return await redrive(self, group, limit=limit, where=where, damaged=damaged, dry_run=dry_run, only_group=only_group)

    # --- One message ------------------------------------------------------------------------------------------------------------

    async def trace(
        self, message_id: str, *, topic: str | None = None, progress: Callable[[int, int], None] = lambda done, topics: None
    ) -> Trace:
        """The stored traces of one message: its places, and its state in every consumer group that reads its topic.

        It is looked for in ``topic`` and the dead-letter queues of its groups, or in all topics, by their tables' Bloom filters and the newer part
        of their logs. ``progress`` is given the number of topics that are done and of all topics. A message that is not found, or not any more, has
        no places. The number of deliveries of a settled message is not stored.

        Raises `InvalidArgument` for what cannot be an id, and `TopicNotFound`. ``unread`` names what cannot be read.
        """
        self._check_open()
        return await trace(self, self.coordination, message_id, topic=topic, progress=progress)

    # --- Delayed messages -------------------------------------------------------------------------------------------------------

    async def recall(self, recall_handle: str) -> WaitingMessage:
        """Recall a delayed message, so that it is never delivered. Returns the message.

        ``recall_handle`` is that of the `SendResult`, or of a message that `waiting` lists. Raises `NotRecallable` when it was delivered, is on its
        way or was recalled before. Raises `MessageNotFound` for a handle of another lake, a deleted topic, or no message. Raises `InvalidArgument`,
        `ReadOnlyError`, and `UnknownOutcome`: then recall it again.
        """
        meant = RecallHandle.decode(recall_handle)
        await self._writable("recall")
        return await self._delayed.recall(meant)

    async def waiting(self, topic: str, *, until: datetime | None = None, limit: int | None = None) -> list[WaitingMessage]:
        """The delayed messages of a topic that are still to be delivered, by delivery time and then as they were sent, all in memory at once.

        ``until`` (exclusive) leaves out messages due later; ``limit`` takes only the first. Messages on their way into the topic do not wait any
        more. Raises `InvalidArgument` for a topic that is not of type DELAY, and `TopicNotFound`.
        """
        return await self._delayed.waiting(topic, until=until, limit=limit)

    def timer_statistics(self) -> dict[str, TimerStatistics]:
        """The work of this process by topic whose delayed messages it delivers, and the number of messages that wait. Any thread may ask."""
        return dict(self._maintenance.timers.statistics)

    # --- Transactions -----------------------------------------------------------------------------------------------------------

    @property
    def transactions(self) -> Transactions:
        """The transactions of all processes, for operators and roles."""
        return self._transacting.transactions

    def transaction(
        self,
        *,
        producer_group: str | None = None,
        consumer: SimpleConsumer | None = None,
        checker: Checker | None = None,
        first_check: Duration = FIRST_CHECK,
    ) -> Transaction:
        """Begin a transaction: ``async with lake.transaction(producer_group=…) as tx``. Nothing is written before its first send.

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
        self._check_open()
        return self._transacting.begin(producer_group=producer_group, consumer=consumer, checker=checker, first_check=first_check)

    def check_transactions(self, producer_group: str, checker: Checker) -> Checking:
        """Answer for a producer group's transactions whether they commit, for as long as this lake is open or until the result is closed.

        For an undecided transaction one live member of the group is asked, first 60 s after its first message (or the sender's ``first_check``),
        then every 60 s, at most 15 times; then it is rolled back. ``checker`` takes a `CheckedTransaction` and returns
        `TransactionResolution.COMMIT`, ``ROLLBACK`` or ``UNKNOWN``; an ordinary function runs in a thread, a coroutine function on the lake's event
        loop. A checker that raises, or takes more than 15 s, counts as not knowing. It may be asked while the sender is still at work, and twice.
        Raises `InvalidArgument`, `LimitExceeded` and `ReadOnlyError`.
        """
        check_producer_group(producer_group)
        self._check_open()
        return self._transacting.check(producer_group, checker)

    def checks(self, producer_group: str) -> bool:
        """Whether this lake answers for a producer group's transactions."""
        return self._transacting.checks(producer_group)

    def transaction_statistics(self) -> TransactionStatistics:
        """The work of this process on transactions, its own and others', and their state. Any thread may ask."""
        return self._transacting.statistics()

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        async with AsyncExitStack() as ends:  # the last is closed first, and each is closed even if another raises
            ends.push_async_callback(super()._close)
            if self._coordination is not None:
                ends.push_async_callback(self._coordination.close)
            ends.push_async_callback(self._transacting.close)
            ends.push_async_callback(self._maintenance.end)
