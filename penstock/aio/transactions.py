"""Transactions of a lake, as their senders and checkers see them."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.consumers import SimpleConsumer
from penstock.coordinator import OfferedRole, run_roles
from penstock.coordinator.transactions.checking.check_back_role import CHECKS, CheckBackRole
from penstock.coordinator.transactions.checking.checker import Checker, RegisteredChecker
from penstock.coordinator.transactions.ids import check_producer_group
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.coordinator.transactions.service import Transactions
from penstock.coordinator.transactions.statistics import TransactionStatistics
from penstock.log import InvalidArgument
from penstock.log.limits import Duration, checked_duration, shown
from penstock.log.topic.topics import read_only

if TYPE_CHECKING:
    from .lake import Lake

log = logging.getLogger("penstock.transactions")

FIRST_CHECK = timedelta(seconds=60)
FIRST_CHECK_MAX = timedelta(hours=1)
_ENDS_S = 5.0


class Checking:
    """A process's place among the checkers of a producer group's transactions. ``lake.check_transactions`` makes it.

    Use it in an ``async with`` block, or close it.
    """

    producer_group: str
    """The group whose transactions it answers for."""

    def __init__(self, service: TransactionService, producer_group: str, asked: RegisteredChecker) -> None:
        self._service = service
        self.producer_group = producer_group
        self._asked = asked
        self._stop = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._ended)

    def __repr__(self) -> str:
        return shown(self, f"for producer group {self.producer_group}", "closed" if self.closed else "")

    @property
    def closed(self) -> bool:
        """Whether it is not asked any more."""
        return self._stop.is_set()

    def ask_instead(self, checker: Checker) -> None:
        """Ask another checker from now on."""
        self._asked.ask_instead(checker)

    async def close(self) -> None:
        """Stop answering. Questions under way are left to others. Closing again does nothing."""
        self._stop.set()
        self._service.forget_checking(self)
        await asyncio.wait((self._task,), timeout=_ENDS_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        lake, group = self._service.lake, self.producer_group
        coordination, transactions = lake.coordination, lake.transactions
        checks = CheckBackRole(transactions.groups, transactions.cells, transactions, lake.runtime.clock, self._asked)

        async def groups() -> list[str]:
            return [group]

        await run_roles(
            coordination.cells,
            coordination.worker,
            coordination.watch,
            lake.runtime,
            OfferedRole(role=CHECKS, topics=groups, play=checks.play, all_topics=False),
            self._stop,
            ready=coordination.claim,
            report=lambda what, error: log.warning("the checks of producer group %s are tried again: %s", group, error),
            patience_s=0.0,
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A process that ends without closing its lake takes away the threads that do the work. That is no bug of ours, and a line is
        # enough.
        bug = error if threading.main_thread().is_alive() else None
        log.error("this process answers for producer group %s no more: %r", self.producer_group, error, exc_info=bug)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class TransactionService:
    """The transactions that a lake begins, and the producer groups that it answers for."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._transactions: Transactions | None = None
        self._checkings: tuple[Checking, ...] = ()

    @property
    def transactions(self) -> Transactions:
        if self._transactions is None:
            self._transactions = Transactions(self.lake, self.lake.coordination)
        return self._transactions

    def check(self, producer_group: str, checker: Checker) -> Checking:
        """See `Lake.check_transactions`."""
        if self.lake.read_only:
            raise read_only("check_transactions")
        _check_callable(checker, "check_transactions")
        if self.checks(producer_group):
            raise InvalidArgument(
                "this lake has a checker for the producer group",
                operation="check_transactions",
                object=producer_group,
                hint="close the one that check_transactions gave before",
            )
        checking = Checking(self, producer_group, self._asked_by(checker, producer_group))
        self._checkings = (*self._checkings, checking)
        return checking

    def _asked_by(self, checker: Checker, producer_group: str) -> RegisteredChecker:
        return RegisteredChecker(checker, group=producer_group, on_question=self.transactions.counting.question)

    def statistics(self) -> TransactionStatistics:
        """See `Lake.transaction_statistics`."""
        known = self._transactions
        return TransactionStatistics() if known is None else known.counting.read(self.lake.runtime.clock.wall_ms())

    def checks(self, producer_group: str) -> bool:
        return self._checking(producer_group) is not None

    def _checking(self, producer_group: str) -> Checking | None:
        return next((one for one in self._checkings if one.producer_group == producer_group), None)

    def forget_checking(self, checking: Checking) -> None:
        self._checkings = tuple(one for one in self._checkings if one is not checking)

    def begin(
        self,
        *,
        producer_group: str | None,
        consumer: SimpleConsumer | None,
        checker: Checker | None,
        first_check: Duration,
    ) -> Transaction:
        """See `Lake.transaction`."""
        if self.lake.read_only:
            raise read_only("transaction")
        if consumer is not None:
            return self._settling(producer_group, consumer, checker)
        if producer_group is None:
            raise InvalidArgument(
                "a transaction needs a producer group, or a consumer whose messages it settles",
                operation="transaction",
                expected="producer_group=… or consumer=…",
                observed="neither",
            )
        check_producer_group(producer_group)
        first = checked_duration("first_check", first_check, most=FIRST_CHECK_MAX, operation="transaction", above_zero=True)
        checking = self._checking(producer_group)
        if checker is not None:
            _check_callable(checker, "transaction")
            if checking is None:
                checking = self.check(producer_group, checker)
            checking.ask_instead(checker)
        if checking is None:
            raise InvalidArgument(
                "a transaction needs a checker, which is asked what became of it when its sender cannot say",
                operation="transaction",
                object=producer_group,
                hint="pass checker=…, or call lake.check_transactions(producer_group, checker) before",
            )
        return Transaction(self.transactions, producer_group, first_check=first)

    def _settling(self, producer_group: str | None, consumer: SimpleConsumer, checker: Checker | None) -> Transaction:
        if not isinstance(consumer, SimpleConsumer) or not consumer.is_of(self.lake.coordination):
            raise InvalidArgument(
                "a transaction settles messages of a SimpleConsumer of the same lake",
                operation="transaction",
                expected="what lake.simple_consumer gave",
                observed="one of another lake" if isinstance(consumer, SimpleConsumer) else type(consumer).__name__,
            )
        if checker is not None:
            raise InvalidArgument(
                "a transaction that settles messages has no checker: whether they are settled decides it", operation="transaction"
            )
        group = consumer.group if producer_group is None else producer_group
        check_producer_group(group)
        return Transaction(self.transactions, group, first_check=None, settler=consumer)

    async def close(self) -> None:
        """Answer nothing any more, and let go of what was begun here."""
        await asyncio.gather(*(one.close() for one in self._checkings))
        if self._transactions is not None:
            await self._transactions.close()


def _check_callable(checker: Checker, operation: str) -> None:
    if not callable(checker):
        raise InvalidArgument("the checker must be callable", operation=operation, observed=type(checker).__name__)
