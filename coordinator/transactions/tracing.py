"""The transaction of one message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...log.errors import InvalidArgument
from ...log.message.message import MessageView, from_ms
from .errors import TransactionNotFound
from .ids import id_prefix
from .members.state import TransactionRow
from .service import Transactions

_PREFIX_CHARS = 16
"""The part of a message id from its transaction's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTrace:
    """The transaction that a message was sent in."""

    id: str
    decision: str
    """``open``, ``committed`` or ``rolled_back``."""
    producer_group: str | None = None
    """None, like the fields below, without the transaction's row."""
    by: str | None = None
    """The author of the decision: ``owner``, ``checker``, ``operator``, ``checks`` (too many), ``age`` or ``acks``."""
    begun: datetime | None = None
    checks: int | None = None
    next_check: datetime | None = None
    finished: datetime | None = None
    """The time at which messages were visible, or what was staged was deleted; None also until then."""
    half: MessageView | None = None
    """The message while it is invisible; its offset is -1."""


async def transaction_of_visible(transactions: Transactions, message: MessageView, *, certain: bool) -> TransactionTrace | None:
    """The trace of a visible message, whose ``producer`` is the transaction if it was sent in one. ``certain``: it was; else None once the
    transaction is forgotten.
    """
    try:
        group, row = await transactions.find(message.producer)
    except (TransactionNotFound, InvalidArgument):
        return TransactionTrace(id=message.producer, decision="committed") if certain else None
    return _traced(group, row)


async def transaction_of_half(transactions: Transactions, message_id: str) -> TransactionTrace | None:
    """Searches all unfinished transactions for an invisible message. Raises `HalfMessagesMissing` and `DataDamaged` for a transaction that was not
    wholly sent.
    """
    prefix = message_id[:_PREFIX_CHARS]
    for group in sorted(await transactions.groups.groups()):
        for row in await transactions.rows(group):
            if f"{id_prefix(row.id):016x}" != prefix:
                continue
            staged = [] if row.is_finished else await transactions.messages(row.id)
            half = next((one for one in staged if one.message_id == message_id), None)
            if half is not None or row.is_finished:
                return _traced(group, row, half)
    return None


def _traced(group: str, row: TransactionRow, half: MessageView | None = None) -> TransactionTrace:
    return TransactionTrace(
        id=row.id,
        decision=row.decision.name.lower(),
        producer_group=group,
        by=None if row.is_open else row.by.name.lower(),
        begun=from_ms(row.created_ms),
        checks=row.checks,
        next_check=None if row.next_check_ms is None or not row.is_open else from_ms(row.next_check_ms),
        finished=from_ms(row.finished_ms) if row.is_finished else None,
        half=half,
    )
