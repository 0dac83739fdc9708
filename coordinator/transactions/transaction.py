"""A transaction, as its sender has it: messages that are durable and invisible, until it commits or rolls back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from ...log.backoff import until_answered
from ...log.batching import MessageIds
from ...log.errors import (
    InvalidArgument,
    LimitExceeded,
    PenstockError,
    RetryError,
    TopicDeleted,
)
from ...log.half import HalfFile, check_half, half_files, half_rows, message_ids
from ...log.header import Part
from ...log.limits import MIB
from ...log.messages import Message
from ...log.routing import Router
from ...log.staging import begin_job
from ...log.stores.protocol import Put
from ...log.topics import Topic
from .errors import (
    CommittedNotVisible,
    TransactionCommitted,
    TransactionEnded,
    TransactionFailed,
    TransactionNotFound,
    TransactionRolledBack,
)
from .limits import BYTES_MAX, MESSAGES_MAX, PARTS_MAX, TOPICS_MAX
from .linking import Link
from .naming import id_prefix, job_of, new_transaction
from .receipts import TopicReceipt, TransactionReceipt
from .service import Transactions, side_by_side
from .state import LINK_S, SEND_S, By, Decision, HalfPart, LinkedAs, MemberCell, TransactionRow, check_open

log = logging.getLogger("penstock.transactions")

TIMEOUT = timedelta(minutes=2)
"""For each send, and for making the messages visible."""
_PUT_LARGE_BYTES = 8 * MIB


@dataclass(slots=True)
class _Sent:
    """What this process has staged for one topic."""

    topic: Topic
    router: Router
    begun: asyncio.Future[None] | None = None
    parts: list[Part] = field(default_factory=list)
    messages: int = 0


class Transaction:
    """Messages that become visible together, or never. Made by ``lake.transaction``; on the running event loop.

    Left by an error, a ``with`` block rolls it back. Left without a decision it stays open, for the checker to decide: by then nobody
    knows whether the local work was done.
    """

    def __init__(self, transactions: Transactions, group: str, *, first_check: timedelta | None) -> None:
        self._transactions = transactions
        self._lake = transactions.lake
        self._runtime = transactions.lake.runtime
        self._group = group
        self._first_check_ms = None if first_check is None else round(first_check.total_seconds() * 1000)
        self._id: str | None = None
        self._member = ""
        self._topics: dict[str, _Sent] = {}
        self._messages = 0
        self._bytes = 0
        self._sending = 0
        self._begun = False
        self._failure: BaseException | None = None
        self._ending = asyncio.Lock()
        self._receipt: TransactionReceipt | None = None
        self._rolled_back = False
        self._ended: TransactionEnded | None = None
        self._tried = False

    @property
    def id(self) -> str | None:
        """By which the group's checkers and operators know it, and the ``producer`` of its messages; None before the first send."""
        return self._id

    @property
    def producer_group(self) -> str:
        """Whose checkers are asked what became of it."""
        return self._group

    # --- Sending ----------------------------------------------------------------------------------------------------------------

    async def send(self, topic: str, *messages: Message, queue: int | None = None) -> list[str]:
        """Return the messages' ids once they are durable, and visible to nobody. Several calls may be under way at once.

        ``queue`` names the queue of them all; else they take the queues in turn. Raises `MessageTypeMismatch` unless the topic takes
        TRANSACTION messages and these have neither message group nor delivery time, `InvalidArgument`, `LimitExceeded`, `TopicNotFound` and
        what the store raises. After an error that came later than those of the call itself the transaction can only be rolled back.
        """
        self._check_usable("send in a transaction")
        if not messages:
            raise InvalidArgument("nothing to send", operation="send in a transaction", object=topic)
        opened = await self._lake.topic(topic, writable=True)
        self._check_usable("send in a transaction")
        checked = [check_half(message, opened.settings, topic=topic) for message in messages]
        _check_queue(queue, opened)
        started_s = self._runtime.clock.monotonic_s()  # before a member is chosen, whose list it must be on while this lasts
        sent = self._take(opened, len(checked), sum(size_bytes for _, size_bytes in checked))
        assert self._id is not None, "given by the first send"
        ids = MessageIds(id_prefix(self._id), self._messages - len(checked))
        self._sending += 1
        try:
            await self._stage(sent, [message for message, _ in checked], queue, ids, started_s)
        except BaseException as error:
            self._failure = self._failure or error
            if isinstance(error, TransactionNotFound):
                self._transactions.own.abandon(self._group, self._member)
            raise
        finally:
            self._sending -= 1
        return message_ids(ids, len(checked))

    def _take(self, opened: Topic, count: int, size_bytes: int) -> _Sent:
        """Count these messages in. Raises `LimitExceeded`, and `TopicDeleted`."""
        name = opened.paths.topic
        sent = self._topics.get(name)
        if sent is not None and sent.topic.record.incarnation != opened.record.incarnation:
            raise TopicDeleted(
                "the topic was deleted and created again since the transaction's first message to it", operation="send", object=name
            )
        _at_most("messages", self._messages + count, MESSAGES_MAX)
        _at_most("bytes", self._bytes + size_bytes, BYTES_MAX)
        _at_most("topics", len(self._topics) + (sent is None), TOPICS_MAX)
        _at_most("sends to one topic", 1 + (0 if sent is None else len(sent.parts)), PARTS_MAX)
        if sent is None:
            queues = opened.settings.queues
            sent = self._topics[name] = _Sent(opened, Router(queues, first=self._runtime.random.randrange(queues)))
        if self._id is None:
            self._member = self._transactions.own.choose(self._group)
            self._id = new_transaction(self._member, self._runtime)
        self._messages += count
        self._bytes += size_bytes
        sent.messages += count
        return sent

    async def _stage(self, sent: _Sent, messages: Sequence[Message], queue: int | None, ids: MessageIds, started_s: float) -> None:
        assert self._id is not None, "given by the first send"
        born_us = 1000 * self._runtime.clock.wall_ms()
        transaction = self._id
        files = await self._runtime.offload(
            lambda: half_files(half_rows(messages, queue, sent.router, born_us=born_us, producer=transaction, ids=ids))
        )
        number = len(sent.parts)  # from here to where they are asked for nothing is awaited: parts are named in their order
        parts = [file.part(sent.topic.paths, job_of(self._id), number + at) for at, file in enumerate(files)]
        sent.parts += parts
        if sent.begun is None:
            sent.begun = asyncio.ensure_future(self._begin_upload(sent))
            sent.begun.add_done_callback(lambda done: done.cancelled() or done.exception())  # every send waits for it
        waits: list[Awaitable[object]] = [self._name(sent, number, files, parts, started_s), asyncio.shield(sent.begun)]
        waits.append(self._transactions.own.joined(self._group, self._member))
        waits += [self._upload(sent, file, part) for file, part in zip(files, parts, strict=True)]
        await _all_of(waits)
        self._transactions.own.used(self._group, self._member, started_s)

    def _name(
        self, sent: _Sent, number: int, files: Sequence[HalfFile], parts: Sequence[Part], started_s: float
    ) -> Awaitable[object]:
        """Write into the transaction's row what is being uploaded; the first time that makes the row."""
        assert self._id is not None
        first, self._begun = not self._begun, True
        transaction, topic, incarnation = self._id, sent.topic.paths.topic, sent.topic.record.incarnation
        halves = [HalfPart(part.size_bytes, part.digest, file.messages) for file, part in zip(files, parts, strict=True)]
        clock = self._runtime.clock

        def named(cell: MemberCell) -> MemberCell:
            for at, half in enumerate(halves):
                cell = cell.with_half(
                    transaction,
                    topic,
                    incarnation,
                    number + at,
                    half,
                    now_ms=clock.wall_ms(),
                    first_check_ms=self._first_check_ms,
                    first=first,
                )
            return cell

        if first:
            return self._transactions.cells.change(self._member, named, group=self._group, until_s=started_s + SEND_S)
        return self._transactions.cells.change(self._member, named)

    async def _begin_upload(self, sent: _Sent) -> None:
        assert self._id is not None
        topic, transaction = sent.topic, self._id
        await self._answered(
            lambda: begin_job(topic.store, topic.paths, self._runtime, producer=transaction, job=job_of(transaction))
        )

    async def _upload(self, sent: _Sent, file: HalfFile, part: Part) -> None:
        store, key = sent.topic.store, sent.topic.paths.root + part.key
        if len(file.data) > _PUT_LARGE_BYTES:
            await self._answered(lambda: store.put_large(key, file.data))
        else:
            await self._answered(lambda: store.put(key, file.data, mode=Put.REPLACE))

    async def _answered(self, work: Any) -> None:  # noqa: ANN401 - any request
        await until_answered(work, self._runtime.clock, timeout_s=TIMEOUT.total_seconds())

    # --- Committing -------------------------------------------------------------------------------------------------------------

    async def commit(self) -> TransactionReceipt:
        """Return once the transaction is committed, and its messages are visible. Again: the same receipt.

        Raises `TransactionRolledBack`, `TransactionExpired`, `TransactionFailed` and `TransactionNotFound`: it is not committed, and never
        will be by this call. `UnknownOutcome`, `StoreUnavailable`: it may be; call again, or leave it to the checker. `CommittedNotVisible`:
        it is, for good; call again for the receipt, or leave it to whoever maintains the lake.
        """
        async with self._ending:
            if self._receipt is None:
                self._receipt = await self._commit()
            return self._receipt

    async def _commit(self) -> TransactionReceipt:
        if self._rolled_back:
            raise TransactionRolledBack(
                "the transaction was rolled back", operation="commit", object=self._id, observed="by its sender"
            )
        if self._failure is not None:
            raise TransactionFailed(
                "a send of the transaction failed, so it cannot be committed",
                operation="commit",
                object=self._id,
                observed=str(self._failure) or type(self._failure).__name__,
                hint="roll it back, undo the local work, and send in a new transaction",
            ) from self._failure
        if self._sending:
            raise InvalidArgument(
                "sends of the transaction are under way", operation="commit", object=self._id, hint="await them first"
            )
        if self._id is None:
            return TransactionReceipt(None, {})
        sent_s = self._runtime.clock.monotonic_s()
        self._tried = True
        try:
            row = await self._decide(Decision.COMMITTED)
        except TransactionRolledBack as ended:
            self._rolled_back, self._ended = True, ended
            raise
        linked = await self._link(row, sent_s)
        if not row.is_finished:
            self._note(linked)
        self._tell_gone(linked)
        return TransactionReceipt(
            self._id,
            {
                name: TopicReceipt(self._topics[name].messages, one.entry, one.offsets, one.gone)
                for name, one in linked.items()
                if name in self._topics
            },
        )

    async def _decide(self, decision: Decision) -> TransactionRow:
        """The row once the decision is durable. Raises what became of the transaction if it is decided otherwise."""
        assert self._id is not None
        transaction, clock = self._id, self._runtime.clock
        cell = await self._transactions.cells.change(
            self._member, lambda cell: cell.decided(transaction, decision, By.OWNER, now_ms=clock.wall_ms())
        )
        row = cell.row(transaction)
        if row.decision is not decision:
            check_open(row, operation="commit")
        return row

    async def _link(self, row: TransactionRow, sent_s: float) -> dict[str, LinkedAs]:
        if row.is_finished:
            return {one.topic: one.linked or LinkedAs() for one in row.destinations}
        deadline_s = min(sent_s + LINK_S, self._runtime.clock.monotonic_s() + TIMEOUT.total_seconds())
        links = [
            Link(self._lake, row.id, one, deadline_s=deadline_s, parts=self._topics[one.topic].parts) for one in row.destinations
        ]
        try:
            done = await side_by_side(links)
        except PenstockError as error:
            raise CommittedNotVisible(
                "the transaction is committed, and not all of its messages are visible yet",
                operation="commit",
                object=self._id,
                observed=str(error),
                hint="commit again for its receipt; otherwise whoever maintains the lake makes them visible",
            ) from error
        return {one.topic: link for one, link in zip(row.destinations, done, strict=True)}

    def _note(self, linked: Mapping[str, LinkedAs]) -> None:
        assert self._id is not None
        transaction, clock = self._id, self._runtime.clock
        self._transactions.cells.note(self._member, lambda cell: cell.with_finished(transaction, linked, now_ms=clock.wall_ms()))

    def _tell_gone(self, linked: Mapping[str, LinkedAs]) -> None:
        for topic, one in linked.items():
            if one.gone:
                log.warning(
                    "transaction %s is committed; topic %s was deleted, so its messages there are not visible", self._id, topic
                )

    # --- Rolling back -----------------------------------------------------------------------------------------------------------

    async def rollback(self) -> None:
        """Return once it is durable that none of the messages becomes visible, ever. Again, or after an expiry: nothing happens.

        Raises `TransactionCommitted` when it is committed, and when that is not known what the table raises: call again.
        """
        async with self._ending:
            if self._receipt is not None:
                raise TransactionCommitted(
                    "the transaction is committed", operation="roll back", object=self._id, observed="by its sender"
                )
            if not self._rolled_back:
                await self._roll_back()
                self._rolled_back = True

    async def _roll_back(self) -> None:
        if not self._begun or self._id is None:
            return
        try:
            row = await self._decide(Decision.ROLLED_BACK)
        except TransactionNotFound:
            if self._failure is None:
                raise
            return  # its first send failed, and left nothing
        if row.is_finished:
            return
        try:
            await self._transactions.discard(row)
        except RetryError as error:
            log.info("what transaction %s staged is left to whoever maintains the lake: %s", self._id, error)
        else:
            self._note({})

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    def _check_usable(self, operation: str) -> None:
        if self._receipt is not None or self._rolled_back or self._tried:
            raise TransactionCommitted("the transaction was ended", operation=operation, object=self._id, hint="begin another one")
        if self._failure is not None:
            raise TransactionFailed(
                "a send of the transaction failed before",
                operation=operation,
                object=self._id,
                hint="roll it back, and begin another",
            ) from self._failure

    async def leave(self, error: BaseException | None) -> None:
        """End a ``with`` block. A rollback that fails is left to the checker, and what raised goes on."""
        if self._receipt is not None or self._rolled_back or self._id is None:
            return
        if self._tried:
            log.warning("whether transaction %s is committed is not known here; its checker will be asked", self._id)
        elif isinstance(error, Exception):
            try:
                await self.rollback()
            except PenstockError as refused:
                log.warning("transaction %s could not be rolled back; its checker will be asked: %s", self._id, refused)
        elif error is None:
            log.warning("transaction %s was left without commit or rollback; its checker will be asked", self._id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.leave(error)


async def _all_of(waits: Sequence[Awaitable[object]]) -> None:
    """Return once all have ended, also when one fails: what is under way of a send is known then. Raises the first error."""
    done = await asyncio.gather(*waits, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one


def _check_queue(queue: int | None, topic: Topic) -> None:
    if queue is None:
        return
    if not isinstance(queue, int) or isinstance(queue, bool) or not 0 <= queue < topic.settings.queues:
        raise InvalidArgument(
            "the topic has no such queue",
            operation="send in a transaction",
            object=topic.paths.topic,
            expected=f"0 to {topic.settings.queues - 1}",
            observed=queue,
        )


def _at_most(what: str, observed: int, limit: int) -> None:
    if observed > limit:
        raise LimitExceeded(
            f"the transaction has too many {what}",
            operation="send in a transaction",
            expected=f"at most {limit}",
            observed=observed,
            hint="end it, and send the rest in another one",
        )
