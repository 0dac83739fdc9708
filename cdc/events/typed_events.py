"""Change events whose columns are typed: the rows of a topic with a schema, one topic for each table of the source.

| field | what it is |
| --- | --- |
| `op` | c(reate), u(pdate), d(elete), r(ead by a snapshot) or t(runcate) |
| `db`, `schema_name`, `table_name` | the table |
| `row_key` | the columns of the key |
| `before`, `after` | the row, as far as the source sent it |
| `not_sent` | the unchanged columns of `after` that the source did not send |
| `unfit` | values that no column of their type can hold, such as infinite dates, as the source writes them, by ``after.column`` |
| `position` | the change's place in the source's log (`ChangeEvent.position`) |
| `committed_at`, `snapshot`, `transaction_id`, `lsn` | of the transaction |

Values are those of the schema's types, without JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ...log.errors import InvalidArgument
from ...log.schema.fields import ArrayType, Field, FieldType, MapType, PrimitiveType, StructType
from ...log.schema.value_column import ValueColumn
from .debezium import OPERATIONS, ChangeEvent
from .sources import TableId, source_of
from .target_types import target_type_of_arrow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PUTS = ("c", "u", "r")


def fields_of_events(columns: Sequence[Field], key: Sequence[str]) -> tuple[Field, ...]:
    """All columns are nullable."""
    row = StructType(tuple(columns))
    of_key = StructType(tuple(column for column in columns if column.name in key))
    text = PrimitiveType.STRING
    return (
        Field("op", text, nullable=False),
        *(Field(name, text) for name in ("db", "schema_name", "table_name")),
        Field("row_key", of_key),
        Field("before", row),
        Field("after", row),
        Field("not_sent", ArrayType(Field("element", text))),
        Field("unfit", MapType(Field("key", text, nullable=False), Field("value", text))),
        Field("position", PrimitiveType.BIGINT),
        Field("committed_at", PrimitiveType.TIMESTAMP),
        Field("snapshot", PrimitiveType.BOOLEAN),
        Field("transaction_id", PrimitiveType.BIGINT),
        Field("lsn", PrimitiveType.BIGINT),
    )


def is_of_events(value: pa.DataType) -> bool:
    return {"op", "row_key", "before", "after", "table_name"} <= {field.name for field in value}


@dataclass(frozen=True, slots=True)
class TypedEvent:
    """A row with a change."""

    row: Mapping[str, Any]
    types: Mapping[str, FieldType]

    @property
    def source(self) -> TableId | None:
        row = self.row
        return source_of({"db": row.get("db"), "schema": row.get("schema_name"), "table": row.get("table_name")})

    def change(self) -> ChangeEvent:
        """Raises `InvalidArgument` for a row without a change."""
        return _change(self)


def typed_events(value: pa.StructArray) -> Iterator[TypedEvent | None]:
    """None for a tombstone."""
    types = column_types(value.type)
    for row in ValueColumn.of(value):
        yield None if row is None else TypedEvent(row, types)


def column_types(value: pa.StructType) -> Mapping[str, FieldType]:
    """Text for what a target cannot have."""
    return {field.name: target_type_of_arrow(field.type) or PrimitiveType.STRING for field in value.field("after").type}


def _change(event: TypedEvent) -> ChangeEvent:
    row, source = event.row, event.source
    op = row["op"]
    key, before, after = (_whole(row, name) for name in ("row_key", "before", "after"))
    if source is None:
        raise InvalidArgument("the event does not name its table", expected="table_name", observed=repr(row.get("table_name")))
    if op not in OPERATIONS:
        raise InvalidArgument("this is no change", expected=f"one of {', '.join(OPERATIONS)} as op", observed=repr(op))
    key = key or {}
    if op in _PUTS:
        if after is None:
            raise InvalidArgument("the event does not say the row", expected=f"a row as after, op being {op}", observed="NULL")
        current = after
        for name in row.get("not_sent") or ():
            current.pop(name, None)
    else:
        current = key if before is None else before
    committed = row.get("committed_at")
    return ChangeEvent(
        source=source,
        op=op,
        key=key,
        row=current,
        position=row.get("position"),
        sequence=row.get("position"),
        before=before,
        time_us=None if committed is None else (committed - _EPOCH) // _MICROSECOND,
        types=event.types,
        says_unsent=True,
    )


def _whole(row: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """A struct of columns, with unfit values in the source's form."""
    if (columns := row.get(name)) is None:
        return None
    unfit = {path.partition(".")[2]: text for path, text in (row.get("unfit") or {}).items() if path.partition(".")[0] == name}
    return {**columns, **{column: text for column, text in unfit.items() if text is not None}}
