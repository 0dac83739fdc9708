"""The columns of a target that get other types. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..events.type_widening import required_type
from ..targets import TargetColumn


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that gets another type."""

    column: str
    old: str
    new: str


def changes_of(columns: Sequence[TargetColumn], declared: Mapping[str, str], told: Mapping[str, str]) -> tuple[ColumnChange, ...]:
    """The changes that give a target's columns the ``declared`` types, and the others those that the source's catalogue has ``told``.

    A column that holds all values of the source's keeps its type, unless it is text.
    """
    found = []
    for column in columns:
        new = declared.get(column.name) or required_type(column.type, told.get(column.name, column.type))
        if new != column.type:
            found.append(ColumnChange(column.name, column.type, new))
    return tuple(found)
