"""The rows of tables, read by the engine's own snapshot in key order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...log.errors import InvalidArgument, PenstockError
from ..capture.records import ChangeRecord, ConnectSchemas
from ..capture.resources import CaptureResources
from ..capture.rows_sender import RowsSender
from .configuration import case_sensitive
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
        state: EngineState,
        resources: CaptureResources[EngineStateStore],
        *,
        on_rows: Callable[[int], None],
    ) -> None:
        self._connector, self._name, self._server, self._clock = connector, name, server, resources.clock
        self._sender: RowsSender[EngineState] = RowsSender(state, resources, truncate=self._truncate, on_rows=on_rows)
        self._tables: dict[str, ServerTable] = {}
        self._checked: set[ConnectSchemas] = set()
        self._offset: Mapping[str, Any] = {}

    @property
    def state(self) -> EngineState:
        return self._sender.state

    def properties(self) -> Mapping[str, str]:
        """The properties of the engine's life that reads what is pending."""
        pending = self.state.pending
        self._tables = {table: self._server.table(table) for table in pending}
        queries = {listed_name(found): rows_query(found, self._sender.after(table)) for table, found in self._tables.items()}
        prefix = "snapshot.select.statement.overrides"
        return {
            "snapshot.mode": "initial_only",
            "snapshot.include.collection.list": ",".join(case_sensitive(pattern_of(table)) for table in pending),
            prefix: ",".join(queries),
            **{f"{prefix}.{table}": query for table, query in queries.items()},
        }

    def read(self, engine: EmbeddedEngine, stopped: Callable[[], bool], *, ended: Callable[[], PenstockError]) -> EngineState:
        """Send the engine's rows until all tables are done, or it is stopped."""
        sender, table = self._sender, None
        while not stopped():
            batch = engine.next(_LOOK_S)
            if batch is None:
                if engine.ended:
                    raise ended()
                continue
            self._offset = batch.offset
            for key, value, schema in zip(batch.keys, batch.values, batch.schemas, strict=True):
                record = record_of(key, value, engine.schemas, schema)
                if record is None or record.op != "r":
                    continue
                if table is not None and record.table != table:
                    sender.finish(table)
                table = record.table
                self._check_columns(table, engine.schemas[schema])
                sender.add(table, record, partial(whole_key, record.key, self._tables[table].key))
            if "snapshot" not in batch.offset:  # it ends
                break
        if not stopped():
            for rest in dict.fromkeys((*(() if table is None else (table,)), *self.state.pending)):
                sender.finish(rest)
        return self.state

    def _truncate(self, table: str) -> ChangeRecord:
        found = self._tables[table]
        return snapshot_truncate(self._connector, self._name, (found.database, found.name), self._offset, self._clock.wall_ms())

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
