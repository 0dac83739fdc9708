"""The received messages that a transaction settles when it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ....log.errors import InvalidArgument
from ....log.message.message import MessageView
from ....log.runtime.runtime import Clock
from ...queues.cell import QueueCell
from ...queues.keeper import Change
from ...queues.receipt_handle import ReceiptHandle, ReceiptRefused
from ..errors import TransactionCommitted
from ..ids import member_of
from ..members.acks import Acks, Verdict, acks_of, settled_by
from ..members.member_cells import MemberCells
from ..members.state import Decider, Decision, TransactionRow, check_open
from ..settlement_cells import SettlementCells


class Settler(Protocol):
    """A SimpleConsumer of the receiving group."""

    @property
    def group(self) -> str: ...

    async def ack(self, *receipts: MessageView | str) -> None: ...

    def handles_of(self, receipts: Sequence[MessageView | str], operation: str) -> list[ReceiptHandle]: ...

    async def settle_by(self, topic: str, queue: int, handles: Sequence[ReceiptHandle], change: Change) -> None: ...


class Settlement:
    """The messages that one transaction settles, by one consumer."""

    def __init__(self, members: MemberCells, queues: SettlementCells, clock: Clock, settler: Settler) -> None:
        self._members = members
        self._queues = queues
        self._clock = clock
        self._settler = settler
        self._receipts: list[MessageView | str] = []
        self._handles: list[ReceiptHandle] = []

    def __bool__(self) -> bool:
        return bool(self._handles)

    def add(self, receipts: Sequence[MessageView | str]) -> None:
        """Settle these messages too: all or, raising as `handles_of` and `acks_of`, none."""
        if not receipts:
            raise InvalidArgument("nothing to acknowledge", operation="ack in a transaction")
        handles = [*self._handles, *self._settler.handles_of(receipts, "ack in a transaction")]
        acks_of(handles)
        self._handles = handles
        self._receipts += receipts

    async def settle_alone(self) -> None:
        """Settle the messages of a transaction without sends. Raises as `SimpleConsumer.ack`."""
        await self._settler.ack(*self._receipts)

    async def commit(self, transaction: str) -> TransactionRow:
        """The row, once the settling write has durably committed the transaction.

        Raises `ReceiptRefused` when the messages cannot be settled: it is rolled back, at the latest at their deliveries' end. Raises the other
        outcome of a decided transaction. After other errors it may be either: call again.
        """
        acks, member = acks_of(self._handles), member_of(transaction)
        now_ms = self._clock.wall_ms()
        cell = await self._members.change(member, lambda cell: cell.with_acks(transaction, acks, now_ms=now_ms), grows=True)
        row = cell.row(transaction)
        if row.decision is Decision.ROLLED_BACK:
            check_open(row, operation="commit")
        if row.is_open:
            try:
                await self._settle(transaction, acks)
            except ReceiptRefused:
                if not await self._was_committed(row, acks):
                    raise
        cell = await self._members.change(
            member, lambda cell: cell.decided(transaction, Decision.COMMITTED, Decider.ACKS, now_ms=now_ms)
        )
        return cell.row(transaction)

    async def _settle(self, transaction: str, acks: Acks) -> None:
        """Commit by the settling write. Raises as `settled_by` and ``settle_by``."""
        change = partial(settled_by, transaction=transaction, handles=self._handles, now_ms=self._clock.wall_ms())
        await self._settler.settle_by(acks.topic, acks.queue, self._handles, change)

    async def _was_committed(self, row: TransactionRow, acks: Acks) -> bool:
        """Whether a transaction has settled its messages; if not, it is rolled back where possible."""
        await self._queues.end(acks, now_ms=self._clock.wall_ms())
        try:
            return await self._queues.note(row) is Verdict.COMMITTED
        except TransactionCommitted:
            return True

    async def give_up(self, transaction: str) -> None:
        """End the deliveries of an uncommitted transaction. Raises `TransactionCommitted`, `AcksDecide`, and what the table raises."""
        cell = await self._members.read(member_of(transaction))
        row = None if cell is None else cell.rows.get(transaction)
        if row is not None and row.is_open and row.acks is not None:
            await self._queues.give_up(row)

    async def forget(self, row: TransactionRow) -> None:
        """Let the queue's cell forget a committed transaction. Raises what the table raises."""
        if row.acks is not None:
            change = partial(QueueCell.without_transactions, noted=(row.id,))
            await self._settler.settle_by(row.acks.topic, row.acks.queue, (), change)
