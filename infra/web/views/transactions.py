"""The transactions of all producer groups, the oldest first, and one in full."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....coordinator.transactions.ids import check_producer_group
from ....coordinator.transactions.members.state import TransactionRow
from ...operating.transactions import (
    GroupTransaction,
    HalfMessage,
    TransactionWithMessages,
    age_of,
    half_messages,
    rows_of,
    transaction_of,
    transaction_with_messages,
)
from ..faults import PagePart
from .page import NUMBER, PageContext, PageDefinition, PageRequest, Pagination, QueryParameter

GROUPS_MAX = 16
"""The producer groups on a page: a request each, and one for each of its processes."""
MESSAGES_SHOWN = 20
MESSAGES_READ_MAX = 1000
"""A larger transaction is not opened."""
BODY_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionList:
    """The transactions of one page."""

    groups: tuple[str, ...]
    groups_total: int
    open: int
    oldest: timedelta | None
    span: Pagination
    rows: tuple[GroupTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsPage:
    """The content of the page."""

    at: datetime
    listed: PagePart[TransactionList]
    opened: PagePart[TransactionWithMessages] | None


async def gather(context: PageContext, request: PageRequest) -> TransactionsPage:
    transaction, group = request.text("transaction"), request.text("producer_group")
    listed = await context.part(lambda lake: _listed(lake, context.now, group, request.number("page")))
    opened = None if transaction is None else await context.part(lambda lake: opened_of(lake, transaction))
    return TransactionsPage(at=context.now, listed=listed, opened=opened)


async def _listed(lake: Lake, now: datetime, group: str | None, page: int) -> TransactionList:
    if group is not None:
        check_producer_group(group)
    known = sorted(await lake.transactions.groups.groups())
    names = known[:GROUPS_MAX] if group is None else [group]
    found = [one for one in await rows_of(lake, names) if not one[1].is_finished] if names else []
    opened = [row for _, row in found if row.is_open]
    span = Pagination.of(len(found), page)
    return TransactionList(
        groups=tuple(names),
        groups_total=len(known),
        open=len(opened),
        oldest=age_of(opened[0], now) if opened else None,
        span=span,
        rows=tuple(transaction_of(name, row, now) for name, row in found[span.slice]),
    )


async def opened_of(lake: Lake, transaction: str) -> TransactionWithMessages:
    """Raises `TransactionNotFound`."""
    return await transaction_with_messages(
        lake, transaction, messages=MESSAGES_READ_MAX, shown=MESSAGES_SHOWN, body_bytes=BODY_BYTES
    )


async def first_messages(lake: Lake, row: TransactionRow) -> tuple[HalfMessage, ...]:
    """The first invisible messages."""
    return await half_messages(lake, row, messages=MESSAGES_READ_MAX, shown=MESSAGES_SHOWN, body_bytes=BODY_BYTES)


def live(shown: TransactionsPage) -> dict[str, object]:
    listed = shown.listed.value
    return {} if listed is None else {"open": listed.open, "oldest": listed.oldest}


def _words(request: PageRequest) -> list[str]:
    if (transaction := request.text("transaction")) is not None:
        return ["tx", "describe", transaction, "--messages"]
    group = request.text("producer_group")
    return ["tx", "list", *([] if group is None else [group])]


PAGE = PageDefinition(
    name="transactions",
    path="/transactions",
    title="Transactions",
    about="The transactions that are not done with, the oldest first, of 16 producer groups or of one; and what one would send.",
    shows=TransactionsPage,
    gather=gather,
    answer=lambda shown: shown.opened,
    command=_words,
    parameters=(
        QueryParameter(name="producer_group", help="Only transactions of this producer group."),
        QueryParameter(name="transaction", help="The id of a transaction to open, also of one that is done with."),
        NUMBER,
    ),
    menu="Transactions",
    live=live,
)
