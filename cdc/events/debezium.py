"""Change events in Debezium's envelope."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ...log.errors import InvalidArgument
from ...log.format.stored_json import whole_number
from ...log.schema.fields import FieldType
from .connect import ConnectRowSchema, column_type, schema_of_envelope, schema_of_key
from .connect.schema import member
from .conversion import KEEP
from .sources import TableId, source_of

OPERATIONS = ("c", "u", "d", "r", "t", "m")
_PUTS = ("c", "u", "r")
_AVRO_ROW = ".Value"
UNSENT = "not_sent"
"""The member of ``source``, in Penstock's events, that names the columns of ``after`` with a placeholder."""
_TOTAL_ORDER_BITS = 20
_MYSQL_POSITION_BITS, _MYSQL_ROW_BITS = 32, 12


class ChangeEvent(msgspec.Struct, frozen=True, gc=False):
    """One change of one row, a truncate, or an application's message in the source's log."""

    source: TableId
    """The table. For a message, its prefix in place of a table."""
    op: str
    """c(reate), u(pdate), d(elete), r(ead by a snapshot), t(runcate) or m(essage)."""
    key: Mapping[str, Any]
    """Empty when the capture has none."""
    row: Mapping[str, Any]
    """The row after the change; before it for a delete."""
    position: int | None
    """The position in the source's log, below 2**63, never decreasing along the stream."""
    sequence: int | None = None
    """The position with the row's number in its statement: a sequence for every change."""
    before: Mapping[str, Any] | None = None
    """The row before the change, as far as logged."""
    time_us: int | None = None
    schema_of_key: ConnectRowSchema | None = None
    schema_of_row: ConnectRowSchema | None = None
    types: Mapping[str, FieldType] | None = None
    """The columns' types, by Spark's names, in a topic with a schema. Values are Python's own then."""
    modes: bool = False
    """Whether a Debezium connector wrote it, whose modes decide how types are written."""
    types_name: str | None = None
    """The name of the object with the columns' types (`table_types`)."""
    origin: str | None = None
    """The server whose log has the change: only positions of one server are comparable."""
    says_unsent: bool = False
    """Whether the event names unsent columns. They are `KEEP` in ``row``, or missing."""
    stop_reason: str | None = None
    """The reason why the table is not captured any more, in a message that says so (`stop_message`)."""

    @property
    def table(self) -> str:
        return self.source.table

    @property
    def schema(self) -> str | None:
        return self.source.schema

    @property
    def schema_types(self) -> dict[str, FieldType]:
        """The types of columns that the event's schemas name."""
        if self.types is not None:
            return dict(self.types)
        schemas = [schema for schema in (self.schema_of_row, self.schema_of_key) if schema is not None]
        return {name: column_type(field) for schema in schemas for name, field in schema.fields.items()}


_QUICK = msgspec.json.Decoder(float_hook=Decimal)
"""The decoder for standard JSON, in a third of the time."""
_DECODER = json.JSONDecoder(parse_float=Decimal)
"""The decoder that also reads NaN and half of a surrogate pair."""
_ANY_DIGITS = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
"""The decoder for integers of thousands of digits, which `int` does not read."""
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_COMMIT = re.compile(r'\["(0|[1-9][0-9]{0,18})"')
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SHALLOW = 20
_TRANSACTION = {"status", "id", "event_count", "data_collections", "ts_ms"}
"""The fields of events about a transaction's beginning and end."""


class NestedTooDeep(InvalidArgument):
    """JSON that is nested too deeply to be read."""

    outline: object = None
    """The part near the surface, with the event's table."""


def decode_event(body: bytes) -> object:
    """The JSON of a message's body, every number exact; None for an empty body. Raises `InvalidArgument`, and `NestedTooDeep`."""
    if not body:
        return None
    try:
        return _QUICK.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # read, or refused, below
    try:
        try:
            return _json(body.decode())
        except RecursionError:
            outline = _json(_near_the_surface(body.decode()))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("this is no JSON", expected="a change event", observed=repr(body[:80])) from error
    nested = NestedTooDeep("it is nested too deep to be read", expected="a change event")
    nested.outline = outline
    raise nested


