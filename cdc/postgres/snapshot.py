"""The initial rows of tables, read chunk by chunk in key order.

A chunk is one batch of the topic, whole or not at all, and recorded before it is sent: after a kill the producer's last
sequence shows where to go on. Later chunks are newer, which is harmless: a snapshot's positions lie before those of the slot's
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...log.errors import InvalidArgument, LimitExceeded
from ...log.produce.producer import Producer
from ..capture.chunks import is_full, send_chunk
from ..capture.send_events import send_events
from .captured_tables import CapturedTables
from .catalog import Catalog, begin_reading
from .catalog_tables import CatalogTable, Name, TableChange, altered, change_since
from .envelopes import EnvelopeEncoder, EnvelopeMessage
from .errors import load_psycopg, translated
from .event_sender import EventSender, table_of
from .pgoutput import Begin
from .positions import after as after_position
from .positions import base_of, lsn_text
from .state import CapturedTable, Chunk
from .tables import SourceTable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed


class SnapshotReader:
    """Reads tables into the topic, from where an earlier snapshot ended."""

    def __init__(
        self,
        catalog: Catalog,
        envelopes: EnvelopeEncoder,
        producer: Producer,
        tables: CapturedTables,
        *,
        publication: str,
        reached: Callable[[str], None],
        stopped: Callable[[], bool],
        sender: EventSender,
    ) -> None:
        self._sender = sender
        self._catalog, self._envelopes = catalog, envelopes
        self._producer, self._tables, self._publication = producer, tables, publication
        self._reached, self._stopped = reached, stopped
        self.rows = 0

    def read(self, tables: Sequence[SourceTable], slot_lsn: int) -> None:
        """Send the tables' rows, at positions between the last one sent and the slot's place. Ends early where a table is no
        longer the state's.
        """
        self._envelopes.begin(Begin(0, 0, 0))
        for table in tables:
            entry = self._tables.entry(table.named)
            after: tuple[str, ...] | None = None
            chunk = self._tables.known.chunk
            if chunk is not None and chunk.oid == entry.oid:
                is_there = self._producer.last_sequence >= chunk.end
                after = chunk.last if is_there else chunk.after
                if is_there and chunk.last is None:
                    self._finished(entry)
                    continue
            for rows, made in self._chunks(table, entry, after, slot_lsn):
                if self._stopped():
                    return
                last = rows[-1] if rows else None
                self._send(made, Chunk(table.qualified, after, last, made[0].position, made[-1].position, entry.oid))
                after = last
            if self._tables.has_changed:
                return
            self._finished(entry)

    def read_grown(self, table: SourceTable, leaves: Sequence[int | None], life: CatalogTable, slot_lsn: int) -> None:
        """Send the rows of a table's new partitions, or with None, all. The topic's rows stay."""
        self._envelopes.begin(Begin(0, 0, 0))
        entry = self._tables.entry(table.named)
        now = altered(entry, life)
        for leaf in leaves:
            for _, made in self._chunks(table, now, None, slot_lsn, leaf=leaf, adds=True):
                if self._stopped():
                    return
                self._send(made, None)
            if self._tables.has_changed:
                return
        self._tables.replace(entry, now)
        self._reached("partitions done")

    def send_stopped(self, reasons: Mapping[Name, str]) -> None:
        events, position = [], max(self._producer.last_sequence, 0)
        for (schema, name), reason in reasons.items():
            position = after_position(position)
            events.append(self._envelopes.stopped(schema, name, reason, position))
        send_events(self._producer, table_of(events)).result()

    def _send(self, events: list[EnvelopeMessage], chunk: Chunk | None) -> None:
        def plan() -> None:
            if chunk is not None:
                self._tables.keep(replace(self._tables.known, chunk=chunk))

        send_chunk(self._producer, table_of(events, self._sender.typed), plan, self._reached)
        self.rows += len(events)

    def _finished(self, entry: CapturedTable) -> None:
        self._tables.replace(entry, replace(entry, is_read=True))
        self._reached("table done")

    def _chunks(
        self,
        table: SourceTable,
        entry: CapturedTable,
        after: tuple[str, ...] | None,
        slot_lsn: int,
        *,
        leaf: int | None = None,
        adds: bool = False,
    ) -> Iterator[tuple[list[tuple[str, ...]], list[EnvelopeMessage]]]:
        """The keys and events of each chunk, of the table or one partition. Nothing is read of a table that is no longer the
        state's.
        """
        position, limit = after_position(max(self._producer.last_sequence, 0)), base_of(slot_lsn)
        keys: list[tuple[str, ...]] = []
        events: list[EnvelopeMessage] = []
        size_bytes = 0
        connection = self._catalog.connect()
        with connection, translated("read the table", table.qualified):  # the connection's end rolls back
            if (source := self._begun(connection, table, entry, leaf)) is None:
                return
            columns, where = self._catalog.columns(self._publication, table)
            shape = self._envelopes.table(table.schema, table.name, columns, table.key)
            names = shape.columns
            ordered_by = [names.index(name) for name in table.key]
            if (self._tables.known.renewing or entry.is_told) and after is None and not adds:
                events, position = [self._envelopes.truncated(shape, slot_lsn, position)], after_position(position)
            last = after
            with _rows_named(table.qualified, lambda: last), connection.cursor().copy(_query(source, names, after, where)) as copy:
                for row in copy.rows():
                    if position > limit:
                        raise _no_room(slot_lsn)
                    event = self._envelopes.read(shape, row, slot_lsn, position)
                    events.append(event)
                    keys.append(last := tuple(str(row[place]) for place in ordered_by))
                    position, size_bytes = after_position(position), size_bytes + len(event.body)
                    if is_full(len(events), size_bytes):
                        yield keys, events
                        keys, events, size_bytes = [], [], 0
            connection.execute("ROLLBACK")
        if events:
            yield keys, events

    def _begun(self, connection: Connection[Any], table: SourceTable, entry: CapturedTable, leaf: int | None) -> SourceTable | None:
        """Begin to read; the table under its current name, or None if it has changed."""
        source = table
        if leaf is not None:
            names = self._catalog.names_of(leaf)
            if names is None:
                self._tables.has_changed = True
                return None
            source = replace(table, schema=names[0], name=names[1])
        found = begin_reading(connection, source.schema, source.name)
        lives = self._catalog.lives(self._publication, [entry.oid]) if found is not None else []
        is_same = bool(lives) and lives[0].key == table.key and change_since(entry, lives[0]) is TableChange.SAME
        if found is None or found[0] != (entry.oid if leaf is None else leaf) or not is_same:
            self._tables.has_changed = True
            return None
        return source


@contextmanager
def _rows_named(table: str, last: Callable[[], Sequence[str] | None]) -> Iterator[None]:
    try:
        with translated("read the table", table):
            yield
    except InvalidArgument as error:
        before = last()
        error.object = f"{table}, the row " + ("with the first key" if before is None else f"behind the key {', '.join(before)}")
        raise


def _query(table: SourceTable, columns: Sequence[str], after: Sequence[str] | None, where: str | None) -> Composed:
    sql = load_psycopg().sql
    key: Any = sql.SQL(", ").join(map(sql.Identifier, table.key))
    conditions = [sql.SQL("({})").format(sql.SQL(where))] if where is not None else []
    if after is not None:
        conditions.append(sql.SQL("({}) > ({})").format(key, sql.SQL(", ").join(map(sql.Literal, after))))
    query: Composed = sql.SQL("COPY (SELECT {} FROM {}{} WHERE {} ORDER BY {}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL("" if table.partitioned else "ONLY "),  # the stream tells the rows of tables that inherit from it as theirs
        sql.Identifier(table.schema, table.name),
        sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true"),
        key,
    )
    return query


def _no_room(slot_lsn: int) -> LimitExceeded:
    return LimitExceeded(
        "the snapshot has more rows than there are positions before the slot's place",
        operation="snapshot",
        observed=lsn_text(slot_lsn),
        hint="capture into a new topic",
    )
