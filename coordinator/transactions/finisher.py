"""The role ``transactions`` of a producer group: its player finishes transactions of processes that died, or lost their network.

Live processes go first: only work pending at the look before is done.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Sequence

from ...log.errors import PenstockError
from ...log.runtime.backoff import pause
from ...log.runtime.runtime import Clock
from ..coordination import Coordination
from ..rebalance.roles import OfferedRole, run_roles
from .checking.check_back_role import TransactionFinisher
from .errors import TransactionEnded, TransactionNotFound
from .members.acks import Verdict
from .members.member_cells import MemberCells
from .members.producer_groups import ProducerGroups
from .members.state import Decider, Decision, MemberCell, TransactionRow
from .service import Transactions
from .settlement_cells import SettlementCells

log = logging.getLogger("penstock.transactions")

TRANSACTIONS = "transactions"
LOOK_S = 15.0
"""The interval between two looks."""
_GROUPS_S = 60.0
"""The interval between looks without producer groups."""
TIDY_S = 600.0
"""The interval between two removals of what is old."""
END_AFTER_MS = 600_000
"""The age after which a due delivery is ended here, not by its owner."""

Report = Callable[[str, PenstockError], None]
"""A callback with the transaction or producer group, and the error."""
OnLook = Callable[[str, Sequence[MemberCell] | None], None]
"""A callback with a producer group's cells, or None at the end of looks."""


class Finisher:
    """Plays the role for any producer group."""

    def __init__(
        self,
        names: ProducerGroups,
        members: MemberCells,
        transactions: TransactionFinisher,
        queues: SettlementCells,
        clock: Clock,
        *,
        report: Report = lambda what, error: None,
        on_look: OnLook = lambda group, cells: None,
        look_s: float = LOOK_S,
    ) -> None:
        self._names = names
        self._members = members
        self._transactions = transactions
        self._queues = queues
        self._clock = clock
        self._report = report
        self._on_look = on_look
        self._look_s = look_s

    async def groups(self) -> Collection[str]:
        return await self._names.groups()

    async def play(self, group: str, stop: asyncio.Event) -> None:
        """Finish pending work until ``stop`` is set. Failures are reported, and tried again."""
        before: frozenset[str] = frozenset()
        tidy_s = -math.inf
        try:
            while not stop.is_set():
                try:
                    before = await self.look(group, spare=before)
                    if self._clock.monotonic_s() >= tidy_s:
                        await self._transactions.tidy(group)
                        tidy_s = self._clock.monotonic_s() + TIDY_S
                except PenstockError as error:
                    self._report(group, error)
                await pause(stop, self._look_s)
        finally:
            self._on_look(group, None)

    async def once(self, group: str) -> int:
        """Do all pending work once. Returns how many transactions were unfinished."""
        found = await self.look(group, spare=None)
        await self._transactions.tidy(group)
        return len(found)

    async def look(self, group: str, *, spare: frozenset[str] | None) -> frozenset[str]:
        """Do the work pending at the look before (``spare`` None: all). Returns the pending work."""
        await self._transactions.keep_time()  # a machine that is hours ahead must not roll everything back
        read = await asyncio.gather(*(self._members.read(member) for member in sorted(await self._names.members(group))))
        cells = [cell for cell in read if cell is not None and cell.group == group]
        self._on_look(group, cells)
        found: set[str] = set()
        for cell in cells:
            for row in self._to_do(cell):
                found.add(row.id)
                if spare is None or row.id in spare:
                    await self._end_safely(row)
        return frozenset(found)

    def _to_do(self, cell: MemberCell) -> list[TransactionRow]:
        return [*cell.to_finish(), *cell.to_judge(), *cell.aged(self._clock.wall_ms())]

    async def _end_safely(self, row: TransactionRow) -> None:
        try:
            await self.end(row)
        except (TransactionEnded, TransactionNotFound):
            pass  # somebody was quicker
        except PenstockError as error:
            self._report(f"transaction {row.id}", error)

    async def end(self, row: TransactionRow) -> None:
        """Raises the error that prevents it, `TransactionEnded` or `TransactionNotFound`."""
        if row.is_open and row.acks is not None:
            await self._queues.end(row.acks, now_ms=self._clock.wall_ms() - END_AFTER_MS)
            if await self._queues.note(row) is Verdict.OPEN:
                return
        elif row.is_open:
            log.error("transaction %s is rolled back: it was open for too long", row.id)
            await self._transactions.decide(row.id, Decision.ROLLED_BACK, Decider.AGE)
        await self._transactions.finish(row.id)


def finisher_of(transactions: Transactions, *, report: Report) -> Finisher:
    clock = transactions.lake.runtime.clock
    return Finisher(
        transactions.groups,
        transactions.cells,
        transactions,
        transactions.queues,
        clock,
        report=report,
        on_look=transactions.counting.looked,
    )


async def run_finisher(
    transactions: Transactions, coordination: Coordination, stop: asyncio.Event, *, report: Report, patience_s: float = 0.0
) -> None:
    """Play a fair share of the producer groups until ``stop`` is set."""
    finisher = finisher_of(transactions, report=report)
    while not stop.is_set():
        try:
            if await finisher.groups():
                break
        except PenstockError as error:
            report("-", error)
        await pause(stop, _GROUPS_S)
    else:
        return
    await run_roles(
        coordination.cells,
        coordination.worker,
        coordination.watch,
        transactions.lake.runtime,
        OfferedRole(role=TRANSACTIONS, topics=finisher.groups, play=finisher.play),
        stop,
        ready=coordination.claim,
        report=report,
        patience_s=patience_s,
    )
