"""PostgreSQL's row changes as messages with Debezium's envelopes; pure, except for one query of the source.

The body is ``{"key": …, "value": {before, after, source, op, ts_ms, transaction}}``. The message group is the table and the
row's key, which keeps a row's changes in order; for a truncate it is the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ..capture.row_keys import key_text, lookup_keys, message_group_of, tag_of
from ..events.debezium import UNSENT
from ..events.stop_message import STOPPED
from ..events.table_types import TableTypes
from .pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    RelationColumn,
    Row,
    Truncate,
    UnchangedToast,
    Update,
)
from .positions import PositionCounter, split
from .values import TypeConversions, ValueConversion

_encode = msgspec.json.Encoder().encode


class KeyMissing(ValueError):
    """A row without its key; internal."""


class EnvelopeMessage(NamedTuple):
    """A message of the topic."""

    position: int
    body: bytes
    message_group: str
    tag: str | None
    keys: tuple[str, ...]
    op: str
    envelope: Mapping[str, Any] | None = None
    """The body's content, for a topic with a schema, where the body is empty."""
    row_key: Mapping[str, Any] | None = None
    not_sent: tuple[str, ...] = ()
    """The unchanged columns that the source did not send, None in ``envelope``."""


@dataclass(frozen=True, slots=True)
class EnvelopeTable:
    """A table in its events."""

    schema: str
    name: str
    columns: tuple[str, ...]
    conversions: tuple[ValueConversion, ...]
    key: tuple[int, ...]
    """The key's places, in the table's order: the stream lacks the index's."""
    types: str | None = None
    """The object with the columns' types, if there is one."""
    oid: int = 0

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.name}"

    def fields(self, row: Row) -> dict[str, Any]:
        return {
            name: None
            if value is None
            else conversion.unavailable
            if isinstance(value, UnchangedToast)
            else conversion.convert(value)
            for name, conversion, value in zip(self.columns, self.conversions, row, strict=True)
        }

    def unsent(self, row: Row) -> tuple[str, ...]:
        return tuple(name for name, value in zip(self.columns, row, strict=True) if value is UNCHANGED)

    def key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self.key)

    def is_whole(self, row: Row) -> bool:
        """Whether an old row has more than its key."""
        return len(row) == len(self.key) or any(value is not None for place, value in enumerate(row) if place not in self.key)

    def key_fields(self, row: Row) -> dict[str, Any]:
        """The key by columns, as JSON values. Raises `KeyMissing`."""
        fields = {}
        for place in self.key:
            value = row[place]
            if value is None or isinstance(value, UnchangedToast):
                raise KeyMissing(f"{self.qualified}: {self.columns[place]}")
            fields[self.columns[place]] = self.conversions[place].convert(value)
        return fields


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The origin in all events of a capture."""

    database: str
    name: str


Reread = Callable[[EnvelopeTable, Row, Sequence[int], int], Row | None]
"""The current values of these columns (by place) of a key's row; None when it is gone."""


