"""The transactions that one process has handled, and unfinished ones that it has seen, for metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from .checking.checker import CheckOutcome
from .members.state import Decider, Decision, MemberCell, TransactionRow

K = TypeVar("K")

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """A producer group's open transactions at the last look."""

    open: int = 0
    unfinished: int = 0
    """Decided transactions not visible everywhere, or not noted so."""
    oldest_ms: int | None = None
    """The beginning of the oldest open one."""
    half_messages: Mapping[str, int] = field(default_factory=lambda: _NONE)
    """The open transactions' messages, by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTransactions:
    """One producer group's transactions written by this process."""

    begun: int = 0
    committed: int = 0
    rolled_back: int = 0
    expired: int = 0
    """Transactions rolled back by age, or without a checker's answer."""
    asked: int = 0
    """The questions to this process's checker."""
    answers: Mapping[CheckOutcome, int] = field(default_factory=dict)
    standing: OpenTransactions | None = None
    """None where others look after the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTransactions:
    """One topic's messages of transactions."""

    committed_messages: int = 0
    rolled_back_messages: int = 0
    deleted_objects: int = 0
    """The deleted objects of rolled-back half messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatistics:
    """One process's transactions since it opened the lake."""

    at_ms: int = 0
    """The store's time, as far as known."""
    groups: Mapping[str, GroupTransactions] = field(default_factory=dict)
    topics: Mapping[str, TopicTransactions] = field(default_factory=dict)


class TransactionCounters:
    """Collects the figures on the event loop; any thread may `read`."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupTransactions] = {}
        self._topics: dict[str, TopicTransactions] = {}

    def read(self, now_ms: int) -> TransactionStatistics:
        return TransactionStatistics(at_ms=now_ms, groups=dict(self._groups), topics=dict(self._topics))

    def written(self, before: MemberCell | None, after: MemberCell) -> None:
        """Count a change of a member's cell; summed over processes, each counts once."""
        known = {} if before is None else before.rows
        for row in after.rows.values():
            was = known.get(row.id)
            if was is row:
                continue
            if was is None:
                self._begun(after.group)
            if not row.is_open and (was is None or was.is_open):
                self._decided(after.group, row)

    def question(self, group: str, answer: CheckOutcome | None) -> None:
        """Count a question to the checker (None), or its outcome."""
        known = self._group(group)
        if answer is None:
            self._groups[group] = replace(known, asked=known.asked + 1)
        else:
            self._groups[group] = replace(known, answers=_more(known.answers, answer, 1))

    def looked(self, group: str, cells: Iterable[MemberCell] | None) -> None:
        """None: others look at the group from now on."""
        standing = None if cells is None else open_transactions_of(row for cell in cells for row in cell.rows.values())
        self._groups[group] = replace(self._group(group), standing=standing)

    def deleted(self, topic: str, objects: int) -> None:
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
            case TransactionRow(by=Decider.AGE | Decider.CHECKS):
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


def open_transactions_of(rows: Iterable[TransactionRow], *, topic: str | None = None) -> OpenTransactions:
    """The state of these transactions, or of those that send to a topic."""
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
