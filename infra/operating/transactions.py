"""Transactions of producer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from ...log import InvalidArgument
from .bodies import BodyExcerpt, body_of_message
from .times import now_of, time_of

if TYPE_CHECKING:
    from ...aio import Lake
    from ...coordinator.transactions.members.state import Destination, TransactionRow
    from ...log import MessageView

Found: TypeAlias = "tuple[str, TransactionRow]"

_DECIDERS = {
    "owner": "its sender",
    "checker": "a check-back",
    "operator": "an operator",
    "checks": "too many check-backs",
    "age": "its age",
    "acks": "whether its messages could be settled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDestination:
    """The messages for one topic."""

    topic: str
    messages: int
    entry: int | None
    """The entry that made them visible."""
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledMessages:
    """A consumer group's messages that a commit settles."""

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]

    def __str__(self) -> str:
        return f"{len(self.offsets):,} messages of {self.topic}, queue {self.queue}, for group {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTransaction:
    """One transaction."""

    transaction: str
    producer_group: str
    state: str
    """open, committed, rolled_back."""
    begun: datetime
    age: timedelta
    finished: datetime | None
    """When the decision was carried out."""
    decided_by: str | None
    """owner, checker, operator, checks (too many of them), age or acks."""
    checks: int
    next_check: datetime | None
    messages: int
    topics: tuple[TransactionDestination, ...]
    settles: SettledMessages | None

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def state_text(self) -> str:
        if self.is_open:
            return "open" if self.settles is None else "committing"
        return "committed, not finished" if self.state == "committed" and self.finished is None else self.state.replace("_", " ")

    @property
    def decider_text(self) -> str | None:
        return None if self.decided_by is None else _DECIDERS[self.decided_by]

    @property
    def topic_names(self) -> str:
        return ", ".join(one.topic for one in self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfMessage:
    """An invisible message."""

    topic: str
    queue: int
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: BodyExcerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionWithMessages(GroupTransaction):
    """One transaction in full."""

    half_messages: tuple[HalfMessage, ...]
    """Its invisible messages, if requested."""


async def rows_of(lake: Lake, groups: Sequence[str]) -> list[Found]:
    """The transactions of these producer groups, or of all, the oldest first. Raises `InvalidArgument` for an unknown group."""
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
    """The messages of existing topics."""
    there = [one for one in row.destinations if one.topic not in gone]
    topics = [one.topic if (entry := _entry_of(one)) is None else f"{one.topic} (entry {entry:,})" for one in there]
    return f"{done} {sum(one.messages for one in there):,} messages of producer group {group} to {', '.join(topics) or 'no topic'}."


def missing_topics_sentence(row: TransactionRow, gone: frozenset[str]) -> str:
    """The messages of deleted topics."""
    lost = sum(one.messages for one in row.destinations if one.topic in gone)
    return f"Deleted, and {lost:,} messages with it: {', '.join(sorted(gone))}. " if gone else ""


async def transaction_with_messages(
    lake: Lake, transaction: str, *, messages: int | None = None, shown: int | None = None, body_bytes: int | None = None
) -> TransactionWithMessages:
    """A transaction with its first ``shown`` messages; none of more than ``messages``. Raises `TransactionNotFound`."""
    group, row = await lake.transactions.find(transaction)
    found = transaction_of(group, row, now_of(lake), await lake.transactions.gone(row))
    halves = await half_messages(lake, row, messages=messages, shown=shown, body_bytes=body_bytes)
    return TransactionWithMessages(**{one.name: getattr(found, one.name) for one in fields(found)}, half_messages=halves)


async def half_messages(
    lake: Lake, row: TransactionRow, *, messages: int | None, shown: int | None, body_bytes: int | None
) -> tuple[HalfMessage, ...]:
    """The first invisible messages; none of more than ``messages``."""
    if row.is_finished or (messages is not None and row.messages > messages):
        return ()
    return tuple(_half(one, body_bytes) for one in (await lake.transactions.messages(row.id))[:shown])


def _half(message: MessageView, body_bytes: int | None) -> HalfMessage:
    return HalfMessage(
        topic=message.topic,
        queue=message.queue,
        message_id=message.message_id,
        message_group=message.message_group,
        tag=message.tag,
        keys=message.keys,
        properties=dict(message.properties),
        body=body_of_message(message, most=body_bytes),
    )


def transaction_of(group: str, row: TransactionRow, now: datetime, gone: frozenset[str] = frozenset()) -> GroupTransaction:
    """A transaction; ``gone``: its deleted topics. Pure."""
    acks = row.acks
    return GroupTransaction(
        transaction=row.id,
        producer_group=group,
        state=row.decision.name.lower(),
        begun=time_of(row.created_ms),
        age=age_of(row, now),
        finished=time_of(row.finished_ms) if row.finished_ms else None,
        decided_by=row.by.name.lower() if row.by else None,
        checks=row.checks,
        next_check=time_of(row.next_check_ms) if row.is_open and row.next_check_ms is not None else None,
        messages=row.messages,
        topics=tuple(
            TransactionDestination(
                topic=one.topic,
                messages=one.messages,
                entry=_entry_of(one),
                gone=one.topic in gone or bool(one.linked and one.linked.gone),
            )
            for one in row.destinations
        ),
        settles=None
        if acks is None
        else SettledMessages(group=acks.group, topic=acks.topic, queue=acks.queue, offsets=tuple(one.offset for one in acks.acked)),
    )


def age_of(row: TransactionRow, now: datetime) -> timedelta:
    return max(timedelta(), now - time_of(row.created_ms))


def _entry_of(destination: Destination) -> int | None:
    return destination.linked.entry if destination.linked else None
