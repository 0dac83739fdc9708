"""The transactions of all producer groups, the oldest first, and what one of them would send."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....coordinator.transactions.ids import check_producer_group
from ....coordinator.transactions.members.state import TransactionRow
from ....log import MessageView
from ...operating.transactions import WHO, entry_of, rows_of, state_of, time_of
from ..faults import PagePart
from .page import NUMBER, PageContext, PageDefinition, PageRequest, Pagination, QueryParameter

GROUPS_MAX = 16
"""The producer groups that one page reads: each costs a request, and one for each of its processes."""
MESSAGES_SHOWN = 20
MESSAGES_READ_MAX = 1000
"""A transaction of more messages is not opened here."""
BODY_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRow:
    """The messages that one topic gets."""

    topic: str
    messages: int
    entry: int | None
    """The entry that made them visible."""
    gone: bool
    """Whether the topic was deleted since, and they with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSummary:
    """One transaction."""

    transaction: str
    producer_group: str
    state: str
    is_open: bool
    is_finished: bool
    begun: datetime
    age: timedelta
    messages: int
    topics: tuple[DestinationRow, ...]
    checks: int
    """The questions to its checker."""
    next_check: datetime | None
    decided_by: str | None
    settles: str | None
    """The messages of a consumer group that its commit settles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionList:
    """The transactions of one page."""

    groups: tuple[str, ...]
    """The producer groups that were read."""
    groups_total: int
    open: int
    oldest: timedelta | None
    span: Pagination
    rows: tuple[TransactionSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfMessageRow:
    """A message that nobody sees yet."""

    topic: str
    queue: int
    message_id: str
    message_group: str | None
    tag: str | None
    body_bytes: int
    body: bytes
    """The beginning of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDetails:
    """One transaction in full."""

    row: TransactionSummary
    messages: tuple[HalfMessageRow, ...]
    """The first messages, as far as they are not visible yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsPage:
    """What the page shows."""

    at: datetime
    listed: PagePart[TransactionList]
    opened: PagePart[TransactionDetails] | None
    """The transaction that was asked for."""


async def gather(scene: PageContext, asked: PageRequest) -> TransactionsPage:
    transaction, group = asked.text("transaction"), asked.text("producer_group")
    listed = await scene.part(lambda lake: _listed(lake, scene.now, group, asked.number("page")))
    opened = None if transaction is None else await scene.part(lambda lake: opened_of(lake, scene.now, transaction))
    return TransactionsPage(at=scene.now, listed=listed, opened=opened)


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
        rows=tuple(row_of(name, row, now) for name, row in found[span.slice]),
    )


def age_of(row: TransactionRow, now: datetime) -> timedelta:
    """The time since a transaction began."""
    return max(timedelta(), now - _begun(row))


def _begun(row: TransactionRow) -> datetime:
    begun = time_of(row.created_ms)
    assert begun is not None, "every row has it"
    return begun


def row_of(group: str, row: TransactionRow, now: datetime, gone: frozenset[str] = frozenset()) -> TransactionSummary:
    """A transaction as the page shows it."""
    acks = row.acks
    return TransactionSummary(
        transaction=row.id,
        producer_group=group,
        state=state_of(row),
        is_open=row.is_open,
        is_finished=row.is_finished,
        begun=_begun(row),
        age=age_of(row, now),
        messages=row.messages,
        topics=tuple(
            DestinationRow(topic=one.topic, messages=one.messages, entry=entry_of(one), gone=one.topic in gone)
            for one in row.destinations
        ),
        checks=row.checks,
        next_check=time_of(row.next_check_ms) if row.is_open else None,
        decided_by=WHO[row.by.name],
        settles=None
        if acks is None
        else f"{len(acks.acked):,} messages of {acks.topic}, queue {acks.queue}, for group {acks.group}",
    )


async def opened_of(lake: Lake, now: datetime, transaction: str) -> TransactionDetails:
    """A transaction with the first of its messages. Raises `TransactionNotFound`."""
    group, row = await lake.transactions.find(transaction)
    gone = await lake.transactions.gone(row)
    return TransactionDetails(row=row_of(group, row, now, gone), messages=tuple(map(half_of, await first_messages(lake, row))))


async def first_messages(lake: Lake, row: TransactionRow) -> list[MessageView]:
    """The first messages of a transaction, as far as they are not visible yet."""
    if row.is_finished or row.messages > MESSAGES_READ_MAX:
        return []
    return (await lake.transactions.messages(row.id))[:MESSAGES_SHOWN]


def half_of(message: MessageView) -> HalfMessageRow:
    """A message that nobody sees yet, as the page shows it."""
    return HalfMessageRow(
        topic=message.topic,
        queue=message.queue,
        message_id=message.message_id,
        message_group=message.message_group,
        tag=message.tag,
        body_bytes=len(message.content),
        body=message.content[:BODY_BYTES],
    )


def live(shown: TransactionsPage) -> dict[str, object]:
    listed = shown.listed.value
    return {} if listed is None else {"open": listed.open, "oldest": listed.oldest}


def _words(asked: PageRequest) -> list[str]:
    if (transaction := asked.text("transaction")) is not None:
        return ["tx", "describe", transaction, "--messages"]
    group = asked.text("producer_group")
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
