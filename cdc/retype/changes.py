"""The columns of a target that get other types. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..events.wider import holds, widest
from ..targets import Column

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that gets another type."""

    column: str
    old: str
    new: str


def changes_of(columns: Sequence[Column], declared: Mapping[str, str], told: Mapping[str, str]) -> tuple[ColumnChange, ...]:
    """The changes that give a target's columns the ``declared`` types, and the others those that the source's catalogue has ``told``.

    A column that holds all values of the source's keeps its type, unless it is text. A number becomes one that holds both, as rows of
    before may have values that the source's type has not: PostgreSQL does not tell what became of them.
    """
    found = []
    for column in columns:
        new = declared.get(column.name) or _called_for(column.type, told.get(column.name, column.type))
        if new != column.type:
            found.append(ColumnChange(column.name, column.type, new))
    return tuple(found)


def _called_for(has: str, told: str) -> str:
    if holds(has, told):
        return has
    if _is_number(has) and _is_number(told):
        both = widest(has, told)
        return told if both == "string" else both
    return told


def _is_number(type_: str) -> bool:
    return type_.partition("(")[0] in _NUMBERS
