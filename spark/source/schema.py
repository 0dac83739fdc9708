"""The columns as Spark names them. `MESSAGE_SCHEMA` is their form in Arrow, which a test compares."""

from __future__ import annotations

from collections.abc import Sequence

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


def ddl(columns: Sequence[str]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {_TYPES[name]}" for name in columns)
