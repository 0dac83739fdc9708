"""The columns of messages: files leave out empty ones; typed topics have one more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from ..schema.stored_columns import aligned, wider_type
from .message import RARE, VALUE


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
    found = set(rows.schema.names)
    return pa.table(
        {field.name: rows.column(field.name) if field.name in found else pa.nulls(rows.num_rows, field.type) for field in schema}
    )


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
    expected = [field for field in schema if field.name in found.names or field.name not in RARE]
    return found.names == [field.name for field in expected] and all(
        field.name == VALUE or field.equals(other) for field, other in zip(expected, found, strict=True)
    )
