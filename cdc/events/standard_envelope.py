"""The usual envelope, read by its types: ``{"key": {…}, "value": {"op", "source", "before", "after", "transaction"}}``, a change of one
row.

This takes a third of the time, also with Kafka Connect's schema part, which is looked up by its bytes. Everything else is left to
`debezium.decode_event` and `debezium.parse_change`, with which every change read here agrees.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ...log.errors import InvalidArgument
from .connect import ConnectRowSchema
from .connect.schema import read_schema_of_envelope, read_schema_of_key, read_schemas
from .debezium import ChangeEvent, binlog_position, commit_position, name_in_avro, origin_of, time_us_of, with_row, with_unsent
from .sources import source_of_names

T = TypeVar("T")


class _Source(msgspec.Struct, gc=False):
    table: str
    schema: str | None = None
    db: str | None = None
    keyspace: UnsetType = UNSET
    """Vitess's and Spanner's are left to the general way."""
    database_id: UnsetType = UNSET
    name: str | None = None
    version: Any = None
    sequence: str | None = None
    file: str | UnsetType = UNSET
    pos: Any = None
    row: Any = None
    ts_us: Any = None
    ts_ms: Any = None
    types: Any = None
    server_id: Any = None
    gtid: Any = None
    not_sent: Any = None


class _Transaction(msgspec.Struct, gc=False):
    total_order: Any


class _Envelope(msgspec.Struct, gc=False):
    op: Literal["c", "u", "d", "r"]
    source: _Source
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    transaction: _Transaction | None = None


class _Event(msgspec.Struct, gc=False):
    value: _Envelope
    key: dict[str, Any] | None = None
    op: UnsetType = UNSET


class _Wrapped(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: T


class _Pair(msgspec.Struct):
    value: _Wrapped[_Envelope]
    key: msgspec.Raw | UnsetType = UNSET
    op: UnsetType = UNSET


class _Read(msgspec.Struct):
    envelope: _Envelope
    key: dict[str, Any]
    schema_of_key: ConnectRowSchema | None = None
    schema_of_row: ConnectRowSchema | None = None


_EVENT = msgspec.json.Decoder(_Event, float_hook=Decimal)
_PAIR = msgspec.json.Decoder(_Pair, float_hook=Decimal)
_ALONE = msgspec.json.Decoder(_Wrapped[_Envelope], float_hook=Decimal)
_BOTH = msgspec.json.Decoder(_Wrapped[_Event], float_hook=Decimal)
_KEY = msgspec.json.Decoder(dict[str, Any] | None, float_hook=Decimal)
_WRAPPED_KEY = msgspec.json.Decoder(_Wrapped[dict[str, Any] | None], float_hook=Decimal)
_CONNECT = {"schema", "payload"}
_NEAR = 64


def standard_change(body: bytes) -> ChangeEvent | None:
    """None for other bodies."""
    schema = body.find(b'"schema"', 0, _NEAR)
    if schema >= 0:
        read = _read(body, schema)
        return None if read is None else _change(read.envelope, read.key, read.schema_of_key, read.schema_of_row)
    try:
        event = _EVENT.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # left to the general way
    return _change(event.value, event.key or {}, None, None)


def read_key(data: bytes) -> tuple[dict[str, Any], ConnectRowSchema | None]:
    """The columns of a key by itself, with Connect's schema or without; none of what is no key's JSON."""
    try:
        return _key(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidArgument):
        return {}, None


def _change(
    envelope: _Envelope, key: dict[str, Any], schema_of_key: ConnectRowSchema | None, schema_of_row: ConnectRowSchema | None
) -> ChangeEvent | None:
    """The change; None for what is left to the general way. Calls are made for the members that there are: every event comes here."""
    source, op, before, after = envelope.source, envelope.op, envelope.before or None, envelope.after
    table = source_of_names(source.table, source.schema, source.db, source.name)
    row = after or before or {}
    if (
        table is None
        or (after is None and op != "d")
        or (len(row) == 1 and name_in_avro(row) is not None)
        or (len(key) == len(_CONNECT) and key.keys() == _CONNECT)
    ):
        return None
    position, unsent, types = None, source.not_sent, source.types
    if source.sequence is not None and envelope.transaction is not None:
        position = commit_position(source.sequence, envelope.transaction.total_order)
    elif source.file is not UNSET:
        position = binlog_position(source.file, source.pos)
    return ChangeEvent(
        table,
        op,
        key,
        row if unsent is None else with_unsent(row, unsent),
        position,
        position if source.file is UNSET else with_row(position, source.row),
        before,
        time_us_of(source.ts_us, source.ts_ms),
        schema_of_key,
        schema_of_row,
        None,
        source.version.__class__ is str,
        types if types.__class__ is str else None,
        None if source.server_id is None and source.gtid is None else origin_of(source.server_id, source.gtid),
        unsent.__class__ is list,
    )


def _read(body: bytes, schema: int) -> _Read | None:
    for read in (_alone, _both) if body[:schema].strip() == b"{" else (_pair, _plain):
        try:
            return read(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidArgument):
            pass  # left to the next, or to the general way
    return None


def _plain(body: bytes) -> _Read:
    event = _EVENT.decode(body)
    return _Read(event.value, event.key or {})


def _pair(body: bytes) -> _Read:
    event = _PAIR.decode(body)
    key, schema = _key(b"null" if event.key is UNSET else bytes(event.key))
    return _Read(event.value.payload, key, schema, read_schema_of_envelope(bytes(event.value.schema)))


def _key(data: bytes) -> tuple[dict[str, Any], ConnectRowSchema | None]:
    if b'"payload"' not in data:
        return _KEY.decode(data) or {}, None
    wrapped = _WRAPPED_KEY.decode(data)
    return wrapped.payload or {}, read_schema_of_key(bytes(wrapped.schema))


def _alone(body: bytes) -> _Read:
    wrapped = _ALONE.decode(body)
    return _Read(wrapped.payload, {}, None, read_schema_of_envelope(bytes(wrapped.schema)))


def _both(body: bytes) -> _Read:
    wrapped = _BOTH.decode(body)
    key, row = read_schemas(bytes(wrapped.schema))
    return _Read(wrapped.payload.value, wrapped.payload.key or {}, key, row)
