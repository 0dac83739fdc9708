"""Transactions, and who answers for them. The work is done on the lake's event-loop thread.

Made by infra/scripts/blocking_face.py (`make face`). Do not edit: change the asynchronous classes, and make it anew. They are in

    penstock.aio.transactions
    penstock.coordinator.transactions.sending.transaction
"""

from __future__ import annotations

from penstock.aio.transactions import Checking as AsyncChecking
from penstock.coordinator.transactions.sending.transaction import Transaction as AsyncTransaction
from penstock.coordinator.transactions.sending.transaction import TransactionReceipt
from penstock.log.message.message import Message, MessageView

from .face import ClosableFace, TransactionFace


class Transaction(TransactionFace[AsyncTransaction]):
    """Messages that become visible together, or never. ``lake.transaction`` makes it.

    A ``with`` block left by an error rolls it back. Left without a decision, by Ctrl-C or a cancelled task, it stays open for the checker,
    with a warning.

    Begun with a consumer, it can settle messages too, and needs no checker. If it is not committed when the deliveries end, it never will be. Leaving
    the block in any way rolls it back.
    """

    @property
    def id(self) -> str | None:
        """The id for checkers and operators, and its messages' ``producer``. None before the first send."""
        return self._core.id

    @property
    def producer_group(self) -> str:
        """The group whose checkers are asked about it."""
        return self._core.producer_group

    def send(self, topic: str, *messages: Message, queue: int | None = None) -> list[str]:
        """Return the messages' ids once they are durable and invisible. Several calls may be under way at once.

        ``queue`` is the queue of them all; by default they take queues in turn.

        Raises `MessageTypeMismatch` unless the topic is of type TRANSACTION or MIXED and these have neither message group nor delivery time. Raises
        `InvalidArgument`, `LimitExceeded`, `TopicNotFound` and what the store raises. Raises `TransactionFailed` after an earlier send failed. Raises
        `TransactionRolledBack`, `TransactionCommitted` or `TransactionEnded` when it takes nothing more. After an error later than the call's own
        checks the transaction can only be rolled back.
        """
        return self._portal.run(lambda: self._core.send(topic, *messages, queue=queue))

    def ack(self, *receipts: MessageView | str) -> None:
        """Settle messages, or those of receipt handles, if and when this commits: all of them, with all that it sends, or none.

        They must be of one queue, received by the transaction's consumer or group. Nothing is written before the commit. Raises `InvalidArgument`,
        `ForeignReceipt`, `ReceiptOutdated`, and `LimitExceeded` for more than 256.
        """
        self._core.ack(*receipts)

    def commit(self) -> TransactionReceipt:
        """Return once the transaction is committed, and its messages are visible. A repeated call returns the same receipt.

        Raises `TransactionRolledBack`, `TransactionExpired`, `TransactionFailed` and `TransactionNotFound` when this call can never commit it. Raises
        `UnknownOutcome` or `StoreUnavailable` when it may be committed: call again, or leave it to the checker. Raises `CommittedNotVisible` when it
        is committed for good: call again for the receipt, or leave it to maintenance. Raises `ReceiptRefused` when a message could not be settled, so
        that it is not committed: roll it back, or leave it.
        """
        return self._portal.run(self._core.commit)

    def rollback(self) -> None:
        """Return once it is durable that none of the messages ever becomes visible, and sends under way have ended.

        Sends without any write yet raise `TransactionRolledBack`. Does nothing when called again, or after an expiry.

        Raises `TransactionCommitted`, `AcksDecide` when a commit to settle messages has begun, and what the table raises when the outcome is unknown:
        call again.
        """
        self._portal.run(self._core.rollback)


class Checking(ClosableFace[AsyncChecking]):
    """A process's place among the checkers of a producer group's transactions. ``lake.check_transactions`` makes it.

    Use it in a ``with`` block, or close it.
    """

    @property
    def producer_group(self) -> str:
        """The group whose transactions it answers for."""
        return self._core.producer_group

    def close(self) -> None:
        """Stop answering. Questions under way are left to others. Closing again does nothing."""
        if not self._portal.stopped:
            self._portal.run(self._core.close)
