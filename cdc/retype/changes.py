"""Columns of a target that get other types. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...log.schema.fields import FieldType
from ...log.schema.widening import required_type
from ..target import TargetColumn


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column's old and new type, in Spark's SQL."""

    column: str
    old: str
    new: str


class TypeChange(NamedTuple):
    """A column that gets another type."""

    column: str
    old: FieldType
    new: FieldType

    @property
    def shown(self) -> ColumnChange:
        return ColumnChange(self.column, str(self.old), str(self.new))


def changes_of(
    columns: Sequence[TargetColumn], declared: Mapping[str, FieldType], catalog_types: Mapping[str, FieldType]
) -> tuple[TypeChange, ...]:
    """The changes to the ``declared`` types, or else to the source catalogue's (``catalog_types``).

    A type that holds all the source's values stays, unless it is text.
    """
    found = []
    for column in columns:
        new = declared.get(column.name) or required_type(column.type, catalog_types.get(column.name, column.type))
        if new != column.type:
            found.append(TypeChange(column.name, column.type, new))
    return tuple(found)
