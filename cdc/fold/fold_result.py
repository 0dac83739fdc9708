"""The result of a fold, of one task or of all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...log.schema.fields import FieldType
from ..changes import Key, NetChange, Place
from ..events.sources import TableId
from ..target import SourceWatermark
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
    """The position of the event that gave the name, or `NEVER`."""
    name: str


class LastTruncate(NamedTuple):
    """The last truncate of a table, by its position."""

    position: int
    """`ALWAYS` where it had none."""
    time_us: int


class TableCoverage(NamedTuple):
    """The last word of a capture on whether it has a table."""

    position: int
    reason: str | None
    """None: it does."""


@dataclass(frozen=True, slots=True)
class RefusedEvent:
    """An event that cannot be applied."""

    place: Place
    reason: str
    column: str | None = None
    types_name: str | None = None
    types: Mapping[str, FieldType] = field(default_factory=dict)


@dataclass(slots=True)
class FoldResult:
    """The result of folding a range of events."""

    nets: dict[TableId, list[tuple[Key, NetChange]]] = field(default_factory=dict)
    """A row has a net change for each queue with events of it."""
    versions: dict[TableId, list[RowVersion]] = field(default_factory=dict)
    partial: set[TableId] = field(default_factory=set)
    """Tables in which some rows have only some columns."""
    moved: dict[TableId, set[Key]] = field(default_factory=dict)
    """Keys of rows that take columns without events from elsewhere."""
    truncates: dict[TableId, LastTruncate] = field(default_factory=dict)
    seen: dict[TableId, ObservedColumns] = field(default_factory=dict)
    unfolded: set[TableId] = field(default_factory=set)
    """Tables whose events were only seen, for want of a target."""
    refused: dict[TableId, dict[int, RefusedEvent]] = field(default_factory=dict)
    """The first unfit event by table and queue."""
    broken: dict[int, RefusedEvent] = field(default_factory=dict)
    """The first event of an unknown table, by queue."""
    counts: dict[TableId, int] = field(default_factory=dict)
    ignored: int = 0
    """The events that change no row of a target: tombstones, heartbeats, messages, unwanted tables."""
    watermarks: dict[TableId, dict[int, SourceWatermark]] = field(default_factory=dict)
    """New positions of the source, by table and queue."""
    passed: int = 0
    coverage: dict[TableId, TableCoverage] = field(default_factory=dict)
    columns: dict[TableId, frozenset[str]] = field(default_factory=dict)
    """The columns in events, of tables with a choice of columns or masks."""
    rejected: list[RejectedEvent] = field(default_factory=list)
    types: dict[TableId, TypesReference] = field(default_factory=dict)
    """The types that the newest event of each table names, also one that cannot be applied."""
    newest_us: int | None = None


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
        for source, coverage in part.coverage.items():
            whole.coverage[source] = max(whole.coverage.get(source, coverage), coverage, key=lambda known: known.position)
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
        whole.newest_us = max((time_us for time_us in (whole.newest_us, part.newest_us) if time_us is not None), default=None)
        whole.ignored += part.ignored
        whole.passed += part.passed
    return whole


def without_rows(folded: FoldResult) -> FoldResult:
    """The fold without its rows, small enough for the driver."""
    seen = {source: replace(columns, kinds=set()) for source, columns in folded.seen.items()}
    return replace(folded, nets={}, versions={}, seen=seen)
