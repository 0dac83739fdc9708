"""The role ``checks`` of a producer group: its player asks its own checker about undecided transactions.

A check is counted in the transaction's row before the checker is asked, so of two players one asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from ....log.errors import PenstockError, unforeseen
from ....log.message.message import MessageView
from ....log.runtime.backoff import pause
from ....log.runtime.runtime import Clock
from ..errors import AcksDecide, HalfMessagesMissing, TransactionEnded, TransactionNotFound
from ..ids import member_of
from ..members.member_cells import MemberCells
from ..members.producer_groups import ProducerGroups
from ..members.state import Decider, Decision, TransactionRow
from .checker import AT_ONCE_MAX, CheckedTransaction, RegisteredChecker, TransactionResolution, size_bytes

log = logging.getLogger("penstock.transactions")

CHECKS = "checks"
CHECKS_MAX = 15
"""The checks of one transaction before it is rolled back; RocketMQ's number."""
CHECK_EVERY_MS = 60_000
LOOK_S = 5.0
"""The interval between two looks."""


class TransactionFinisher(Protocol):
    """Operations on others' transactions: `Transactions`."""

    async def keep_time(self) -> None: ...

    async def decide(self, id: str, decision: Decision, by: Decider, /) -> TransactionRow: ...

    async def finish(self, id: str, /) -> TransactionRow | None: ...

    async def messages(self, id: str, /) -> Sequence[MessageView]: ...

    async def tidy(self, group: str, /) -> None: ...


class CheckBackRole:
    """Plays the role for the producer groups with a checker in this process."""

    def __init__(
        self,
        names: ProducerGroups,
        members: MemberCells,
        transactions: TransactionFinisher,
        clock: Clock,
        asked: RegisteredChecker,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._names = names
        self._members = members
        self._transactions = transactions
        self._clock = clock
        self._asked = asked
        self._look_s = look_s
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_full = False
        self._reading = asyncio.Lock()

    async def play(self, group: str, stop: asyncio.Event) -> None:
        """Check due transactions until ``stop`` is set. Open questions are left to the next player."""
        try:
            while not stop.is_set():
                try:
                    await self.look(group)
                except PenstockError as error:
                    log.warning("producer group %s: its transactions cannot be read, and are looked at again: %s", group, error)
                await pause(stop, self._look_s)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def look(self, group: str) -> None:
        """Begin the due checks that have room, the longest due first."""
        await self._transactions.keep_time()  # a machine that is hours ahead must not use up the checks
        cells = await asyncio.gather(*(self._members.read(member) for member in sorted(await self._names.members(group))))
        now_ms = self._clock.wall_ms()
        due = [row for cell in cells if cell is not None and cell.group == group for row in cell.to_check(now_ms)]
        due = [row for row in sorted(due, key=lambda row: row.next_check_ms or 0) if row.id not in self._running]
        room = max(0, AT_ONCE_MAX - self._asked.late - len(self._running))
        if len(due) > room and not self._is_full:
            log.error("producer group %s: its checker has %d questions before it, and is asked no more for now", group, AT_ONCE_MAX)
        self._is_full = len(due) > room
        for row in due[:room]:
            task = asyncio.ensure_future(self._check_safely(group, row))
            self._running[row.id] = task
            task.add_done_callback(partial(self._over, row.id))

    def _over(self, transaction: str, _: asyncio.Task[None]) -> None:
        del self._running[transaction]

    async def settle(self) -> None:
        await asyncio.gather(*self._running.values())

    async def _check_safely(self, group: str, row: TransactionRow) -> None:
        try:
            await self.check(group, row)
        except (TransactionEnded, TransactionNotFound, AcksDecide):
            pass  # somebody was quicker
        except PenstockError as error:
            log.warning("transaction %s of producer group %s was not checked, and is looked at again: %s", row.id, group, error)
        except Exception as error:
            log.exception("transaction %s of producer group %s", row.id, group, exc_info=unforeseen(error, operation="check"))

    async def check(self, group: str, row: TransactionRow) -> None:
        """Ask about one transaction, or roll it back. Raises the error that prevents it, and `TransactionEnded` or `TransactionNotFound` when another
        was quicker.
        """
        if is_given_up(row):
            log.error(
                "transaction %s of producer group %s is rolled back: its checker was asked %d times and did not know",
                row.id,
                group,
                row.checks,
            )
            await self._carry_out(row, Decision.ROLLED_BACK, Decider.CHECKS)
            return
        match await self._answer(group, row):
            case TransactionResolution.COMMIT:
                await self._carry_out(row, Decision.COMMITTED, Decider.CHECKER)
            case TransactionResolution.ROLLBACK:
                await self._carry_out(row, Decision.ROLLED_BACK, Decider.CHECKER)
            case TransactionResolution.UNKNOWN:
                log.info("transaction %s of producer group %s: not known yet, at check %d", row.id, group, row.checks + 1)

    async def _answer(self, group: str, row: TransactionRow) -> TransactionResolution | None:
        """The checker's answer, once the question is counted; None when not asked."""
        async with self._reading:  # one at a time, so that messages that were read have their room before others are read
            # The messages are read before the check is counted: a store that does not answer must not count as a check.
            messages = await self._messages(group, row)
            held_bytes = size_bytes(messages or ())
            await self._asked.take_room(held_bytes)
        try:
            await self._count(row)
        except BaseException:
            self._asked.give_back(held_bytes)
            raise
        if messages is None:
            return None
        transaction = CheckedTransaction(
            id=row.id,
            producer_group=group,
            created=datetime.fromtimestamp(row.created_ms / 1000, UTC),
            checks=row.checks + 1,
            messages=tuple(messages),
        )
        return await self._asked.ask(transaction, held_bytes=held_bytes)

    async def _messages(self, group: str, row: TransactionRow) -> Sequence[MessageView] | None:
        """None when messages are missing: the sender died or is still sending."""
        try:
            return await self._transactions.messages(row.id)
        except HalfMessagesMissing as error:
            log.warning("transaction %s of producer group %s cannot be checked yet: %s", row.id, group, error)
            return None

    async def _count(self, row: TransactionRow) -> None:
        now_ms, checks = self._clock.wall_ms(), row.checks + 1
        await self._members.change(
            member_of(row.id), lambda cell: cell.with_check(row.id, checks=checks, now_ms=now_ms, every_ms=CHECK_EVERY_MS)
        )

    async def _carry_out(self, row: TransactionRow, decision: Decision, by: Decider) -> None:
        await self._transactions.decide(row.id, decision, by)
        await self._transactions.finish(row.id)


def is_given_up(row: TransactionRow) -> bool:
    return row.checks >= CHECKS_MAX
