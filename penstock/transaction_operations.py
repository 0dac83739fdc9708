"""Transactions for synchronous callers; the work is done on the lake's event-loop thread."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Self

from penstock.coordinator.transactions.asking import Checker
from penstock.coordinator.transactions.receipts import TransactionReceipt
from penstock.coordinator.transactions.statistics import TransactionStatistics
from penstock.coordinator.transactions.transaction import Transaction as AsyncTransaction
from penstock.log import Message, MessageView
from penstock.log.portal import Portal

from .blocking.consumers import SimpleConsumer
from .transaction_lake import FIRST_CHECK, TransactionLake
from .transaction_lake import Checking as AsyncChecking


class Transaction:
    """Messages that become visible together, or never; see `penstock.Lake.transaction`. Callable from any thread.

    An error that leaves its ``with`` block rolls it back. If the block is left without a decision, by Ctrl-C, ``SystemExit`` or the
    cancellation of its task, the transaction stays open for the group's checkers to decide, with a warning. By then nobody knows here
    whether the local work was done. A transaction begun with a consumer is rolled back then, too.
    """

    def __init__(self, core: AsyncTransaction, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    @property
    def id(self) -> str | None:
        """The id by which checkers and operators know it, which is also the ``producer`` of its messages; None before the first send."""
        return self._core.id

    @property
    def producer_group(self) -> str:
        """The producer group whose checkers are asked about it."""
        return self._core.producer_group

    def send(self, topic: str, *messages: Message, queue: int | None = None) -> list[str]:
        """Return the messages' ids once they are durable, and visible to nobody.

        ``queue`` names the queue of them all; without it they take the queues in turn. Raises `MessageTypeMismatch` unless the topic takes
        TRANSACTION messages and these have neither message group nor delivery time. Raises `InvalidArgument`, `LimitExceeded`,
        `TopicNotFound`, `penstock.TransactionFailed` after an earlier send failed, and the store's errors; then it can only be rolled back.
        Raises `TransactionRolledBack` also when another thread rolls it back meanwhile, `TransactionCommitted` when it is committed, and
        `TransactionEnded` when its commit has begun.
        """
        return self._portal.run(lambda: self._core.send(topic, *messages, queue=queue))

    def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, given as such or by their receipt handles, if and when this commits: all of them, with all that it sends, or
        none. They must be of one queue, and received by the consumer that the transaction was begun with, or by another of its group.

        Nothing is asked or written before the commit, which raises `ReceiptRefused` when one of them cannot be settled any more. Raises
        `InvalidArgument`, `ForeignReceipt`, `ReceiptOutdated`, and `LimitExceeded` for more than 256.
        """
        self._core.ack(*receipts)

    def commit(self) -> TransactionReceipt:
        """Return once the transaction is committed, and its messages are visible. A second call returns the same receipt.

        Raises `TransactionRolledBack`, `TransactionExpired` (rolled back because it was open for too long), `TransactionFailed` and
        `TransactionNotFound`: this call did not commit it, and none will. `UnknownOutcome`, `StoreUnavailable`: it may be committed; call
        again, or leave it to the checker. `CommittedNotVisible`: it is committed, for good; call again for the receipt.
        """
        return self._portal.run(self._core.commit)

    def rollback(self) -> None:
        """Return once it is durable that none of the messages ever becomes visible, and sends under way have ended. Sends of which nothing
        was written yet raise `TransactionRolledBack`. A second call, or one after an expiry, does nothing.

        Raises `TransactionCommitted` when it is committed, and `AcksDecide` when it may be, as its commit to settle messages has begun.
        Raises the table's errors when that is not known: call again.
        """
        self._portal.run(self._core.rollback)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._portal.stopped or self._portal.forked:
            return  # the checker will be asked
        self._portal.run(lambda: self._core.leave(error))


class Checking:
    """This process's place among the checkers of a producer group's transactions; see `penstock.Lake.check_transactions`."""

    def __init__(self, core: AsyncChecking, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    @property
    def producer_group(self) -> str:
        """The producer group for which it answers."""
        return self._core.producer_group

    def close(self) -> None:
        """Stop answering; closing again does nothing."""
        if self._portal.stopped:
            return
        self._portal.run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class TransactionOperations:
    """The part of a lake that is about transactions."""

    _portal: Portal
    _transacting: TransactionLake

    def transaction(
        self,
        *,
        producer_group: str | None = None,
        consumer: SimpleConsumer | None = None,
        checker: Checker | None = None,
        first_check: timedelta = FIRST_CHECK,
    ) -> Transaction:
        """Begin a transaction: ``with lake.transaction(producer_group=…) as tx``. Nothing is written before its first send.

        Messages given to ``tx.send`` are durable and invisible until ``tx.commit()`` makes all of them visible, in one entry of each topic,
        or ``tx.rollback()`` gives them up. Do the local work between the last send and the commit. If neither happens, whatever becomes of
        this process, the group's checkers are asked. The first question comes after ``first_check`` (60 s), or up to 5 s later, as due
        checks are looked for every 5 s. A transaction that is open for 4 hours is rolled back.

        ``checker`` is registered as by `check_transactions`, for the first transaction of a group in this lake; later ones need none. All
        transactions of a group in a lake go by one checker: the one given last.

        An exception that leaves the ``with`` block rolls back, even one that says that the outcome of the local work is unknown. Catch that
        one inside, and leave the block without a decision: then the checker is asked. Or use no block, and call commit or rollback.

        With a ``consumer``, ``tx.ack`` settles messages that it was given when, and only when, the transaction commits: exactly once from
        topic to topic. Such a transaction has no checker: if it is not committed when the messages are handed out again, it is rolled back.
        The producer group is then the consumer's by default.

        Raises `InvalidArgument` when there is no checker, for a consumer of another lake, or for a ``first_check`` not above 0. Raises
        `LimitExceeded` for one of more than an hour, and `ReadOnlyError`.
        """

        async def begin() -> AsyncTransaction:
            return self._transacting.transaction(
                producer_group=producer_group,
                consumer=consumer.on_loop() if isinstance(consumer, SimpleConsumer) else consumer,
                checker=checker,
                first_check=first_check,
            )

        return Transaction(self._portal.run(begin), self._portal)

    def check_transactions(self, producer_group: str, checker: Checker) -> Checking:
        """Answer for a producer group's transactions whether they commit, for as long as this lake is open or until the result is closed.

        For a transaction that nobody decided, one live member of the group is asked. This happens first 60 s after its first message (or as
        its sender said), then every 60 s, at most 15 times; then it is rolled back. ``checker`` takes a `CheckedTransaction` and returns
        `TransactionResolution.COMMIT`, ``ROLLBACK`` or ``UNKNOWN``; an ordinary function runs in a thread, a coroutine function on the
        lake's event loop. A checker that raises, or takes more than 15 s, counts as not knowing. It may be asked while the sender is still
        at work, and twice. Raises `InvalidArgument`, `LimitExceeded` and `ReadOnlyError`.
        """

        async def register() -> AsyncChecking:
            return self._transacting.check_transactions(producer_group, checker)

        return Checking(self._portal.run(register), self._portal)

    def transaction_statistics(self) -> TransactionStatistics:
        """The work of this process on transactions, its own and others', and the state of those that it looks after. Any thread may ask."""
        return self._transacting.transaction_statistics()
