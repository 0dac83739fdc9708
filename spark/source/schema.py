"""The columns as Spark names them. A test compares them with `MESSAGE_SCHEMA`."""

from __future__ import annotations

from collections.abc import Sequence

from ...consumers.ranges.planned_columns import PlannedSchema
from ...log.message.message import VALUE
from ...log.read.projection import projection_of
from ...log.schema.fields import StructType

_TYPES = {
    "queue": "int",
    "offset": "bigint",
    "message_id": "string",
    "message_group": "string",
    "tag": "string",
    "keys": "array<string>",
    "properties": "map<string,string>",
    "body": "binary",
    "born_timestamp": "timestamp",
    "store_timestamp": "timestamp",
    "delivery_timestamp": "timestamp",
    "producer": "string",
    "key": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}


def ddl(columns: Sequence[str], planned: PlannedSchema | None = None) -> str:
    """The columns as Spark's DDL, with only the requested fields of ``value``."""
    shown = projection_of(list(columns), None if planned is None else planned.schema)
    types = _TYPES if shown.schema is None else {**_TYPES, VALUE: str(StructType(shown.schema.live))}
    return ", ".join(f"`{name}` {types[name]}" for name in shown.names)
