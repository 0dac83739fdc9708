"""Columns that a target, or the plan, lacks: their types and first places."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...log.schema.fields import FieldType
from ...log.schema.widening import widest
from ..changes import Place
from ..events.connect import column_type
from ..events.debezium import ChangeEvent
from ..events.placeholders import UnavailablePlaceholder
from ..events.target_types import infer, joined


@dataclass(slots=True)
class ObservedColumns:
    """A table, or columns of one, that the plan does not have."""

    columns: dict[str, FieldType | None] = field(default_factory=dict)
    """The type by column that the values call for; None: all were null."""
    key: tuple[str, ...] = ()
    connect: set[str] = field(default_factory=set)
    kinds: set[tuple[object, ...]] = field(default_factory=set)
    """Queue, schema, names and kinds of value of the rows that were looked at."""
    places: dict[str, dict[int, int]] = field(default_factory=dict)
    """The first offset, by column and queue; a truncate's under an empty name."""
    truncated: int | None = None
    types: set[str] = field(default_factory=set)

    def note(self, change: ChangeEvent, place: Place, known: frozenset[str], unavailable: UnavailablePlaceholder) -> None:
        """Note columns that are not ``known``. A placeholder for a value that was not logged has no type."""
        queue, offset = place
        is_it = unavailable.is_it
        if change.types_name is not None:
            self.types.add(change.types_name)
        for row, schema in ((change.row, change.schema_of_row), (change.key, change.schema_of_key)):
            fields = {} if schema is None else schema.fields
            if change.types is None:
                # Most rows are like earlier ones, from which nothing new is to be learned.
                without_schema = row.values() if schema is None else [value for name, value in row.items() if name not in fields]
                kinds = (queue, schema, *row, *[None if is_it(value) else _kind(value) for value in without_schema])
                if kinds in self.kinds:
                    continue
                self.kinds.add(kinds)
            for name, value in row.items():
                if name in known:
                    continue
                self.places.setdefault(name, {}).setdefault(queue, offset)
                if change.types is not None and name in change.types:
                    self.columns[name] = change.types[name]
                    self.connect.add(name)
                elif name in fields:
                    self._say(name, column_type(fields[name]))
                elif name not in self.connect:
                    self.columns[name] = joined(self.columns.get(name), None if is_it(value) else infer(value))

    def _say(self, name: str, kind: FieldType) -> None:
        """Note a type from an event. The column is to hold the types of all schemas."""
        known = self.columns.get(name) if name in self.connect else None
        self.columns[name] = kind if known is None else widest(known, kind)
        self.connect.add(name)

    def note_truncate(self, position: int | None, place: Place) -> None:
        self.places.setdefault("", {}).setdefault(*place)
        if position is not None:
            self.truncated = max(position, self.truncated or 0)

    @property
    def place(self) -> tuple[int, int]:
        return min((offset, queue) for queue, offset in self.first(()).items())

    def first(self, columns: Collection[str]) -> dict[int, int]:
        """The first offset by queue with one of these columns, or any."""
        found: dict[int, int] = {}
        for name in columns or self.places:
            for queue, offset in self.places.get(name, {}).items():
                found[queue] = min(offset, found.get(queue, offset))
        return found

    def join(self, other: ObservedColumns) -> None:
        self.key = self.key or other.key
        for name, kind in other.columns.items():
            if kind is not None and name in other.connect:
                self._say(name, kind)
            elif name not in self.connect:
                self.columns[name] = joined(self.columns.get(name), kind)
        self.types |= other.types
        for name, places in other.places.items():
            self.places.setdefault(name, {}).update(places)  # a queue belongs to one task
        if other.truncated is not None:
            self.truncated = max(other.truncated, self.truncated or 0)


def _kind(value: object) -> object:
    """The class of a value; a number that needs more than 64 bits has a class of its own."""
    return "large" if value.__class__ is int and not -(2**63) <= value < 2**63 else value.__class__
