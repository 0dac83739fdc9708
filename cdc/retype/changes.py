"""Columns of a target that get other types. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..events.type_widening import required_type
from ..targets import TargetColumn


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column's old and new type."""

    column: str
    old: str
    new: str


def changes_of(columns: Sequence[TargetColumn], declared: Mapping[str, str], told: Mapping[str, str]) -> tuple[ColumnChange, ...]:
    """The changes to the ``declared`` types, or else to the source catalogue's (``told``).

    A type that holds all the source's values stays, unless it is text.
    """
    found = []
    for column in columns:
        new = declared.get(column.name) or required_type(column.type, told.get(column.name, column.type))
        if new != column.type:
            found.append(ColumnChange(column.name, column.type, new))
    return tuple(found)
