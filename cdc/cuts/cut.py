"""A cut, the goal on the way to it, and the rule that cuts only go forward. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...consumers.ranges.offsets import TopicSnapshot
from ...log.errors import CallError
from ...log.format.stored_json import Number
from .places import captures_between, is_capture, place_of


class NoCut(CallError):
    """The cut is missing, or none can be made."""

    kind = "no_cut"


class CutTooOld(CallError):
    """The versions of a cut's tables are no longer there."""

    kind = "cut_too_old"


class TableNotInCut(CallError, KeyError):
    """The cut does not have this table: it came later, or stood still."""

    kind = "table_not_in_cut"

    __str__ = CallError.__str__  # that of KeyError shows the representation of the message


@dataclass(frozen=True, slots=True)
class Goal:
    """A state of the topic with every capture between transactions: targets that have all of it equal the sources."""

    life: int
    entry: int
    ends: Mapping[int, int]
    """The offset by queue before which everything belongs to the goal."""
    positions: Mapping[str, int]
    """The last sequence by capture."""

    def is_reached(self, position: Mapping[int, int]) -> bool:
        return all(position.get(queue, 0) == end for queue, end in self.ends.items())


def goal_of(standing: TopicSnapshot) -> Goal | None:
    """The topic's state as a goal; None while a capture stands amid a transaction, or before the first event."""
    captures = captures_between(standing.named)
    if captures is None:
        return None
    return Goal(standing.life, standing.entry, standing.end.queues, captures)


def check_captures(standing: TopicSnapshot, topic: str) -> None:
    """Raise `NoCut` unless a sender to the topic marks the ends of transactions."""
    if any(standing.end.queues.values()) and not any(map(is_capture, standing.named)):
        raise NoCut(
            "nothing tells where the transactions of this topic's events end",
            operation="sync",
            object=topic,
            expected="events of penstock capture in the last 30 days",
            observed=", ".join(sorted(standing.named)[:10]) or "no named producer",
            hint="capture the source so, or sync without cuts",
        )


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The version of a target that has the rows of a cut."""

    version: Number
    commits: Number
    """The sync's commit of these rows, in the table's log."""
    table: str
    """Delta's id of the table: one made again has other versions."""


@dataclass(frozen=True, slots=True)
class Cut:
    """All targets as of one place in the source's log."""

    number: int
    life: int
    """The entry that created the topic."""
    entry: int
    """The last entry that the targets have reached."""
    at_ms: int
    ends: Mapping[int, int]
    positions: Mapping[str, int]
    """The source's position, by capture."""
    tables: Mapping[str, TableVersion]
    """The versions, by folder."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """The tables that stand still, by present or future folder, with the reasons."""
    source_us: int | None = None
    """The source's time of the newest change, if known."""

    @property
    def places(self) -> dict[str, str]:
        """The places in the sources' logs, for people."""
        return {name: place_of(name, position) or str(position) for name, position in self.positions.items()}

    def of(self, table: str) -> TableVersion:
        """Raises `TableNotInCut`."""
        if table in self.tables:
            return self.tables[table]
        why = self.incomplete.get(table)
        raise TableNotInCut(
            "the table is not in this cut",
            operation="at_cut",
            object=table,
            expected=f"one of {', '.join(sorted(self.tables)[:20]) or 'no tables'}",
            observed=f"it stood still: {why}" if why is not None else f"the sync had no such table when cut {self.number} was made",
            hint="a table that the sync took up later is in later cuts",
        )


def follows(before: Cut | None, cut: Cut) -> bool:
    """Whether no queue and no capture goes back, and one goes forward, or a table is added that stood still."""
    if before is None or before.life < cut.life:
        return True
    if before.life > cut.life or before.entry > cut.entry:
        return False
    if any(cut.ends.get(queue, 0) < end for queue, end in before.ends.items()):
        return False
    if any(cut.positions.get(name, last) < last for name, last in before.positions.items()):
        return False
    if (before.ends, before.positions) == (cut.ends, cut.positions):
        return cut.incomplete.keys() < before.incomplete.keys()
    return True
