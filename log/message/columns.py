"""The columns of messages: files leave out empty ones; typed topics have one more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Final

import pyarrow as pa

from ..schema.stored_columns import aligned, wider_type
from .message import LOG_SCHEMA, RARE, VALUE

_FEW: Final = 64
_USUAL: Final = tuple(
    pa.schema([field for field in LOG_SCHEMA if field.name not in without]) for without in (RARE, RARE[:1], RARE[1:], ())
)
"""What files have without typed values: comparing them whole takes a hundredth of the time of a walk."""


def with_value(schema: pa.Schema, value: pa.DataType | None) -> pa.Schema:
    return schema if value is None else schema.append(pa.field(VALUE, value))


def value_type(schema: pa.Schema) -> pa.DataType | None:
    return schema.field(VALUE).type if VALUE in schema.names else None


def rare_columns(rows: pa.Table | pa.RecordBatch) -> tuple[str, ...]:
    """The columns of `RARE` with a value in some row."""
    return tuple(name for name in RARE if name in rows.schema.names and rows.column(name).null_count < rows.num_rows)


def is_extended(rows: pa.Table) -> bool:
    """Whether some row has a key, headers, or NULL as body without typed value."""
    return bool(rare_columns(rows)) or (VALUE not in rows.schema.names and rows.column("body").null_count > 0)


def slim(rows: pa.Table) -> pa.Table:
    kept = rare_columns(rows)
    return rows.drop_columns([name for name in RARE if name in rows.schema.names and name not in kept])


def whole(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    if rows.schema.names == schema.names:
        return rows
    found, count = set(rows.schema.names), rows.num_rows
    columns = [rows.column(field.name) if field.name in found else _nulls(field.type, count) for field in schema]
    return pa.Table.from_arrays(columns, names=schema.names)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return _few_nulls(kind).slice(0, count) if count <= _FEW else pa.nulls(count, kind)


@lru_cache
def _few_nulls(kind: pa.DataType) -> pa.Array:
    """Made once, as these columns cost the reading of a small entry more than its values."""
    return pa.nulls(_FEW, kind)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    types = dict.fromkeys(table.schema.field(VALUE).type for table in tables if VALUE in table.schema.names)
    if len(types) <= 1:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return pa.concat_tables([with_value_as(table, reduce(wider_type, types)) for table in tables])


def with_value_as(rows: pa.Table, wanted: pa.DataType | None) -> pa.Table:
    if wanted is None or (found := value_type(rows.schema)) == wanted:
        return rows
    if found is None:
        return rows.append_column(VALUE, pa.nulls(rows.num_rows, wanted))
    return rows.set_column(rows.schema.get_field_index(VALUE), VALUE, aligned(rows.column(VALUE), wanted))


def fits_file(found: pa.Schema, schema: pa.Schema) -> bool:
    """Whether a file may have these columns under ``schema``; the type of ``value`` does not count."""
    if schema is LOG_SCHEMA and any(found.equals(usual) for usual in _USUAL):
        return True
    expected = [field for field in schema if field.name in found.names or field.name not in RARE]
    return found.names == [field.name for field in expected] and all(
        field.name == VALUE or field.equals(other) for field, other in zip(expected, found, strict=True)
    )
