"""Messages that are durable and invisible until their transaction commits or rolls back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from ....log.errors import (
    InvalidArgument,
    PenstockError,
    RetryError,
)
from ....log.limits import shown
from ....log.message.batch_rows import MessageIds
from ....log.message.message import Message, MessageView
from ....log.stage.half_messages import check_half, message_ids
from ....log.topic.topics import Topic
from ...queues.receipt_handle import ReceiptRefused
from ..errors import (
    CommittedNotVisible,
    TransactionCommitted,
    TransactionEnded,
    TransactionFailed,
    TransactionNotFound,
    TransactionRolledBack,
)
from ..ids import id_prefix
from ..members.state import LINK_S, Decider, Decision, LinkResult, TransactionRow, check_open
from ..service import Transactions, side_by_side
from ..transaction_linker import TransactionLinker
from .half_message_sender import TIMEOUT, HalfMessageSender, rolled_back
from .settlement import Settlement, Settler
from .typed_halves import typed_halves


@dataclass(frozen=True, slots=True)
class TopicReceipt:
    """The outcome of a committed transaction on one topic."""

    messages: int
    entry: int | None
    """The entry that made them visible, if known."""
    offsets: Mapping[int, tuple[int, int]] | None
    """The first offset and the one after the last of every queue. None: not known, or very many queues."""
    gone: bool = False
    """Whether the topic, with the messages, was deleted."""


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """A transaction that is committed, and visible."""

    transaction_id: str | None
    topics: Mapping[str, TopicReceipt]


log = logging.getLogger("penstock.transactions")


class Transaction:
    """Messages that become visible together, or never. ``lake.transaction`` makes it.

    An ``async with`` block left by an error rolls it back. Left without a decision, by Ctrl-C or a cancelled task, it stays open for the checker,
    with a warning.

    Begun with a consumer, it can settle messages too, and needs no checker. If it is not committed when the deliveries end, it never will be. Leaving
    the block in any way rolls it back.
    """

    def __init__(
        self, transactions: Transactions, group: str, *, first_check: timedelta | None, settler: Settler | None = None
    ) -> None:
        self._transactions = transactions
        self._lake = transactions.lake
        self._runtime = transactions.lake.runtime
        self._group = group
        self._half = HalfMessageSender(transactions.cells, transactions.own, self._runtime, group, first_check=first_check)
        self._settlement = None
        if settler is not None:
            self._settlement = Settlement(transactions.cells, transactions.queues, self._runtime.clock, settler)
        self._sending = 0
        self._sent = asyncio.Event()
        self._sent.set()
        self._failure: BaseException | None = None
        self._ending = asyncio.Lock()
        self._receipt: TransactionReceipt | None = None
        self._rolled_back = False
        self._ended: TransactionEnded | None = None
        self._tried = False
        self._refused = False

    def __repr__(self) -> str:
        state = "committed" if self._receipt is not None else "rolled back" if self._rolled_back else "ended" if self._ended else ""
        return shown(self, f"of producer group {self._group}", self.id or "", state)

    @property
    def id(self) -> str | None:
        """The id for checkers and operators, and its messages' ``producer``. None before the first send."""
        return self._half.id

    @property
    def producer_group(self) -> str:
        """The group whose checkers are asked about it."""
        return self._group

    @property
    def _known_id(self) -> str:
        assert self._half.id is not None, "given by the first send"
        return self._half.id

    # --- Sending ----------------------------------------------------------------------------------------------------------------

    async def send(self, topic: str, *messages: Message, queue: int | None = None) -> list[str]:
        """Return the messages' ids once they are durable and invisible. Several calls may be under way at once.

        ``queue`` is the queue of them all; by default they take queues in turn.

        Raises `MessageTypeMismatch` unless the topic is of type TRANSACTION or MIXED and these have neither message group nor delivery time. Raises
        `InvalidArgument`, `LimitExceeded`, `TopicNotFound` and what the store raises. Raises `TransactionFailed` after an earlier send failed. Raises
        `TransactionRolledBack`, `TransactionCommitted` or `TransactionEnded` when it takes nothing more. After an error later than the call's own
        checks the transaction can only be rolled back.
        """
        self._check_usable("send in a transaction")
        if not messages:
            raise InvalidArgument("nothing to send", operation="send in a transaction", object=topic)
        opened = await self._lake.topic(topic, writable=True)
        checked = [check_half(message, opened.settings, topic=topic) for message in messages]
        _check_queue(queue, opened)
        typed = await typed_halves(opened, [message for message, _ in checked], queue)
        self._check_usable("send in a transaction")
        started_s = self._runtime.clock.monotonic_s()  # before a member is chosen, whose list it must be on while this lasts
        sent = self._half.take(opened, len(checked), sum(size_bytes for _, size_bytes in checked))
        given_ids = {at: one.message_id for at, (one, _) in enumerate(checked) if one.message_id is not None}
        ids = MessageIds(id_prefix(self._known_id), self._half.messages - len(checked), given_ids)
        self._sending += 1
        self._sent.clear()
        try:
            await self._half.stage(sent, [message for message, _ in checked], queue, ids, started_s, typed)
        except BaseException as error:
            if not isinstance(error, TransactionEnded) or self._half.given_up:  # otherwise it goes on without these messages
                self._failure = self._failure or error
            if isinstance(error, TransactionNotFound):
                self._transactions.own.abandon(self._group, self._half.member)
            raise
        finally:
            self._sending -= 1
            if not self._sending:
                self._sent.set()
        return message_ids(ids, len(checked))

    def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, or those of receipt handles, if and when this commits: all of them, with all that it sends, or none.

        They must be of one queue, received by the transaction's consumer or group. Nothing is written before the commit. Raises `InvalidArgument`,
        `ForeignReceipt`, `ReceiptOutdated`, and `LimitExceeded` for more than 256.
        """
        self._check_usable("ack in a transaction")
        if self._settlement is None:
            raise InvalidArgument(
                "the transaction was begun without a consumer, so it can settle no message",
                operation="ack in a transaction",
                hint="begin it with lake.transaction(consumer=…)",
            )
        self._settlement.add(receipts)

    # --- Committing -------------------------------------------------------------------------------------------------------------

    async def commit(self) -> TransactionReceipt:
        """Return once the transaction is committed, and its messages are visible. A repeated call returns the same receipt.

        Raises `TransactionRolledBack`, `TransactionExpired`, `TransactionFailed` and `TransactionNotFound` when this call can never commit it. Raises
        `UnknownOutcome` or `StoreUnavailable` when it may be committed: call again, or leave it to the checker. Raises `CommittedNotVisible` when it
        is committed for good: call again for the receipt, or leave it to maintenance. Raises `ReceiptRefused` when a message could not be settled, so
        that it is not committed: roll it back, or leave it.
        """
        async with self._ending:
            if self._receipt is None:
                self._receipt = await self._commit()
            return self._receipt

    async def _commit(self) -> TransactionReceipt:
        if self._rolled_back:
            raise self._ended or rolled_back("commit", self.id)
        if self._failure is not None:
            raise TransactionFailed(
                "a send of the transaction failed, so it cannot be committed",
                operation="commit",
                object=self.id,
                observed=str(self._failure) or type(self._failure).__name__,
                hint="roll it back, undo the local work, and send in a new transaction",
            ) from self._failure
        if self._sending:
            raise InvalidArgument(
                "sends of the transaction are under way", operation="commit", object=self.id, hint="await them first"
            )
        sent_s = self._runtime.clock.monotonic_s()
        self._tried = True
        if self.id is None:
            if self._settlement:
                await self._settlement.settle_alone()
            return TransactionReceipt(None, {})
        try:
            row = await (self._settlement.commit(self.id) if self._settlement else self._decide(Decision.COMMITTED))
        except TransactionRolledBack as ended:
            self._rolled_back, self._ended = True, ended
            raise
        except ReceiptRefused:
            self._tried, self._refused = False, True  # it is known not to be committed
            raise
        linked = await self._link(row, sent_s)
        if not row.is_finished and await self._forgotten(row):
            self._note(linked)
        self._tell_gone(linked)
        messages = {one.topic: one.messages for one in row.destinations}
        return TransactionReceipt(
            self.id,
            {name: TopicReceipt(messages[name], one.entry, one.offsets, one.gone) for name, one in linked.items()},
        )

    async def _decide(self, decision: Decision) -> TransactionRow:
        """Raises the other outcome of a decided transaction."""
        transaction, clock = self._known_id, self._runtime.clock
        cell = await self._transactions.cells.change(
            self._half.member, lambda cell: cell.decided(transaction, decision, Decider.OWNER, now_ms=clock.wall_ms())
        )
        row = cell.row(transaction)
        if row.decision is not decision:
            check_open(row, operation="commit")
        return row

    async def _withdraw(self) -> TransactionRow | None:
        transaction, clock = self._known_id, self._runtime.clock
        cell = await self._transactions.cells.change(
            self._half.member, lambda cell: cell.withdrawn(transaction, now_ms=clock.wall_ms()), group=self._group
        )
        return cell.rows.get(transaction)

    async def _link(self, row: TransactionRow, sent_s: float) -> dict[str, LinkResult]:
        if row.is_finished:
            return {one.topic: one.linked or LinkResult() for one in row.destinations}
        deadline_s = min(sent_s + LINK_S, self._runtime.clock.monotonic_s() + TIMEOUT.total_seconds())
        links = [
            TransactionLinker(
                self._lake,
                row.id,
                one,
                deadline_s=deadline_s,
                parts=self._half.topics[one.topic].parts[: len(one.parts)],
                extended=self._half.topics[one.topic].extended,
            )
            for one in row.destinations
        ]
        try:
            done = await side_by_side(links)
        except PenstockError as error:
            raise CommittedNotVisible(
                "the transaction is committed, and not all of its messages are visible yet",
                operation="commit",
                object=self.id,
                observed=str(error),
                hint="commit again for its receipt; otherwise whoever maintains the lake makes them visible",
            ) from error
        return {one.topic: link for one, link in zip(row.destinations, done, strict=True)}

    async def _forgotten(self, row: TransactionRow) -> bool:
        try:
            if self._settlement:
                await self._settlement.forget(row)
        except PenstockError as error:
            log.info("transaction %s is left to whoever maintains the lake to be noted as finished: %s", self.id, error)
            return False
        return True

    def _note(self, linked: Mapping[str, LinkResult]) -> None:
        transaction, clock = self._known_id, self._runtime.clock
        self._transactions.cells.note(
            self._half.member, lambda cell: cell.with_finished(transaction, linked, now_ms=clock.wall_ms())
        )

    def _tell_gone(self, linked: Mapping[str, LinkResult]) -> None:
        for topic, one in linked.items():
            if one.gone:
                log.warning(
                    "transaction %s is committed; topic %s was deleted, so its messages there are not visible", self.id, topic
                )

    # --- Rolling back -----------------------------------------------------------------------------------------------------------

    async def rollback(self) -> None:
        """Return once it is durable that none of the messages ever becomes visible, and sends under way have ended.

        Sends without any write yet raise `TransactionRolledBack`. Does nothing when called again, or after an expiry.

        Raises `TransactionCommitted`, `AcksDecide` when a commit to settle messages has begun, and what the table raises when the outcome is unknown:
        call again.
        """
        self._half.given_up = True  # from here on nothing more of it is begun
        async with self._ending:
            if self._receipt is not None:
                raise TransactionCommitted(
                    "the transaction is committed", operation="roll back", object=self.id, observed="by its sender"
                )
            if not self._rolled_back:
                await self._sends_ended()
                try:
                    await self._roll_back()
                except TransactionCommitted as ended:
                    self._ended = ended
                    raise
                self._rolled_back = True

    async def _sends_ended(self) -> None:
        await self._sent.wait()

    async def _roll_back(self) -> None:
        if not self._half.begun or self.id is None:
            return
        if self._settlement:
            await self._settlement.give_up(self.id)
        row = await (self._decide(Decision.ROLLED_BACK) if self._failure is None else self._withdraw())
        if row is None:
            return  # its first send failed; its staged objects go as every unnamed upload does
        if row.is_finished:
            return
        try:  # also what a send staged that failed before the row named it
            await self._transactions.discard(self.id, self._half.topics)
        except RetryError as error:
            log.info("what transaction %s staged is left to whoever maintains the lake: %s", self.id, error)
        else:
            self._note({})

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    def _check_usable(self, operation: str) -> None:
        hint = "begin another one"
        if self._receipt is not None or isinstance(self._ended, TransactionCommitted):
            raise TransactionCommitted("the transaction is committed", operation=operation, object=self.id, hint=hint)
        if self._rolled_back or self._half.given_up:
            raise self._ended or rolled_back(operation, self.id)
        if self._tried or self._refused:
            raise TransactionEnded("the transaction's commit has begun", operation=operation, object=self.id, hint=hint)
        if self._failure is not None:
            raise TransactionFailed(
                "a send of the transaction failed before",
                operation=operation,
                object=self.id,
                hint="roll it back, and begin another",
            ) from self._failure

    async def leave(self, error: BaseException | None) -> None:
        """End a ``with`` block. A failed rollback is left to the checker, and the block's error raised."""
        if self._receipt is not None or self._rolled_back:
            return
        if self._tried:
            if self.id is not None:
                asked = "the cell of the queue whose messages it settles" if self._settlement else "its checker"
                log.warning("whether transaction %s is committed is not known here; %s will be asked", self.id, asked)
        elif isinstance(error, Exception) or self._settlement is not None:
            try:
                await self.rollback()
            except PenstockError as refused:
                log.warning("transaction %s could not be rolled back; its checker will be asked: %s", self.id, refused)
        elif self.id is not None:
            how = "" if error is None else f" by {type(error).__name__},"
            log.warning("transaction %s was left%s without commit or rollback; its checker will be asked", self.id, how)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.leave(error)


def _check_queue(queue: int | None, topic: Topic) -> None:
    if queue is None:
        return
    if not isinstance(queue, int) or isinstance(queue, bool) or not 0 <= queue < topic.settings.queues:
        raise InvalidArgument(
            "the topic has no such queue",
            operation="send in a transaction",
            object=topic.paths.topic,
            expected=f"0 to {topic.settings.queues - 1}",
            observed=repr(queue),
        )