class EnvelopeEncoder:
    """Turns a stream's messages, in order, into events."""

    def __init__(
        self,
        source: EventOrigin,
        conversions: TypeConversions,
        *,
        keys: Callable[[Relation], tuple[str, ...] | None],
        reread: Reread,
        now_ms: Callable[[], int],
        passed_over: Callable[[Relation], None] = lambda relation: None,
        on_table: Callable[[EnvelopeTable], None] | None = None,
        keep_types: Callable[[TableTypes], None] | None = None,
    ) -> None:
        """``keys``: the key's columns of a table; None skips its changes, and ``passed_over`` is called for each.

        ``on_table`` is called for each table before its events, for a topic with a schema, where events have envelopes instead
        of bodies. ``keep_types`` keeps a table's types before events name them.
        """
        self._keep_types = keep_types
        self._typed, self._on_table = on_table is not None, on_table or (lambda table: None)
        self._source = source
        self._conversions = conversions
        self._keys = keys
        self._reread = reread
        self._now_ms = now_ms
        self._tables: dict[int, EnvelopeTable] = {}
        self._relations: dict[int, Relation] = {}
        self._passed_over = passed_over
        self._transaction = Begin(0, 0, 0)

    def relation(self, relation: Relation) -> None:
        self._relations[relation.oid] = relation
        self._tables.pop(relation.oid, None)
        if (key := self._keys(relation)) is not None:
            table = self.table(relation.schema, relation.table, relation.columns, key, oid=relation.oid)
            self._tables[relation.oid] = table
            self._on_table(table)

    def table(
        self, schema: str, name: str, columns: Sequence[RelationColumn], key: Sequence[str], *, oid: int = 0
    ) -> EnvelopeTable:
        """A table with these columns, whose types are kept."""
        names, types = tuple(column.name for column in columns), None
        if self._keep_types is not None:
            known = {column.name: self._conversions.column_type(column.type_oid, column.modifier) for column in columns}
            self._keep_types(told := TableTypes(schema, name, known))
            types = told.name
        conversions = tuple(self._conversions.of(column.type_oid) for column in columns)
        return EnvelopeTable(schema, name, names, conversions, tuple(sorted(names.index(name) for name in key)), types, oid)

    def begin(self, begin: Begin) -> None:
        self._transaction = begin

    def events(
        self, change: Insert | Update | Delete | Truncate | LogicalMessage, lsn: int, positions: PositionCounter
    ) -> list[EnvelopeMessage]:
        """The events of one change. Skipped changes count as many positions, so that a later capture, which may take them,
        gives the others the same ones.
        """
        match change:
            case Truncate(relations):
                emptied = [(table, positions.next()) for table in map(self._taken, relations)]
                return [self.truncated(table, lsn, position) for table, position in emptied if table is not None]
            case LogicalMessage():
                return []  # addressed to nobody in particular: no table is made of it
        first = positions.next()
        second = positions.next() if isinstance(change, Update) and self._takes_two(change) else first
        if (table := self._taken(change.relation)) is None:
            return []
        try:
            match change:
                case Insert(_, row):
                    return [self._changed(table, "c", None, row, lsn, first)]
                case Update():
                    return self._update(table, change, lsn, first, second)
                case Delete(_, key, old):
                    return [self._removed(table, old or key or (), whole=old is not None, lsn=lsn, position=first)]
        except KeyMissing:  # a partition may have another identity than its table
            self._tables.pop(change.relation)
            self._taken(change.relation)
            return []

    def _taken(self, relation: int) -> EnvelopeTable | None:
        if (table := self._tables.get(relation)) is None:
            self._passed_over(self._relations[relation])
        return table

    def _takes_two(self, update: Update) -> bool:
        if update.old is not None and self._relations[update.relation].identity == "f":
            return True
        before = update.old or update.key
        columns = self._relations[update.relation].columns
        return before is not None and any(
            column.is_key and value is not UNCHANGED and value != old
            for column, value, old in zip(columns, update.row, before, strict=True)
        )

    def _update(self, table: EnvelopeTable, update: Update, lsn: int, first: int, second: int) -> list[EnvelopeMessage]:
        old, row = update.old, update.row
        before = old or update.key
        if before is not None:
            # It has what the new row leaves out: all of it, or a large key. Where a partition writes less than its table, NULL stands for it.
            known = [at in table.key or (old is not None and value is not None) for at, value in enumerate(before)]
            row = tuple(before[at] if value is UNCHANGED and known[at] else value for at, value in enumerate(row))
        # The old key comes when a column of the identity was written, even with the value it had.
        if before is None or table.key_of(before) == table.key_of(row):
            whole = None if old is None or not table.is_whole(old) else old
            return [self._changed(table, "u", whole, row, lsn, first)]
        removed = self._removed(table, before, whole=old is not None, lsn=lsn, position=first)
        return [removed, self._changed(table, "c", None, self._completed(table, row), lsn, second)]

    def _completed(self, table: EnvelopeTable, row: Row) -> Row:
        """A row with a new key, completed by reading the large values that the server did not send.

        If they are newer than the change, the stream has their own change later.
        """
        places = [place for place, value in enumerate(row) if value is UNCHANGED]
        found = self._reread(table, table.key_of(row), places, self._transaction.transaction) if places else None
        if found is None:
            return row
        values = dict(zip(places, found, strict=True))
        return tuple(values.get(place, value) for place, value in enumerate(row))

    def _changed(self, table: EnvelopeTable, op: str, old: Row | None, row: Row, lsn: int, position: int) -> EnvelopeMessage:
        before = None if old is None else table.fields(old)
        return self._event(table, op, table.key_fields(row), before, table.fields(row), lsn, position, table.unsent(row))

    def _removed(self, table: EnvelopeTable, row: Row, *, whole: bool, lsn: int, position: int) -> EnvelopeMessage:
        key = table.key_fields(row)
        return self._event(table, "d", key, table.fields(row) if whole and table.is_whole(row) else key, None, lsn, position)

    def read(self, table: EnvelopeTable, row: Row, lsn: int, position: int) -> EnvelopeMessage:
        return self._event(table, "r", table.key_fields(row), None, table.fields(row), lsn, position)

    def heartbeat(self, position: int) -> EnvelopeMessage:
        """An event without a change, as Debezium's heartbeats."""
        body = _encode({"key": {"serverName": self._source.name}, "value": {"ts_ms": self._now_ms()}})
        return EnvelopeMessage(position, body, message_group_of("heartbeat", self._source.name, None), None, (), "heartbeat")

    def stopped(self, schema: str, name: str, reason: str, position: int) -> EnvelopeMessage:
        """The event for a table that is no longer captured, a message of Debezium's form."""
        now_ms = self._now_ms()
        commit_lsn, order = split(position)
        source = {
            "connector": "postgresql",
            "name": self._source.name,
            "ts_ms": now_ms,
            "db": self._source.database,
            "sequence": f'["{commit_lsn}","{commit_lsn}"]',
            "schema": schema,
            "table": name,
            "lsn": commit_lsn,
            "txId": None,
        }
        message = {"prefix": STOPPED, "content": reason}
        transaction = {"id": f"0:{commit_lsn}", "total_order": order}
        value = {"op": "m", "source": source, "message": message, "transaction": transaction, "ts_ms": now_ms}
        return EnvelopeMessage(
            position, _encode({"key": None, "value": value}), message_group_of(schema, name, None), None, (), "m"
        )

    def truncated(self, table: EnvelopeTable, lsn: int, position: int) -> EnvelopeMessage:
        return self._event(table, "t", None, None, None, lsn, position)

    def _event(
        self,
        table: EnvelopeTable,
        op: str,
        key: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        lsn: int,
        position: int,
        not_sent: tuple[str, ...] = (),
    ) -> EnvelopeMessage:
        begin = self._transaction
        commit_lsn, order = split(position)
        now_ms = self._now_ms()
        committed_us = begin.committed_us or 1000 * now_ms
        source = {
            "connector": "postgresql",
            "name": self._source.name,
            "ts_ms": committed_us // 1000,
            "ts_us": committed_us,
            "snapshot": "false" if begin.commit_lsn else "true",
            "db": self._source.database,
            "sequence": f'["{commit_lsn}","{lsn}"]',
            "schema": table.schema,
            "table": table.name,
            "txId": begin.transaction or None,
            "lsn": lsn,
            UNSENT: not_sent,
        }
        if table.types is not None:
            source["types"] = table.types
        value = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": {"id": f"{begin.transaction}:{begin.commit_lsn}", "total_order": order},
            "op": op,
            "ts_ms": now_ms,
        }
        if self._typed:
            value["after"] = after and {name: None if name in not_sent else text for name, text in after.items()}
            body = b""
        else:
            body = _encode({"key": key, "value": value})
        key_value = None if key is None else key_text(list(key.values()))
        group, keys = message_group_of(table.schema, table.name, key_value), lookup_keys(table.name, key_value)
        return EnvelopeMessage(position, body, group, tag_of(table.name), keys, op, value if self._typed else None, key, not_sent)
