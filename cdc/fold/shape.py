"""The typed columns, and the key, that a table's events call for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...log.schema.fields import ArrayType, FieldType, PrimitiveType
from ..events.sources import TableId, merged_declarations, named, of_table
from ..target import TableDeclarations, Target, TargetColumn, TargetRefused
from .observed_columns import ObservedColumns

_OWN = "__"


@dataclass(frozen=True, slots=True)
class TableShape:
    """Columns in the order in which they came, with the declared or the observed types."""

    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...]

    @classmethod
    def of(
        cls,
        source: TableId,
        seen: ObservedColumns,
        declared: TableDeclarations,
        catalog_types: Mapping[str, FieldType] | None = None,
    ) -> TableShape:
        """Raises `TargetRefused` for columns that no target can have. A column that was only null so far waits for a value, unless its type is
        declared, or among the source catalogue's (``catalog_types``).
        """
        key = tuple(of_table(declared.keys, source) or seen.key)
        types_by_name = {name: (catalog_types or {}).get(name, kind) for name, kind in seen.columns.items()}
        known = {name: of_key(kind) if name in key else kind for name, kind in types_by_name.items() if kind is not None}
        types = known | merged_declarations(declared.columns, source)
        columns = [TargetColumn(name, types[name]) for name in types_by_name if name in types]
        names: dict[str, str] = {}
        for column in columns:
            if column.name.lower().startswith(_OWN):
                raise TargetRefused(
                    "names that begin with __ are the sync's own", operation="sync", object=named(source), observed=column.name
                ).of(column.name)
            if (other := names.setdefault(column.name.lower(), column.name)) != column.name:
                raise TargetRefused(
                    "two columns differ in case only", operation="sync", object=named(source), observed=f"{other}, {column.name}"
                ).of(column.name)
            if column.name in key:
                check_key(source, column)
        return cls(tuple(columns), key)


def check_key(source: TableId, column: TargetColumn) -> None:
    """Raises `TargetRefused`."""
    if isinstance(column.type, ArrayType):
        raise TargetRefused(
            "a key's column cannot be an array",
            operation="sync",
            object=named(source),
            observed=f"{column.name} {column.type}",
            hint="as a string it holds the array's JSON text",
        )


def of_key(kind: FieldType) -> FieldType:
    """The type of a column of the key: arrays are JSON text there."""
    return PrimitiveType.STRING if isinstance(kind, ArrayType) else kind


def key_of(shape: TableShape) -> tuple[TargetColumn, ...]:
    """A new target's columns, those of the key first."""
    first = [column for name in shape.key for column in shape.columns if column.name == name]
    return (*first, *(column for column in shape.columns if column not in first))


def new_columns(target: Target, shape: TableShape) -> list[TargetColumn]:
    """The columns that a target lacks. Raises `TargetRefused` for two names that differ by case."""
    known = {column.name.lower(): column.name for column in target.columns}
    for column in shape.columns:
        if (other := known.get(column.name.lower(), column.name)) != column.name:
            raise TargetRefused(
                "two columns differ in case only",
                operation="sync",
                object=named(target.source),
                observed=f"{other} in the target, {column.name} in the event",
                hint="was it renamed at the source? Rename it in the target too, or begin a new one",
            ).of(column.name)
    return [column for column in shape.columns if column.name.lower() not in known]
