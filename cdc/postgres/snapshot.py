"""The rows that tables have at the beginning, read chunk by chunk in the order of their keys.

A chunk is one batch of the topic, whole or not at all, and is recorded before it is sent. So after a kill the producer's last sequence
tells whether it is there, and reading goes on behind it or with it. Later chunks are then of a later time. That is harmless: a snapshot's
positions lie before those of all changes that the slot still tells, and every later change is among these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...log.errors import LimitExceeded
from ...log.produce.producer import Producer
from .catalog import Catalog, begin_reading
from .envelopes import Envelopes, Event
from .errors import load_psycopg, translated
from .outbox import Outbox, table_of
from .pgoutput import Begin
from .positions import after as after_position
from .positions import base_of, lsn_text
from .state import CaptureState, Chunk, StateStore
from .tables import SourceTable

if TYPE_CHECKING:
    from psycopg.sql import Composed

CHUNK_ROWS_MAX = 10_000
CHUNK_BYTES_MAX = 4 * 1024 * 1024


class Snapshot:
    """Reads tables into the topic, and goes on with what an earlier snapshot has left."""

    def __init__(
        self,
        catalog: Catalog,
        envelopes: Envelopes,
        producer: Producer,
        states: StateStore,
        *,
        publication: str,
        reached: Callable[[str], None],
        stopped: Callable[[], bool],
        outbox: Outbox,
    ) -> None:
        self._outbox = outbox
        self._catalog, self._envelopes = catalog, envelopes
        self._producer, self._states, self._publication = producer, states, publication
        self._reached, self._stopped = reached, stopped
        self.rows = 0

    def read(self, state: CaptureState, tables: Sequence[SourceTable], slot_lsn: int) -> CaptureState:
        """Send the rows of these tables, at positions between the last one sent and the slot's place. Returns the state after it.

        Ends early when it is told to stop.
        """
        self._envelopes.begin(Begin(0, 0, 0))
        for table in tables:
            after: tuple[str, ...] | None = None
            chunk = state.chunk
            if chunk is not None and chunk.table == table.qualified:
                is_there = self._producer.last_sequence >= chunk.end
                after = chunk.last if is_there else chunk.after
                if is_there and chunk.last is None:
                    state = self._finished(state, table)
                    continue
            for rows, made in self._chunks(table, after, slot_lsn, truncate=state.renewing and after is None):
                if self._stopped():
                    return state
                last = rows[-1] if rows else None
                state = self._send(state, Chunk(table.qualified, after, last, made[0].position, made[-1].position), made)
                after = last
            state = self._finished(state, table)
        return state

    def _send(self, state: CaptureState, chunk: Chunk, events: list[Event]) -> CaptureState:
        state = replace(state, chunk=chunk)
        self._states.save(state)
        self._reached("chunk planned")
        receipt = self._producer.send_batch(table_of(events, self._outbox.typed))
        self._reached("chunk sent")
        receipt.result()
        self._reached("chunk durable")
        self.rows += len(events)
        return state

    def _finished(self, state: CaptureState, table: SourceTable) -> CaptureState:
        state = replace(state, done=(*state.done, table.qualified), chunk=None)
        self._states.save(state)
        self._reached("table done")
        return state

    def _chunks(
        self, table: SourceTable, after: tuple[str, ...] | None, slot_lsn: int, *, truncate: bool
    ) -> Iterator[tuple[list[tuple[str, ...]], list[Event]]]:
        """The keys and the events of each chunk."""
        columns, where = self._catalog.columns(self._publication, table)
        shape = self._envelopes.table(table.schema, table.name, columns, table.key)
        names = shape.columns
        ordered_by = [names.index(name) for name in table.key]
        position, limit = after_position(max(self._producer.last_sequence, 0)), base_of(slot_lsn)
        events = [self._envelopes.truncated(shape, slot_lsn, position)] if truncate else []
        position = after_position(position) if events else position
        keys: list[tuple[str, ...]] = []
        size_bytes = 0
        connection = self._catalog.connect()
        with connection, translated("read the table", table.qualified):  # the connection's end rolls back
            begin_reading(connection, table.schema, table.name)
            with connection.cursor().copy(_query(table, names, after, where)) as copy:
                for row in copy.rows():
                    if position > limit:
                        raise _no_room(slot_lsn)
                    event = self._envelopes.read(shape, row, slot_lsn, position)
                    events.append(event)
                    keys.append(tuple(str(row[place]) for place in ordered_by))
                    position, size_bytes = after_position(position), size_bytes + len(event.body)
                    if len(events) >= CHUNK_ROWS_MAX or size_bytes >= CHUNK_BYTES_MAX:
                        yield keys, events
                        keys, events, size_bytes = [], [], 0
            connection.execute("ROLLBACK")
        if events:
            yield keys, events


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
