"""What one process has done about transactions, and has seen of those that are not done with. For metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from .asking import Answer
from .state import By, Decision, MemberCell, TransactionRow

K = TypeVar("K")

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """How the transactions of a producer group stood when this process looked last."""

    open: int = 0
    unfinished: int = 0
    """Decided, and not done with: not visible everywhere yet, or not noted as such."""
    oldest_ms: int | None = None
    """When the first of the open ones was begun; None: none is open."""
    half_messages: Mapping[str, int] = field(default_factory=lambda: _NONE)
    """Of the open ones, by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTransactions:
    """The transactions of one producer group: those that this process wrote, whoever sent them."""

    begun: int = 0
    committed: int = 0
    rolled_back: int = 0
    """By somebody."""
    expired: int = 0
    """Rolled back by age, or as its checker never knew."""
    asked: int = 0
    """Questions to the checker that this process has."""
    answers: Mapping[Answer, int] = field(default_factory=dict)
    standing: OpenTransactions | None = None
    """None where others look after the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTransactions:
    """The messages of transactions to one topic."""

    committed_messages: int = 0
    rolled_back_messages: int = 0
    deleted_objects: int = 0
    """In which half messages were staged, of transactions that were rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatistics:
    """Of one process, from when it opened the lake on."""

    at_ms: int = 0
    """When this was so, by the store's clock as far as it is known."""
    groups: Mapping[str, GroupTransactions] = field(default_factory=dict)
    topics: Mapping[str, TopicTransactions] = field(default_factory=dict)


class Counting:
    """Told on the event loop of what happens; any thread may `read`."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupTransactions] = {}
        self._topics: dict[str, TopicTransactions] = {}

    def read(self, now_ms: int) -> TransactionStatistics:
        """All of it as it is now."""
        return TransactionStatistics(at_ms=now_ms, groups=dict(self._groups), topics=dict(self._topics))

    def written(self, before: MemberCell | None, after: MemberCell) -> None:
        """A member's cell was changed by this process. Every change of one is somebody's, so over all processes each counts once."""
        known = {} if before is None else before.rows
        for row in after.rows.values():
            was = known.get(row.id)
            if was is row:
                continue
            if was is None:
                self._begun(after.group)
            if not row.is_open and (was is None or was.is_open):
                self._decided(after.group, row)

    def question(self, group: str, answer: Answer | None) -> None:
        """The group's checker was asked (None), or this came of it."""
        known = self._group(group)
        if answer is None:
            self._groups[group] = replace(known, asked=known.asked + 1)
        else:
            self._groups[group] = replace(known, answers=_more(known.answers, answer, 1))

    def looked(self, group: str, cells: Iterable[MemberCell] | None) -> None:
        """How the cells of the group's members stand; None: it is others who look at them from now on."""
        standing = None if cells is None else standing_of(row for cell in cells for row in cell.rows.values())
        self._groups[group] = replace(self._group(group), standing=standing)

    def deleted(self, topic: str, objects: int) -> None:
        """So many objects of half messages were deleted."""
        known = self._topic(topic)
        self._topics[topic] = replace(known, deleted_objects=known.deleted_objects + objects)

    def _begun(self, group: str) -> None:
        known = self._group(group)
        self._groups[group] = replace(known, begun=known.begun + 1)

    def _decided(self, group: str, row: TransactionRow) -> None:
        known = self._group(group)
        match row:
            case TransactionRow(decision=Decision.COMMITTED):
                known = replace(known, committed=known.committed + 1)
            case TransactionRow(by=By.AGE | By.CHECKS):
                known = replace(known, expired=known.expired + 1)
            case _:
                known = replace(known, rolled_back=known.rolled_back + 1)
        self._groups[group] = known
        for one in row.destinations:
            topic = self._topic(one.topic)
            if row.decision is Decision.COMMITTED:
                topic = replace(topic, committed_messages=topic.committed_messages + one.messages)
            else:
                topic = replace(topic, rolled_back_messages=topic.rolled_back_messages + one.messages)
            self._topics[one.topic] = topic

    def _group(self, group: str) -> GroupTransactions:
        return self._groups.get(group, _NO_GROUP)

    def _topic(self, topic: str) -> TopicTransactions:
        return self._topics.get(topic, _NO_TOPIC)


_NO_GROUP, _NO_TOPIC = GroupTransactions(), TopicTransactions()


def standing_of(rows: Iterable[TransactionRow], *, topic: str | None = None) -> OpenTransactions:
    """How these transactions stand, or those of them that send to a topic. Pure."""
    half: Mapping[str, int] = _NONE
    opened, unfinished, oldest_ms = 0, 0, None
    for row in rows:
        if row.is_finished or (topic is not None and row.destination(topic) is None):
            continue
        if not row.is_open:
            unfinished += 1
            continue
        opened += 1
        oldest_ms = row.created_ms if oldest_ms is None else min(oldest_ms, row.created_ms)
        for one in row.destinations:
            half = _more(half, one.topic, one.messages)
    return OpenTransactions(open=opened, unfinished=unfinished, oldest_ms=oldest_ms, half_messages=half)


def _more(counts: Mapping[K, int], key: K, count: int) -> Mapping[K, int]:
    return {**counts, key: counts.get(key, 0) + count}
