"""The cells of queues whose messages transactions settle."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ...log.errors import InternalError
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.receipt_handle import ForeignReceipt
from ..queues.remote_acks import RemoteAcks
from .ids import member_of
from .members.acks import Acks, Verdict, ended, verdict
from .members.member_cells import MemberCells
from .members.state import Decider, Decision, TransactionRow, check_decidable


class SettlementCells:
    """Changes the cells of queues whose messages transactions settle, beside the queues' owners."""

    def __init__(self, cells: Cells, members: MemberCells, runtime: Runtime) -> None:
        self._cells = cells
        self._members = members
        self._clock = runtime.clock
        self._receipts = RemoteAcks(cells, runtime)

    async def note(self, row: TransactionRow) -> Verdict:
        """Write the verdict of the queue's cell, if any, into an open transaction's row. Raises `TransactionRolledBack`, `TransactionCommitted` or
        `TransactionNotFound` when another was quicker, and what the table raises.
        """
        if row.acks is None:
            raise InternalError("the transaction settles nothing", operation="judge", object=row.id)
        found = await self.verdict(row.id, row.acks)
        if found is not Verdict.OPEN:
            decision = Decision.COMMITTED if found is Verdict.COMMITTED else Decision.ROLLED_BACK
            now_ms = self._clock.wall_ms()
            await self._members.change(member_of(row.id), lambda cell: cell.decided(row.id, decision, Decider.ACKS, now_ms=now_ms))
        return found

    async def verdict(self, transaction: str, acks: Acks) -> Verdict:
        """Raises what the table raises."""
        key = _key(acks)
        stored = await self._cells.read(key)
        return verdict(None if stored is None else decode_cell(stored.data, where=key), transaction, acks)

    async def end(self, acks: Acks, *, now_ms: int | None) -> None:
        """End the deliveries due by then (None: all): the uncommitted transaction never will be committed."""
        with suppress(ForeignReceipt):  # there is no cell
            await self._receipts.change(_key(acks), partial(ended, acks=acks, now_ms=now_ms))

    async def give_up(self, row: TransactionRow) -> None:
        """Roll back an open transaction, unless the queue's cell has it committed. Raises `AcksDecide` without a verdict, and as `note`."""
        if row.acks is not None:
            await self.end(row.acks, now_ms=None)
        if await self.note(row) is Verdict.OPEN:
            check_decidable(row, Decider.NOBODY)

    async def forget(self, transaction: str, acks: Acks) -> None:
        """Let the queue's cell forget a transaction whose row is committed."""
        with suppress(ForeignReceipt):
            await self._receipts.change(_key(acks), partial(QueueCell.without_transactions, noted=(transaction,)))


def _key(acks: Acks) -> str:
    return queue_key(acks.group, acks.topic, acks.queue)
