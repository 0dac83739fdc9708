"""Transactions of producer groups: which there are, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from ...log import InvalidArgument

if TYPE_CHECKING:
    from ...aio import Lake
    from ...coordinator.transactions.members.state import Destination, TransactionRow

Found: TypeAlias = "tuple[str, TransactionRow]"
"""A producer group, and a transaction of one of its members."""

WHO = {
    "NOBODY": None,
    "OWNER": "its sender",
    "CHECKER": "a check-back",
    "OPERATOR": "an operator",
    "CHECKS": "too many check-backs",
    "AGE": "its age",
    "ACKS": "whether its messages could be settled",
}


async def rows_of(lake: Lake, groups: Sequence[str]) -> list[Found]:
    """The transactions of these producer groups, or of all, the oldest first. Raises `InvalidArgument` for a group that never had any."""
    from ...coordinator.transactions.ids import check_producer_group

    service = lake.transactions
    for group in groups:
        check_producer_group(group)
    known = await service.groups.groups()
    for group in groups:
        if group not in known:
            raise InvalidArgument(
                "no transaction of this producer group is known",
                operation="tx list",
                object=group,
                hint="`penstock tx list` lists those of all producer groups; a topic is not one",
            )
    names = groups or sorted(known)
    rows = await asyncio.gather(*(service.rows(group) for group in names))
    found = [(group, row) for group, some in zip(names, rows, strict=True) for row in some]
    return sorted(found, key=lambda one: (one[1].created_ms, one[1].id))


def sentence(done: str, group: str, row: TransactionRow, gone: frozenset[str]) -> str:
    """A sentence about the messages whose topics are there."""
    there = [one for one in row.destinations if one.topic not in gone]
    topics = [one.topic if (entry := entry_of(one)) is None else f"{one.topic} (entry {entry:,})" for one in there]
    return f"{done} {sum(one.messages for one in there):,} messages of producer group {group} to {', '.join(topics) or 'no topic'}."


def missing_topics_sentence(row: TransactionRow, gone: frozenset[str]) -> str:
    """A sentence about the messages whose topics are gone."""
    lost = sum(one.messages for one in row.destinations if one.topic in gone)
    return f"Deleted, and {lost:,} messages with it: {', '.join(sorted(gone))}. " if gone else ""


def state_of(row: TransactionRow) -> str:
    """The state of a transaction in words."""
    from ...coordinator.transactions.members.state import Decision

    match row.decision:
        case Decision.OPEN:
            return "open" if row.acks is None else "committing"
        case Decision.COMMITTED:
            return "committed" if row.is_finished else "committed, not finished"
        case _:
            return "rolled back"


def entry_of(destination: Destination) -> int | None:
    """The entry that made the messages visible, where it is known."""
    return destination.linked.entry if destination.linked else None


def time_of(ms: int | None) -> datetime | None:
    """A time of the store's clock."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
