"""The rows of tables, read by the engine's own snapshot in key order, and sent chunk by chunk.

A chunk is one batch of the topic, recorded before it is sent: after a kill the producer's last sequence shows where to go on.
Later chunks are newer, which is harmless: a row has the place in the log of its reading. Earlier changes are skipped when they
come again, and later ones follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...log.errors import InvalidArgument, PenstockError
from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from ..capture.chunks import is_full, send_chunk
from ..capture.outbox import table_of
from ..capture.readings import rows_go_on_at
from ..capture.records import ChangeRecord, ConnectSchemas
from ..capture.state import RowsChunk
from .configuration import as_written
from .engine import EmbeddedEngine
from .errors import ConnectorStopped
from .queries import KeyColumn, ServerTable, pattern_of, quoted_table, rows_query
from .records import record_of, row_fields, snapshot_truncate
from .source import BinlogServer
from .state import EngineState, EngineStateStore

_LOOK_S = 0.25


class RowsReader:
    """Reads a state's pending tables."""

    def __init__(
        self,
        connector: str,
        name: str,
        server: BinlogServer,
        producer: Producer,
        states: EngineStateStore,
        clock: Clock,
        *,
        followed: int,
        reached: Callable[[str], None],
    ) -> None:
        """``followed``: the changes' last sequence. If it names a place, the topic equals the source there only until rows
        come.
        """
        self._connector, self._name, self._server = connector, name, server
        self._producer, self._states, self._clock, self._reached = producer, states, clock, reached
        self._tables: dict[str, ServerTable] = {}
        self._checked: set[ConnectSchemas] = set()
        self._after: tuple[int | str, ...] | None = None
        self._going_on: str | None = None
        self._count = 0
        self._next = rows_go_on_at(producer.last_sequence, followed)

    def take_count(self) -> int:
        count, self._count = self._count, 0
        return count

    def plan(self, state: EngineState) -> tuple[EngineState, Mapping[str, str]]:
        """The state after an earlier process, and the properties of the engine's life that reads the rest."""
        chunk = state.chunk
        if chunk is not None and chunk.table in state.pending:
            behind = chunk.behind(self._producer.last_sequence)
            if behind is not None:
                self._going_on, self._after = chunk.table, behind
            elif chunk.is_there(self._producer.last_sequence) or not chunk.begins:
                # Reading begins again with the table's first row, and what is there of it goes.
                state = replace(state, emptied=tuple(dict.fromkeys((*state.emptied, chunk.table))))
        queries: dict[str, str] = {}
        for table in state.pending:
            found = self._tables[table] = self._server.table(table)
            queries[listed_name(found)] = rows_query(found, self._after if table == self._going_on else None)
        prefix = "snapshot.select.statement.overrides"
        return state, {
            "snapshot.mode": "initial_only",
            "snapshot.include.collection.list": ",".join(as_written(pattern_of(table)) for table in state.pending),
            prefix: ",".join(queries),
            **{f"{prefix}.{table}": query for table, query in queries.items()},
        }

    def read(
        self,
        state: EngineState,
        engine: EmbeddedEngine,
        stopped: Callable[[], bool],
        *,
        ended: Callable[[], PenstockError],
        on_rows: Callable[[], None],
    ) -> EngineState:
        """Send the engine's rows until all tables are done, or it is stopped."""
        rows: list[ChangeRecord] = []
        size_bytes = 0
        table: str | None = None
        offset: Mapping[str, Any] = {}
        while not stopped():
            batch = engine.next(_LOOK_S)
            if batch is None:
                if engine.ended:
                    raise ended()
                continue
            offset = batch.offset
            for key, value, schema in zip(batch.keys, batch.values, batch.schemas, strict=True):
                record = record_of(key, value, engine.schemas, schema)
                if record is None or record.op != "r":
                    continue
                if table is not None and record.table != table:
                    state = self._finished(self._send(state, table, rows, offset), table)
                    rows, size_bytes = [], 0
                table = record.table
                self._check_columns(table, engine.schemas[schema])
                rows.append(record)
                size_bytes += len(record.body)
                if is_full(len(rows), size_bytes):
                    state = self._send(state, table, rows, offset)
                    rows, size_bytes = [], 0
                    on_rows()
            if "snapshot" not in batch.offset:  # it ends
                break
        if stopped():
            return state
        if table is not None:
            state = self._finished(self._send(state, table, rows, offset), table)
        for empty in state.pending:
            state = self._finished(self._send(state, empty, [], offset), empty)
        return state

    def _check_columns(self, table: str, schemas: ConnectSchemas) -> None:
        """Refuse rows with other columns than were asked for: a new column would be NULL."""
        if schemas in self._checked or not self._tables[table].columns:
            return
        asked, told = {column.name for column in self._tables[table].columns}, set(row_fields(schemas))
        if not told <= asked:
            raise ConnectorStopped(
                "the table has changed while its rows were to be read",
                operation="capture",
                object=table,
                expected=", ".join(sorted(asked)),
                observed=", ".join(sorted(told - asked)),
            )
        self._checked.add(schemas)

    def _send(self, state: EngineState, table: str, rows: list[ChangeRecord], offset: Mapping[str, Any]) -> EngineState:
        going_on = self._going_on == table
        sent = list(rows)
        if not going_on and table in state.emptied:
            found = self._tables[table]
            sent.insert(
                0, snapshot_truncate(self._connector, self._name, (found.database, found.name), offset, self._clock.wall_ms())
            )
        if not sent:
            return state
        after = self._after if going_on else None
        last = whole_key(rows[-1].key, self._tables[table].key) if rows else None
        numbered = [record._replace(sequence=place) for place, record in enumerate(sent, self._next)]
        self._next += len(numbered)
        state = replace(state, chunk=RowsChunk(table, not going_on, after, last, self._next - 1))
        send_chunk(self._producer, table_of(numbered), lambda: self._states.save(state), self._reached)
        self._count += len(rows)
        self._going_on, self._after = table, last
        return state

    def _finished(self, state: EngineState, table: str) -> EngineState:
        state = state.without_pending(table)
        self._states.save(state)
        self._going_on = self._after = None
        self._reached("table done")
        return state


def listed_name(table: ServerTable) -> str:
    """Raises `InvalidArgument`."""
    name = quoted_table(table)
    if "," in name:
        raise InvalidArgument(
            "the rows of a table with a comma in its name cannot be read, as the connector's list of queries has commas between names",
            operation="capture",
            object=name,
            hint=f"rename it, or leave it out: --set 'table.exclude.list={pattern_of(f'{table.database}.{table.name}')}'",
        )
    return name


def whole_key(key: Mapping[str, Any] | None, columns: Sequence[KeyColumn]) -> tuple[int, ...] | None:
    """A row's primary key, where reading can go on after it. An event's own key (``message.key.columns``) may have no order."""
    if not columns or key is None or key.keys() != {column.name for column in columns}:
        return None
    values = tuple(key[column.name] for column in columns)
    return values if all(column.resumable for column in columns) and all(isinstance(value, int) for value in values) else None
