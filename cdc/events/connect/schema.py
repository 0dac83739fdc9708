"""Kafka Connect's schema part of an event, as far as columns need it.

Connectors repeat it in every event, so each is read once and kept by its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ....log.errors import InvalidArgument

_SCALE, _PRECISION = "scale", "connect.decimal.precision"
_SOURCE_TYPE, _SOURCE_LENGTH, _SOURCE_SCALE = (f"__debezium.source.column.{name}" for name in ("type", "length", "scale"))
_LEVELS = 20
_SCHEMAS_MAX, _BYTES_MAX = 512, 65_536
"""The number of schema parts that are kept, and the bytes of the largest."""
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DECODER = msgspec.json.Decoder(float_hook=Decimal)


class FieldSchema(NamedTuple):
    """A column's schema, or an array's elements'."""

    type: str
    """How the value is written."""
    name: str = ""
    """The name of its meaning, or empty."""
    scale: int = 0
    precision: int | None = None
    items: FieldSchema | None = None
    source_type: str = ""
    """The column's type at the source, where connectors add it (``column.propagate.source.type``)."""
    source_precision: int | None = None
    source_scale: int = 0


@dataclass(frozen=True, slots=True, eq=True)
class ConnectRowSchema:
    """The schema of the columns of a row or a key."""

    fields: Mapping[str, FieldSchema]

    def __hash__(self) -> int:
        return hash(tuple(self.fields))


def schema_of_envelope(schema: object) -> ConnectRowSchema | None:
    """The schema of rows: the envelope's ``after`` or ``before``, which are the same. Raises `InvalidArgument`."""
    return _row(member(schema, "after") or member(schema, "before"))


def schema_of_key(schema: object) -> ConnectRowSchema | None:
    """Raises `InvalidArgument`."""
    return _row(schema)


def read_schema_of_envelope(data: bytes) -> ConnectRowSchema | None:
    """The schema of rows from JSON. Raises `InvalidArgument`, `msgspec.MsgspecError`."""
    return _envelope(data) if len(data) <= _BYTES_MAX else _envelope.__wrapped__(data)


def read_schema_of_key(data: bytes) -> ConnectRowSchema | None:
    return _key(data) if len(data) <= _BYTES_MAX else _key.__wrapped__(data)


def read_schemas(data: bytes) -> tuple[ConnectRowSchema | None, ConnectRowSchema | None]:
    """The schemas of the key and of rows, from one schema around both."""
    return _both(data) if len(data) <= _BYTES_MAX else _both.__wrapped__(data)


@lru_cache(_SCHEMAS_MAX)
def _envelope(data: bytes) -> ConnectRowSchema | None:
    return schema_of_envelope(_DECODER.decode(data))


@lru_cache(_SCHEMAS_MAX)
def _key(data: bytes) -> ConnectRowSchema | None:
    return schema_of_key(_DECODER.decode(data))


@lru_cache(_SCHEMAS_MAX)
def _both(data: bytes) -> tuple[ConnectRowSchema | None, ConnectRowSchema | None]:
    schema = _DECODER.decode(data)
    return schema_of_key(member(schema, "key")), schema_of_envelope(member(schema, "value"))


def member(schema: object, name: str) -> Mapping[str, Any] | None:
    """The schema of a struct's field. Raises `InvalidArgument`."""
    return next((field for field in _fields(schema) if field.get("field") == name), None)


def _row(schema: object) -> ConnectRowSchema | None:
    fields = {str(field["field"]): _field(field, field["field"]) for field in _fields(schema) if "field" in field}
    return ConnectRowSchema(fields) if fields else None


def _fields(schema: object) -> list[dict[str, Any]]:
    if schema is None:
        return []
    if not isinstance(schema, Mapping):
        raise _unreadable("an object", schema)
    fields = schema.get("fields")
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _field(said: Mapping[str, Any], column: object, levels: int = _LEVELS) -> FieldSchema:
    kind, name, parameters, items = (said.get(one) for one in ("type", "name", "parameters", "items"))
    if not isinstance(parameters, dict):
        parameters = {}
    source_type = parameters.get(_SOURCE_TYPE)
    return FieldSchema(
        type=kind if isinstance(kind, str) else "",
        name=name if isinstance(name, str) else "",
        scale=_number(parameters, _SCALE, column) or 0,
        precision=_number(parameters, _PRECISION, column),
        items=_field(items, column, levels - 1) if isinstance(items, dict) and levels else None,
        source_type=source_type.upper() if isinstance(source_type, str) else "",
        source_precision=_number(parameters, _SOURCE_LENGTH, column),
        source_scale=_number(parameters, _SOURCE_SCALE, column) or 0,
    )


def _number(parameters: Mapping[str, Any], name: str, column: object) -> int | None:
    said = parameters.get(name)
    if isinstance(said, str) and _NUMBER.fullmatch(said):
        said = int(said)
    if said is not None and (not isinstance(said, int) or isinstance(said, bool)):
        raise _unreadable(f"a number as {name} of column {column}", said)
    return said


def _unreadable(expected: str, observed: object) -> InvalidArgument:
    return InvalidArgument(
        "the event's schema part cannot be read", operation="sync", expected=expected, observed=repr(observed)[:80]
    )
