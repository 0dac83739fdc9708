"""PostgreSQL's tables as typed topics: fields from the catalogue, and events as rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa

from ...log.errors import InvalidArgument
from ...log.schema.arrow_types import arrow_type
from ...log.schema.fields import DecimalType, Field, FieldType, PrimitiveType, StructType
from ...log.schema.rules import check_fields
from ...log.schema.topic_schema import TopicSchema
from ...log.schema.widening import holds_stored
from ..events.typed_events import fields_of_events
from .column_types import TYPES_BY_NAME, numeric_type
from .envelopes import EnvelopeMessage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column in ``information_schema.columns``, with a domain's base type."""

    name: str
    data_type: str
    precision: int | None = None
    scale: int | None = None


def field_of(column: CatalogColumn) -> Field:
    """The field of a column. A numeric without a precision, or with more than 38 digits, is text."""
    if column.data_type == "numeric":
        return Field(column.name, numeric_type(column.precision, column.scale or 0))
    return Field(column.name, TYPES_BY_NAME.get(column.data_type, PrimitiveType.STRING))


def fields_of_table(columns: Sequence[CatalogColumn], key: Sequence[str]) -> tuple[Field, ...]:
    """The fields of a table's topic. Raises `InvalidArgument`, naming the column, for an unusable name."""
    fields = fields_of_events([field_of(column) for column in columns], key)
    check_fields(fields)
    return fields


def evolved_fields(schema: TopicSchema, columns: Sequence[CatalogColumn], key: Sequence[str]) -> tuple[Field, ...]:
    """The topic's fields for these columns and the table's former ones. Raises `InvalidArgument` for a new type that does not
    hold the old values.
    """
    structs = {field.name: field.type for field in schema.live if isinstance(field.type, StructType)}
    if not {"after", "row_key"} <= structs.keys():
        raise InvalidArgument(
            "the topic's schema is not that of a table's events",
            operation="capture",
            expected="the fields that --typed makes",
            observed=schema.ddl,
            hint="capture into a new topic",
        )
    there = {field.name: field for field in structs["after"].live}
    key = [*(field.name for field in structs["row_key"].live), *key]
    now = {column.name: field_of(column) for column in columns}
    for name in there.keys() & now.keys():
        if now[name].type == there[name].type or holds_stored(there[name].type, now[name].type):
            now[name] = there[name]
        elif not holds_stored(now[name].type, there[name].type):
            raise InvalidArgument(
                "a column's type has changed, and the topic's field does not hold its values",
                operation="capture",
                object=name,
                expected=str(there[name].type),
                observed=str(now[name].type),
                hint="rename or retire the topic's field (penstock topic schema evolve), or capture into a new topic",
            )
    return fields_of_events(
        [*(now.get(name, field) for name, field in there.items()), *(now[n] for n in now if n not in there)], key
    )


class TypedEvents:
    """Makes the columns of a batch of events."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        columns = next(field.type for field in fields if field.name == "after")
        assert isinstance(columns, StructType), "fields_of_events makes it one"
        self._readers = {field.name: _reader(field.type) for field in columns.fields}
        self.names = frozenset(self._readers)

    def columns(self, events: Sequence[EnvelopeMessage]) -> dict[str, pa.Array]:
        rows = [self._row(event) for event in events]
        types = {field.name: arrow_type(field.type) for field in self.fields}
        return {name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()}

    def _row(self, event: EnvelopeMessage) -> dict[str, Any]:
        envelope, key = event.envelope, event.row_key
        assert envelope is not None, "the capture is typed"
        source, before = envelope["source"], envelope["before"]
        # Of a row whose old values the source does not log, it tells the key alone.
        is_whole = before is not None and key is not None and before.keys() != key.keys()
        unfit: dict[str, str] = {}
        after = None if (given := envelope["after"]) is None else self._typed(given, "after", unfit)
        return {
            "op": event.op,
            "db": source["db"],
            "schema_name": source["schema"],
            "table_name": source["table"],
            "row_key": None if key is None else self._typed(key, "row_key", unfit),
            "before": self._typed(before, "before", unfit) if is_whole else None,
            "after": after,
            "not_sent": list(event.not_sent) or None,
            "unfit": list(unfit.items()) or None,
            "position": event.position,
            "committed_at": _EPOCH + timedelta(microseconds=source["ts_us"]),
            "snapshot": source["snapshot"] == "true",
            "transaction_id": source["txId"],
            "lsn": source["lsn"],
        }

    def _typed(self, row: Mapping[str, Any], where: str, unfit: dict[str, str]) -> dict[str, Any]:
        """A row's values by the fields' types; those that do not fit are NULL, and named in ``unfit``."""
        made = {}
        for name, value in row.items():
            try:
                made[name] = None if value is None else self._readers[name](value)
            except (ValueError, ArithmeticError):
                made[name], unfit[f"{where}.{name}"] = None, str(value)
        return made


def _reader(type_: FieldType) -> Callable[[Any], Any]:
    """The reader of JSON values for a type. It raises `ValueError` or `ArithmeticError` for one that does not fit."""
    match type_:
        case DecimalType(precision, scale):
            unit, exact = Decimal((0, (1,), -scale)), Context(prec=precision, traps=[Inexact, InvalidOperation])
            return lambda value: _decimal(value, unit, exact)
        case PrimitiveType.FLOAT | PrimitiveType.DOUBLE:
            return float
        case PrimitiveType.BINARY:
            return base64.b64decode
        case PrimitiveType.DATE:
            return _date
        case PrimitiveType.TIMESTAMP | PrimitiveType.TIMESTAMP_NTZ:
            return datetime.fromisoformat
        case PrimitiveType.STRING:
            return _text
        case _:
            return lambda value: value


def _decimal(value: str, unit: Decimal, exact: Context) -> Decimal:
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("no decimal")
    return number.quantize(unit, context=exact)


def _date(value: str) -> date:
    return date.fromisoformat(value)


def _text(value: object) -> str:
    """Texts as they are; numbers and arrays as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
