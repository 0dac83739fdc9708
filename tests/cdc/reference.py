"""What a sync has to do, event by event and as simply as can be: the judge of those that do it fast.

Shares with them only how an event tells its position. Values are Python's: int, float, Decimal, str, bytes, bool, date, datetime in UTC.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from penstock.cdc.events.debezium import position_of

MARKER = "__debezium_unavailable_value"
MARKER_OF_BYTES = base64.b64encode(MARKER.encode()).decode()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL_EPOCH = EPOCH.replace(tzinfo=None)

Table: TypeAlias = tuple[str | None, str]
"""Schema (or database) and name."""
Key: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """One message of the topic."""

    queue: int
    offset: int
    body: bytes


@dataclass
class Row:
    values: Values
    position: int | None
    queue: int
    batch: int


@dataclass
class TableState:
    rows: dict[Key, Row] = field(default_factory=dict)
    truncated: int | None = None
    """The highest position of a truncate."""
    removed: dict[Key, int | None] = field(default_factory=dict)
    """Positions of what this batch removed."""
    stopped: tuple[int, int] | None = None
    """Queue and offset of the event that cannot be applied."""


class CannotBeApplied(Exception):
    """This event, to its table."""


class Reference:
    """The targets as they have to be after each batch. Inside a batch the queues, each in its order, are merged by position."""

    def __init__(
        self,
        declared: Mapping[str, Mapping[str, str]] | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        by_position: bool = True,
    ) -> None:
        self.declared, self.keys, self.by_position = declared or {}, keys or {}, by_position
        self.tables: dict[Table, TableState] = {}
        self.batch = 0

    def apply(self, batch: Iterable[Message]) -> None:
        """Take one batch."""
        self.batch += 1
        for state in self.tables.values():
            state.removed.clear()
        for message in merged(batch):
            self._take(message)

    def rows(self) -> dict[Table, dict[Key, Values]]:
        """Every table by key. A column that was never said is not there, and is NULL."""
        return {table: {key: row.values for key, row in state.rows.items()} for table, state in self.tables.items()}

    def _take(self, message: Message) -> None:
        event = json.loads(message.body, parse_float=Decimal)
        event, _ = unwrapped(event)
        key, key_schema, value, schema = None, None, event, None
        if "value" in event and "op" not in event:
            key, key_schema = unwrapped(event.get("key"))
            value, schema = unwrapped(event["value"])
        if value is None or "source" not in value or "ddl" in value or value.get("op") == "m":
            return  # a tombstone, a heartbeat, the end of a transaction, a change of a schema, a message
        source = value["source"]
        table = (source.get("schema") or source.get("db"), source["table"])
        state = self.tables.setdefault(table, TableState())
        if state.stopped is None:
            position = position_of(source, value.get("transaction")) if self.by_position else None
            try:
                self._change(table, state, message, value, position, (key, key_schema), schema)
            except CannotBeApplied:
                state.stopped = message.queue, message.offset

    def _change(
        self,
        table: Table,
        state: TableState,
        message: Message,
        event: dict[str, Any],
        position: int | None,
        told_key: tuple[Any, Any],
        schema: Any,
    ) -> None:
        older = below(position, state.truncated)
        if event.get("op") == "t":
            if not older:
                self._truncate(state, message, position)
            return
        declared = self.declared.get(table[1], {})
        unsent = event["source"].get("not_sent")
        before = decoded(event.get("before"), member(schema, "before"), declared, None if unsent is None else [])
        after = decoded(event.get("after"), member(schema, "after"), declared, unsent)
        key_values = decoded(told_key[0], told_key[1], declared, unsent)
        names = tuple(key_values or self.keys.get(table[1], ()))
        if not names:
            raise CannotBeApplied("no key")
        match event.get("op"):
            case "d":
                self._remove(state, tuple((key_values or before or {})[name] for name in names), position)
            case "c" | "r" | "u" if after is not None:
                key = tuple(after[name] for name in names)
                old = None
                if before is not None and all(name in before for name in names):
                    old_key = tuple(before[name] for name in names)
                    if old_key != key:
                        old = self._remove(state, old_key, position)
                if older:  # the truncate has removed this row too, though nobody may know its position
                    self._remove(state, key, position)
                else:
                    self._put(state, key, after, old, Row({}, position, message.queue, self.batch))
            case _:
                raise CannotBeApplied("unknown op")

    @staticmethod
    def _put(state: TableState, key: Key, after: Values, old: Row | None, new: Row) -> None:
        there = state.rows.get(key)
        if below(new.position, there.position if there else state.removed.get(key)):
            return
        state.removed.pop(key, None)
        known = old or there
        new.values = {
            **(known.values if known else {}),
            **{name: value for name, value in after.items() if value is not UNAVAILABLE},
        }
        state.rows[key] = new

    @staticmethod
    def _remove(state: TableState, key: Key, position: int | None) -> Row | None:
        """The row that went."""
        there = state.rows.get(key)
        if below(position, there.position if there else state.removed.get(key)):
            return None
        state.rows.pop(key, None)
        state.removed[key] = position
        return there

    def _truncate(self, state: TableState, message: Message, position: int | None) -> None:
        for key, row in list(state.rows.items()):
            if row.position is not None and position is not None:
                goes = row.position < position
            else:
                goes = row.batch < self.batch or row.queue == message.queue
            if goes:
                del state.rows[key]
        if position is not None:
            state.truncated = max(position, state.truncated or 0)


class StoredEvent(Protocol):
    """An event as it stands in a topic."""

    @property
    def queue(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def body(self) -> bytes: ...


def rows_of(events: Iterable[StoredEvent], *, batches: int) -> dict[Table, dict[Key, Values]]:
    """The tables that a topic's events make when each queue is taken in so many batches. None may stop."""
    reference = Reference()
    queues: dict[int, list[StoredEvent]] = {}
    for event in events:
        queues.setdefault(event.queue, []).append(event)
    for batch in range(batches):
        reference.apply(
            Message(queue, event.offset, event.body)
            for queue, those in queues.items()
            for event in those[len(those) * batch // batches : len(those) * (batch + 1) // batches]
        )
    assert not [table for table, state in reference.tables.items() if state.stopped]
    return reference.rows()


def merged(batch: Iterable[Message]) -> Iterator[Message]:
    """The next is of the queue whose first has the lowest position; what has none holds up nobody."""
    queues: dict[int, list[tuple[int, Message]]] = {}
    for message in sorted(batch, key=lambda message: (message.queue, message.offset)):
        value, _ = unwrapped(unwrapped(json.loads(message.body))[0].get("value"))
        position = position_of(value["source"], value.get("transaction")) if value and "source" in value else None
        queues.setdefault(message.queue, []).append((-1 if position is None else position, message))
    while queues:
        queue = min(queues, key=lambda queue: (queues[queue][0][0], queue))
        yield queues[queue].pop(0)[1]
        if not queues[queue]:
            del queues[queue]


def below(position: int | None, other: int | None) -> bool:
    """Whether an event is older than what it meets; not when either is unknown."""
    return position is not None and other is not None and position < other


def unwrapped(value: Any) -> tuple[Any, Any]:
    """Payload and schema."""
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"], value["schema"]
    return value, None


def member(schema: Any, name: str) -> Any:
    """The schema of a struct's field."""
    return next((part for part in (schema or {}).get("fields", ()) if part.get("field") == name), None)


class _Unavailable:
    """Debezium did not know the value, which had not changed."""


UNAVAILABLE = _Unavailable()


def decoded(row: Any, schema: Any, declared: Mapping[str, str], unsent: list[str] | None) -> Values | None:
    """The values of a row, by declared types, else by its schema, else by what JSON says. ``unsent``: the columns that are named as not sent."""
    if row is None:
        return None
    return {
        name: UNAVAILABLE
        if unsent and name in unsent
        else value_of(value, member(schema, name), declared.get(name), unsent is None)
        for name, value in row.items()
    }


def value_of(value: Any, schema: Any, declared: str | None, marked: bool) -> Any:
    """One value. ``marked``: a marker stands for a value that was not sent."""
    binary = declared == "binary" or (declared is None and (schema or {}).get("type") == "bytes" and not schema.get("name"))
    if marked and (value == MARKER or (binary and value == MARKER_OF_BYTES)):
        return UNAVAILABLE
    if marked and value in ([MARKER], {MARKER: MARKER}):
        return UNAVAILABLE
    if value is None:
        return None
    try:
        if schema:
            value = value_by_schema(value, schema)
        elif isinstance(value, Decimal) and not declared:  # a number with a fraction, in JSON
            value = float(value)
        return value_as_declared(value, declared) if declared else value
    except (ValueError, ArithmeticError) as error:
        raise CannotBeApplied(str(error)) from error


def value_by_schema(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value as Connect's JSON converter writes it."""
    match schema.get("name") or schema["type"]:
        case "org.apache.kafka.connect.data.Decimal":
            unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
            return exact(unscaled, int(schema["parameters"]["scale"]))
        case "io.debezium.data.VariableScaleDecimal":
            return exact(int.from_bytes(base64.b64decode(value["value"]), "big", signed=True), value["scale"])
        case "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp":
            return LOCAL_EPOCH + timedelta(milliseconds=value)
        case "io.debezium.time.MicroTimestamp":
            return LOCAL_EPOCH + timedelta(microseconds=value)
        case "io.debezium.time.ZonedTimestamp":
            return instant(value)
        case "array":
            return [None if one is None else value_by_schema(one, schema["items"]) for one in value]
        case "bytes":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value)
        case _:
            return value


def value_as_declared(value: Any, declared: str) -> Any:
    """A value, often text, as the type that the user declared."""
    if declared.startswith("array<"):
        element = declared.removeprefix("array<").removesuffix(">")
        return [None if one is None else value_as_declared(one, element) for one in value]
    match declared.partition("(")[0]:
        case "decimal":
            precision, scale = map(int, declared[len("decimal(") : -1].split(","))
            _, digits, exponent = Decimal(value).as_tuple()
            assert isinstance(exponent, int)
            unscaled = int("".join(map(str, digits))) * (10 ** max(0, exponent + scale))
            if exponent + scale < 0:
                unscaled, lost = divmod(unscaled, 10 ** -(exponent + scale))
                if lost:
                    raise CannotBeApplied("it would be rounded")
            if unscaled >= 10**precision:
                raise CannotBeApplied("too many digits")
            return Decimal(value)
        case "binary":
            return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
        case "timestamp":
            return instant(value.isoformat() if isinstance(value, datetime) else value)
        case "timestamp_ntz":
            return value if isinstance(value, datetime) else datetime.fromisoformat(value)
        case "date":
            return value if isinstance(value, date) else date.fromisoformat(value)
        case "bigint":
            return int(value)
        case _:
            return value


def exact(unscaled: int, scale: int) -> Decimal:
    """Without the context's precision, which would round."""
    sign, digits = (1 if unscaled < 0 else 0), tuple(map(int, str(abs(unscaled))))
    return Decimal((sign, digits, -scale))


def instant(text: str) -> datetime:
    """An instant in UTC; text without a zone is in UTC."""
    read = datetime.fromisoformat(text)
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