def _json(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _ANY_DIGITS.decode(text)


def _near_the_surface(text: str) -> str:
    parts, begin, depth = [], 0, 0
    for token in _TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == _SHALLOW:
                parts += [text[begin : token.start()], "null"]
        elif token[0] in "]}":
            if depth == _SHALLOW:
                begin = token.end()
            depth -= 1
    return "".join([*parts, text[begin:]])


def is_control(event: object) -> bool:
    """Whether the event is about the stream: a heartbeat, the end of a transaction, a change of the source's schema."""
    outer = _unwrapped(event)[0]
    if isinstance(outer, dict) and "value" in outer and "op" not in outer:
        outer = _unwrapped(outer["value"])[0]
    if not isinstance(outer, dict) or "op" in outer:
        return False
    # A row that was taken out of its envelope may have columns of these names, too.
    ends = outer.get("status") in ("BEGIN", "END") and isinstance(outer.get("id"), str) and outer.keys() <= _TRANSACTION
    ddl = isinstance(outer.get("source"), dict) and ("ddl" in outer or "tableChanges" in outer)
    return outer.keys() == {"ts_ms"} or ends or ddl


def table_of(event: object) -> TableId | None:
    outer = _unwrapped(event)[0]
    if isinstance(outer, dict) and "value" in outer and "op" not in outer:
        outer = _unwrapped(outer["value"])[0]
    source = outer.get("source") if isinstance(outer, dict) else None
    return source_of(source) if isinstance(source, dict) else None


def parse_change(event: object) -> ChangeEvent | None:
    """Read one event: ``{"key": …, "value": envelope}`` or the envelope alone, each with or without the schema/payload wrapper.

    None for a tombstone, which adds nothing to the delete before it. Raises `InvalidArgument` for anything else.
    """
    outer, schema = _unwrapped(event)
    key: object = {}
    of_key: object = None
    if isinstance(outer, dict) and "value" in outer and "op" not in outer:
        whole = schema  # one wrapper around both
        key, of_key = _unwrapped(outer.get("key"))
        outer, schema = _unwrapped(outer["value"])
        key = key or {}
        if whole:
            schema, of_key = schema or member(whole, "value"), of_key or member(whole, "key")
    if outer is None:
        return None
    envelope = _fields(outer)
    source, op = envelope.get("source"), envelope.get("op")
    if not isinstance(source, dict) or op not in OPERATIONS:
        raise InvalidArgument(
            "this is no Debezium envelope", expected="an object with source and op", observed=f"fields {sorted(envelope)[:8]}"
        )
    if op == "m" and not source.get("table"):  # a message, of no table
        source = {**source, "table": _fields(envelope.get("message") or {}).get("prefix")}
    if (table := source_of(source)) is None:
        raise InvalidArgument("the event does not name its table", expected="source.table", observed=repr(source.get("table")))
    before, after = envelope.get("before"), envelope.get("after")
    unsent = source.get(UNSENT)
    if (name := name_in_avro(after) or name_in_avro(before)) is not None:
        raise InvalidArgument(
            "the event is in Avro's JSON encoding, which is no row: let the connector write by Kafka Connect's JsonConverter",
            expected="the row's columns as after, or before",
            observed=name,
        )
    position = position_of(source, envelope.get("transaction"))
    if after is None and op in _PUTS:
        # The row before the change is not the row now.
        raise InvalidArgument("the event does not say the row", expected=f"an object as after, op being {op}", observed="null")
    return ChangeEvent(
        source=table,
        op=op,
        key=_fields(key),
        row=with_unsent(_fields(after or before or {}), unsent),
        position=position,
        sequence=with_row(position, source.get("row")) if "file" in source else position,
        before=_fields(before) if before else None,
        time_us=time_us_of(source.get("ts_us"), source.get("ts_ms")),
        schema_of_key=schema_of_key(of_key),
        schema_of_row=schema_of_envelope(schema),
        modes=isinstance(source.get("version"), str),
        types_name=name if isinstance(name := source.get("types"), str) else None,
        origin=origin_of(source.get("server_id"), source.get("gtid")),
        says_unsent=isinstance(unsent, list),
    )


def with_unsent(row: dict[str, Any], unsent: object) -> dict[str, Any]:
    return {name: KEEP if name in unsent else value for name, value in row.items()} if isinstance(unsent, list) and unsent else row


def name_in_avro(row: object) -> str | None:
    """The type's name that Avro puts around a nullable row."""
    if not isinstance(row, dict) or len(row) != 1:
        return None
    ((name, value),) = row.items()
    return name if isinstance(value, dict) and name.endswith(_AVRO_ROW) else None


def time_us_of(us: object, ms: object) -> int | None:
    if isinstance(us, int):
        return us
    return ms * 1000 if isinstance(ms, int) else None


def origin_of(server_id: object, gtid: object) -> str | None:
    """The server, as MySQL and MariaDB name it. Events of a snapshot name none."""
    if isinstance(gtid, str) and (found := _UUID.match(gtid)):
        return found[0]
    return str(server_id) if isinstance(server_id, int) and server_id > 0 else None


def position_of(source: Mapping[str, Any], transaction: object) -> int | None:
    """One number below 2**63 that never decreases along the stream. None when it does not fit or is missing.

    - Postgres: the commit's LSN, then the event's number within its transaction (connectors write it when
      ``provide.transaction.metadata`` is on). The event's own LSN goes back and forth, as transactions run side by side.
      Room for 64 TiB of log and a million events a transaction.
    - MySQL: the binlog's number and position. The rows of one statement, and of a compressed transaction, share one. Their
      ``row`` begins at 0 in each statement, so the topic orders them.
    """
    # Connectors of MySQL and MariaDB write it too, as null.
    if source.get("sequence") is not None and isinstance(transaction, dict):
        return commit_position(source["sequence"], transaction.get("total_order"))
    return binlog_position(source.get("file"), source.get("pos"))


def commit_position(sequence: object, number: object) -> int | None:
    try:
        # Every event has one, so the usual `["<commit LSN>", "<LSN>"]` is read without a JSON parser.
        usual = _COMMIT.match(sequence) if isinstance(sequence, str) else None
        first = int(usual[1]) if usual else _first_of(sequence)
        # Log records are aligned to 8 bytes, so the low bits tell no two commits apart.
        commit, nth = first >> 3, number if number.__class__ is int else _whole(number)
        fits = commit < 1 << 63 - _TOTAL_ORDER_BITS and 0 <= nth < 1 << _TOTAL_ORDER_BITS
        return commit << _TOTAL_ORDER_BITS | nth if fits else None
    except (IndexError, TypeError, ValueError, RecursionError):
        return None


def binlog_position(file: object, pos: object) -> int | None:
    if not isinstance(file, str) or pos is None or (found := re.search(r"([0-9]{1,18})$", file)) is None:
        return None
    try:
        return _packed(
            (int(found[1]), 63 - _MYSQL_POSITION_BITS - _MYSQL_ROW_BITS), (_whole(pos), _MYSQL_POSITION_BITS), (0, _MYSQL_ROW_BITS)
        )
    except (TypeError, ValueError):
        return None


def with_row(position: int | None, row: object) -> int | None:
    row = row or 0
    if position is None or not isinstance(row, int):
        return position
    return position | row if 0 <= row < 1 << _MYSQL_ROW_BITS else None


def _first_of(sequence: object) -> int:
    """0 for null."""
    if not isinstance(sequence, str):
        raise TypeError
    first = json.loads(sequence)[0]
    return 0 if first is None else _whole(first)


def _whole(value: object) -> int:
    """A whole number from 0, also in digits. Raises `ValueError`."""
    number = whole_number(str(value)) if isinstance(value, str | Decimal) else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError
    return number


def _packed(*parts: tuple[int, int]) -> int | None:
    packed = 0
    for number, bits in parts:
        if not 0 <= number < 1 << bits:
            return None
        packed = packed << bits | number
    return packed


def _unwrapped(value: object) -> tuple[object, object]:
    """The content of Connect's wrapper, if any, and its schema."""
    if isinstance(value, dict) and len(value) == 2 and "schema" in value and "payload" in value:
        return value["payload"], value["schema"]
    return value, None


def _fields(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument("this is no Debezium envelope", expected="a JSON object", observed=type(value).__name__)
    return value
