"""The result of a fold: what each of several tasks found, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..changes import Key, NetChange, Place
from ..events.sources import TableId
from ..targets import SourceWatermark
from .observed_columns import ObservedColumns
from .rejected_events import RejectedEvent


@dataclass(frozen=True, slots=True)
class RowVersion:
    """One version of a row, for a target with history."""

    key: Key
    op: str
    values: tuple[Any, ...]
    position: int | None
    time_us: int
    place: Place


class TypesReference(NamedTuple):
    """The types of a table's columns, by the name of the object that has them."""

    position: int
    """The position of the event that gave the name; `NEVER` where it had none."""
    name: str


class LastTruncate(NamedTuple):
    """The last truncate of a table; truncates compare by their positions."""

    position: int
    """`ALWAYS` where it had none."""
    time_us: int


class TableCoverage(NamedTuple):
    """The last word of a capture on whether it has a table."""

    position: int
    reason: str | None
    """Why it does not; None: it does."""


@dataclass(frozen=True, slots=True)
class RefusedEvent:
    """An event that cannot be applied."""

    place: Place
    reason: str
    column: str | None = None
    """The column whose value does not fit."""
    types_name: str | None = None
    """The name that the event gives of its columns' types."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The types of its columns that the event says itself."""


@dataclass(slots=True)
class FoldResult:
    """The result of folding a range of events."""

    nets: dict[TableId, list[tuple[Key, NetChange]]] = field(default_factory=dict)
    """Net changes by table; a row has one for each queue that had events of it."""
    versions: dict[TableId, list[RowVersion]] = field(default_factory=dict)
    partial: set[TableId] = field(default_factory=set)
    """Tables in which some rows have only some columns."""
    moved: dict[TableId, set[Key]] = field(default_factory=dict)
    """Keys by table, of rows from which columns are to be taken that no event had."""
    truncates: dict[TableId, LastTruncate] = field(default_factory=dict)
    """The truncate of the highest position, by table."""
    seen: dict[TableId, ObservedColumns] = field(default_factory=dict)
    unfolded: set[TableId] = field(default_factory=set)
    """Tables of which events were seen only, as they had no target then."""
    refused: dict[TableId, dict[int, RefusedEvent]] = field(default_factory=dict)
    """The first event that cannot be applied, by table and queue."""
    broken: dict[int, RefusedEvent] = field(default_factory=dict)
    """The first event whose table cannot be told, by queue."""
    counts: dict[TableId, int] = field(default_factory=dict)
    """The number of events folded, by table."""
    ignored: int = 0
    """The number of events that change no row of a target: tombstones, heartbeats, messages, tables that were not asked for."""
    watermarks: dict[TableId, dict[int, SourceWatermark]] = field(default_factory=dict)
    """How far the source's positions are, by table and by queue, where something new is known."""
    passed: int = 0
    """The number of events that are applied already."""
    left: dict[TableId, TableCoverage] = field(default_factory=dict)
    """The tables whose capture has stopped, or begun anew."""
    columns: dict[TableId, frozenset[str]] = field(default_factory=dict)
    """The columns that events have, by table, of tables that get only some of them, or masked ones."""
    rejected: list[RejectedEvent] = field(default_factory=list)
    """What is not applied, or not as it is."""
    types: dict[TableId, TypesReference] = field(default_factory=dict)
    """The types that the newest event of each table names, also one that cannot be applied."""
    newest_us: int | None = None
    """When the source committed the newest change."""


def combined(parts: list[FoldResult]) -> FoldResult:
    """The folds of several tasks combined, except their rows."""
    whole = FoldResult()
    for part in parts:
        for source, seen in part.seen.items():
            whole.seen.setdefault(source, ObservedColumns()).join(seen)
        for source, refused in part.refused.items():
            whole.refused.setdefault(source, {}).update(refused)
        whole.unfolded |= part.unfolded
        whole.partial |= part.partial
        for source, keys in part.moved.items():
            whole.moved.setdefault(source, set()).update(keys)
        for source, truncate in part.truncates.items():
            whole.truncates[source] = max(whole.truncates.get(source, truncate), truncate)
        for source, left in part.left.items():
            whole.left[source] = max(whole.left.get(source, left), left, key=lambda one: one.position)
        for source, count in part.counts.items():
            whole.counts[source] = whole.counts.get(source, 0) + count
        for source, watermarks in part.watermarks.items():
            whole.watermarks.setdefault(source, {}).update(watermarks)  # a queue is one task's
        for source, columns in part.columns.items():
            whole.columns[source] = whole.columns.get(source, frozenset()) | columns
        for source, named in part.types.items():
            whole.types[source] = max(whole.types.get(source, named), named)
        whole.broken.update(part.broken)
        whole.rejected += part.rejected
        whole.newest_us = max((one for one in (whole.newest_us, part.newest_us) if one is not None), default=None)
        whole.ignored += part.ignored
        whole.passed += part.passed
    return whole


def without_rows(folded: FoldResult) -> FoldResult:
    """The fold without its rows, small enough for the driver."""
    seen = {source: replace(one, kinds=set()) for source, one in folded.seen.items()}
    return replace(folded, nets={}, versions={}, seen=seen)
