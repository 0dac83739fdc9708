"""The errors of transactions."""

from __future__ import annotations

from ...log.errors import CallError, ReopenError, RetryError


class TransactionEnded(CallError):
    """The transaction is decided otherwise."""

    kind = "transaction_ended"


class TransactionRolledBack(TransactionEnded):
    """The transaction was rolled back: none of its messages becomes visible, ever."""

    kind = "transaction_rolled_back"


class TransactionExpired(TransactionRolledBack):
    """The transaction was rolled back: it was open for too long, or its checker never knew."""

    kind = "transaction_expired"


class TransactionCommitted(TransactionEnded):
    """The transaction was committed: its messages are visible or will be."""

    kind = "transaction_committed"


class AcksDecide(CallError):
    """The transaction settles messages: only the settling write decides it, and may be under way."""

    kind = "acks_decide"


class TransactionNotFound(CallError, LookupError):
    """The transaction is unknown: finished and forgotten, or without any message."""

    kind = "transaction_not_found"


class TransactionFailed(ReopenError):
    """A send of the transaction failed, so that it cannot be committed. Roll it back and begin another."""

    kind = "transaction_failed"


class CommittedNotVisible(RetryError):
    """The transaction is committed for good, but not all messages are visible yet."""

    kind = "committed_not_visible"


class HalfMessagesMissing(RetryError):
    """Messages are not on the store, as their sender was interrupted: the transaction cannot be committed."""

    kind = "half_messages_missing"
