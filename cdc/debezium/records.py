"""The engine's records as messages; pure.

The body is ``{"key": {schema, payload}, "value": {schema, payload}}``, with the connector's envelope. Of the schemas only the
columns' types stay: the envelope's, in each record, is far larger than a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...log.errors import DataDamaged, InvalidArgument
from ..capture.records import ChangeRecord, ConnectSchemas, RecordSource
from ..capture.row_keys import key_text, lookup_keys, message_group_of, tag_of
from ..events.stop_message import STOPPED
from .positions import sequence_of
from .statements import Name


class KeylessTable(InvalidArgument):
    """A table, the error's object, without a key."""


class _Value(msgspec.Struct, gc=False):
    source: RecordSource | None = None
    op: str | None = None
    ts_ms: int | None = None


class _Body(msgspec.Struct):
    key: msgspec.Raw
    value: dict[str, msgspec.Raw]


_BODY = msgspec.json.Decoder(_Body)
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE = msgspec.json.Decoder(_Value)
_ANY = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def schemas_of(key: str | None, value: str) -> ConnectSchemas:
    fields = _ANY.decode(value).get("fields", ())
    after = [field for field in fields if field.get("field") == "after"]
    return ConnectSchemas(b"null" if key is None else key.encode(), _encode({"type": "struct", "fields": after}))


def row_fields(schemas: ConnectSchemas) -> tuple[str, ...]:
    (after,) = _ANY.decode(schemas.value)["fields"]
    return tuple(field["field"] for field in after["fields"])


def heartbeat_ms(value: bytes) -> int | None:
    """None for any other record."""
    event = _VALUE.decode(value)
    return event.ts_ms if event.source is None and event.op is None and value.startswith(b'{"ts_ms"') else None


def record_of(key: bytes, value: bytes, schemas: Mapping[str, ConnectSchemas], schema: str) -> ChangeRecord | None:
    """The message of a record; None for records about the stream. Raises `InvalidArgument`, `DataDamaged`, `LimitExceeded`."""
    event = _VALUE.decode(value)
    op, source = event.op, event.source
    if op is None:
        return None
    if source is None or source.table is None or source.db is None or source.file is None:
        raise DataDamaged(
            "an event does not tell its place",
            operation="capture",
            expected="source.db, table, file",
            observed=value[:200].decode(),
        )
    table = f"{source.db}.{source.table}"
    if key == b"null" and op != "t":
        raise KeylessTable(
            "a captured table has no primary key, so nothing tells its rows apart",
            operation="capture",
            object=table,
            hint="give it one, leave it out (table.exclude.list), or name columns of a unique key in message.key.columns; then --snapshot again",
        )
    values = None if op == "t" else _ANY.decode(key)
    key_value = None if values is None else key_text(tuple(values.values()))
    return ChangeRecord(
        # A truncate has no rows: its number of one is that of some change before it.
        sequence_of(source.file, source.pos, 0 if op == "t" else source.row or 0, op),
        schemas[schema].body(None if values is None else key, value),
        message_group_of(source.db, source.table, key_value),
        tag_of(source.table),
        lookup_keys(source.table, key_value),
        op,
        table,
        values,
        source,
    )


def record_at(record: ChangeRecord, file: str, pos: int, row: int) -> ChangeRecord:
    """A change that counts at a later place than the log's. Raises `LimitExceeded`."""
    body = _BODY.decode(record.body)
    envelope = body.value if body.value.get("payload") is None else _ENVELOPE.decode(body.value["payload"])
    source = _ENVELOPE.decode(envelope["source"])
    source.update(file=_raw(file), pos=_raw(pos), row=_raw(row))
    envelope["source"] = _raw(source)
    if envelope is not body.value:
        body.value["payload"] = _raw(envelope)
    return record._replace(
        sequence=sequence_of(file, pos, row, record.op),
        body=_encode(body),
        source=msgspec.structs.replace(record.source, file=file, pos=pos, row=row),
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


def truncate_record(connector: str, name: str, table: Name, place: tuple[str, int, int], made_ms: int) -> ChangeRecord:
    """The message that empties a table at a place of the log: file, position and a number unique there."""
    file, pos, row = place
    record = snapshot_truncate(connector, name, table, {"file": file, "pos": pos + 1}, made_ms, snapshot="false")
    return record._replace(sequence=sequence_of(file, pos, row, "t"))


def stop_record(connector: str, name: str, table: Name, reason: str, end: tuple[str, int], now_ms: int) -> ChangeRecord:
    """The message that a table is no longer captured, without a row's change. It lies two places before the log's end: after
    the table's changes, and before a later snapshot's truncate.
    """
    database, short = table
    source_fields = {
        "connector": connector,
        "name": name,
        "ts_ms": now_ms,
        "db": database,
        "table": short,
        "snapshot": "true",
        "file": end[0],
        "pos": end[1] - 2,
    }
    value = {"op": "m", "source": source_fields, "message": {"prefix": STOPPED, "content": reason}, "ts_ms": now_ms}
    body = _encode({"key": None, "value": value})
    return ChangeRecord(0, body, message_group_of(*table, None), None, (), "m", ".".join(table), None, RecordSource(*table))


def snapshot_truncate(
    connector: str, name: str, table: Name, offset: Mapping[str, Any], now_ms: int, *, snapshot: str = "true"
) -> ChangeRecord:
    """The message that empties a table before a snapshot's rows of ``offset``, one place before them."""
    source = RecordSource(*table, str(offset["file"]), max(int(offset["pos"]) - 1, 0), 0, snapshot)
    source_fields = {"connector": connector, "name": name, "ts_ms": now_ms, **msgspec.to_builtins(source)}
    body = _encode({"key": None, "value": {"before": None, "after": None, "source": source_fields, "op": "t", "ts_ms": now_ms}})
    return ChangeRecord(0, body, message_group_of(*table, None), tag_of(table[1]), (), "t", ".".join(table), None, source)
