"""Reads and changes the cells of queues whose messages transactions settle: asks for their verdicts, and tells them when these are
noted.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import methodcaller

from ...log.errors import InternalError
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..queues.codec import decode_cell
from ..queues.receipt_handle import ForeignReceipt
from ..queues.remote_acks import RemoteAcks
from .ids import member_of
from .members.acks import Acks, Verdict, ended, verdict
from .members.member_cells import MemberCells
from .members.state import Decider, Decision, TransactionRow, check_decidable


class SettlementCells:
    """The queues' cells, for processes that finish transactions beside the owners of the queues."""

    def __init__(self, cells: Cells, members: MemberCells, runtime: Runtime) -> None:
        self._cells = cells
        self._members = members
        self._clock = runtime.clock
        self._receipts = RemoteAcks(cells, runtime)

    async def note(self, row: TransactionRow) -> Verdict:
        """Write the verdict of the queue's cell into the row of an open transaction that settles its messages, if there is a verdict.

        Raises `TransactionRolledBack`, `TransactionCommitted` or `TransactionNotFound` when somebody was quicker, and what the table
        raises.
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
        """The present verdict of the queue's cell. Raises what the table raises."""
        key = _key(acks)
        stored = await self._cells.read(key)
        return verdict(None if stored is None else decode_cell(stored.data, where=key), transaction, acks)

    async def end(self, acks: Acks, *, now_ms: int | None) -> None:
        """End the deliveries that are due by then (None: all), so that a transaction that is not committed never will be."""
        with suppress(ForeignReceipt):  # there is no cell
            await self._receipts.change(_key(acks), partial(ended, acks=acks, now_ms=now_ms))

    async def give_up(self, row: TransactionRow) -> None:
        """Let an open transaction be rolled back, unless the queue's cell says that it is committed: end the deliveries, and note the
        verdict.

        Raises `AcksDecide` when there is no verdict, and as `note` does.
        """
        if row.acks is not None:
            await self.end(row.acks, now_ms=None)
        if await self.note(row) is Verdict.OPEN:
            check_decidable(row, Decider.NOBODY)

    async def forget(self, transaction: str, acks: Acks) -> None:
        """Let the queue's cell forget a transaction. May be called only once the transaction's row says that it is committed."""
        with suppress(ForeignReceipt):
            await self._receipts.change(_key(acks), methodcaller("without_transactions", (transaction,)))


def _key(acks: Acks) -> str:
    return queue_key(acks.group, acks.topic, acks.queue)
