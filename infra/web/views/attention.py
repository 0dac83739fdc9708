"""Problems for an operator, the most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ..lakes.source import LakeSnapshot, UnreadableItem
from .lake_problems import LakeProblems
from .rows import GroupRow, group_rows

LATE = timedelta(minutes=5)
"""The age of the oldest message from which a group is behind."""


class Urgency(StrEnum):
    """The urgency of a problem."""

    ACT = "act"
    """It waits for an operator."""
    LOOK = "look"
    """It may go on by itself."""
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One problem for an operator."""

    urgency: Urgency
    kind: str
    """A code: empty, gone, unread, parked, unattended, stopped_sync, unowned, blocked, retrying, behind, old_transactions, late_timers, dead_letters.
    """
    text: str
    count: int
    group: str | None = None
    topic: str | None = None
    age: timedelta | None = None


_EMPTY = AttentionItem(
    urgency=Urgency.LOOK,
    kind="empty",
    text="The lake has no topics: it is a new one, another one than you meant, or gone.",
    count=0,
)
_GONE = AttentionItem(
    urgency=Urgency.ACT,
    kind="gone",
    text="The lake had topics, and has none any more: they were deleted, its place is not mounted, or somebody moved it.",
    count=0,
)
_ORDER = [Urgency.ACT, Urgency.LOOK, Urgency.NOTE]


def attention(looked: LakeSnapshot, watched: LakeProblems | None = None) -> tuple[AttentionItem, ...]:
    empty = [] if looked.topics else [_GONE if looked.had_topics else _EMPTY]
    found = [*empty, *map(_unread, looked.unread), *(one for row in group_rows(looked) for one in _of_group(row))]
    found += [] if watched is None else _of_watched(watched)
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.urgency), -one.count, one.text)))


def _unread(thing: UnreadableItem) -> AttentionItem:
    return AttentionItem(
        urgency=Urgency.ACT, kind="unread", text=f"{thing.kind} {thing.name} cannot be read: {thing.fault.message}", count=1
    )


def _of_group(row: GroupRow) -> Iterator[AttentionItem]:
    for urgency, kind, count, text in troubles(row):
        yield AttentionItem(urgency=urgency, kind=kind, text=text, count=count, group=row.group, topic=row.topic, age=row.lag_time)


def troubles(row: GroupRow) -> Iterator[tuple[Urgency, str, int, str]]:
    """A consumer group's problems on a topic: urgency, kind, count, and words."""
    if row.parked:
        groups = _counted(row.parked, "message group is parked", "message groups are parked")
        yield Urgency.ACT, "parked", row.parked, f"{groups} until you release or skip"
    if row.lag and not row.consumers:
        waiting = _counted(row.lag, "message waits", "messages wait")
        yield Urgency.ACT, "unattended", row.lag, f"{waiting}, and no consumer runs"
    elif row.lag and row.queues_owned < row.queues:
        unowned = row.queues - row.queues_owned
        yield Urgency.LOOK, "unowned", unowned, _counted(unowned, "queue has no live owner", "queues have no live owner")
    if row.blocked:
        text = _counted(row.blocked, "message group waits for a retry", "message groups wait for a retry")
        yield Urgency.LOOK, "blocked", row.blocked, text
    if row.waiting:
        text = _counted(row.waiting, "message failed and waits for its next try", "messages failed and wait for their next try")
        yield Urgency.LOOK, "retrying", row.waiting, text
    if row.consumers and _is_behind(row):
        yield Urgency.LOOK, "behind", row.lag, _counted(row.lag, "message is not settled", "messages are not settled")
    if row.dead_letters:
        text = _counted(row.dead_letters, "dead letter was written", "dead letters were written")
        yield Urgency.NOTE, "dead_letters", row.dead_letters, text


def _is_behind(row: GroupRow) -> bool:
    """Whether messages wait for long, for neither a retry nor an operator."""
    held = row.waiting + row.blocked + row.parked
    if row.lag_time is None or row.lag_time < LATE:
        return False
    if not held:
        return True
    # The oldest message is most likely one that is held up, so its age says nothing of the others: their number does.
    return row.settled_per_second is not None and row.lag - held > row.settled_per_second * LATE.total_seconds()


def _of_watched(watched: LakeProblems) -> Iterator[AttentionItem]:
    for name, fault in (watched.faults or {}).items():
        yield AttentionItem(urgency=Urgency.ACT, kind="unread", text=f"{name} cannot be looked at: {fault.message}", count=1)
    for sync in watched.stopped:
        stands = _counted(sync.tables, "table of it stands still", "tables of it stand still")
        text = f"sync {sync.name}: {stands if sync.tables else 'its record cannot be read'}"
        yield AttentionItem(urgency=Urgency.ACT, kind="stopped_sync", text=text, count=sync.tables, topic=sync.topic)
    for one in watched.old:
        text = (
            f"{_counted(one.transactions, 'transaction is open', 'transactions are open')} of producer group {one.producer_group}"
        )
        yield AttentionItem(urgency=Urgency.LOOK, kind="old_transactions", text=text, count=one.transactions, age=one.oldest)
    for topic in watched.late:
        text = "delayed messages are due and not delivered"
        yield AttentionItem(urgency=Urgency.LOOK, kind="late_timers", text=text, count=1, topic=topic.topic, age=topic.late)


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def worst(found: Sequence[AttentionItem]) -> Urgency | None:
    return found[0].urgency if found else None
