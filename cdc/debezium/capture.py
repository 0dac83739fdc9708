"""A database into a topic by Debezium's engine, exactly once: the shell around the engine's lives, the state and the topic.

The engine delivers at least once. The capture's producer sends each record under a sequence of its place in the log
(`positions`), so the topic leaves out repeated ones. Each life begins at a transaction, after durable events: the connector's
counts within one are unreliable.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from ...log.errors import InvalidArgument, NotSupported, PenstockError
from ..capture.chosen_tables import CHOICE_PROPERTIES
from ..capture.errors import SourceReplaced
from ..capture.options import SourceCaptureOptions
from ..capture.positions import rows_go_on_at
from ..capture.record_sender import table_of
from ..capture.resources import CaptureResources
from ..capture.source_capture import SourceCapture
from ..scratch import scratch_folder
from .binlog_listener import BinlogListener
from .configuration import Connector, streaming_properties, without_tables
from .effects import Effects
from .engine import EmbeddedEngine, java_ms, offsets_file
from .errors import DateUnreadable, HistoryLost, TableUnfollowed, binlog_lost, engine_error
from .follower import EngineFollower, boundary
from .history import SchemaHistory, has_known, lines_of
from .positions import FILE_BITS, POS_BITS, ROW_BITS, between, file_number
from .records import KeylessTable
from .records import stop_record as stopped_record
from .rows import RowsReader
from .source import BinlogServer
from .state import EngineState, EngineStateStore, RelearnedTable
from .statements import Name

log = logging.getLogger("penstock.cdc")

_BEGIN_LOOK_S = 0.25
_LOG_BEGINS = 4
NOT_UNDERSTOOD = "Debezium does not understand its definition"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOptions(SourceCaptureOptions):
    """A capture's options, with those of Debezium's engine."""

    kind: ClassVar[str] = "debezium"


class SchemaSnapshot(NamedTuple):
    """A connector's knowledge of tables."""

    offset: str
    """Its place in the log."""
    tables: list[str]
    known: list[Name]
    history: bytes


class EngineCapture(SourceCapture[EngineState]):
    """One database into one topic by Debezium's engine."""

    _resources: CaptureResources[EngineStateStore]
    _states: EngineStateStore

    def __init__(
        self,
        connector: Connector,
        properties: Mapping[str, str],
        options: EngineOptions,
        resources: CaptureResources[EngineStateStore],
    ) -> None:
        self._connector, self._properties = connector, dict(properties)
        self._server = BinlogServer(connector, properties)
        self._stopped: tuple[str, ...] = ()
        self._captured: list[Name] = []
        super().__init__(
            connector.name,
            self._server,
            options,
            resources,
            chosen=tuple((name, properties[name]) for name in CHOICE_PROPERTIES if name in properties),
        )

    def _run(self, stopped: Callable[[], bool]) -> None:
        self._server.check()
        state = self._prepared()
        with scratch_folder("penstock-debezium-") as folder:
            if state.offset is None:
                state = self._begin(state, Path(folder), stopped)
            while not stopped() and state.offset is not None:
                self._check_place(state)
                state = self._send_stopped(state)
                if state.unknown:
                    state = self._relearn(state, Path(folder), stopped)
                    continue
                if state.pending:
                    try:
                        state = self._read_rows(state, Path(folder), stopped)
                    except KeylessTable as error:
                        state = self._stop(self._prepared(), [str(error.object)], error)
                        continue
                if stopped():
                    return
                try:
                    state, asked = self._follow(state, Path(folder), stopped)
                except TableUnfollowed as error:
                    state, asked = self._stop(self._prepared(), self._named(state, str(error.object)), error), True
                if not asked:
                    return

    # --- Where it stands ----------------------------------------------------------------------------------------------------------

    def _new_state(self, server: str, opened: tuple[int, int], former: EngineState | None) -> EngineState:
        return EngineState(self._life, self._kind, server, opened=opened, chosen=self._chosen, renewed=former is not None)

    def _check_beginning(self) -> None:
        """Refuse a log that ends before the topic does: its changes would seem repeated."""
        last = self._producer.last_sequence
        if last < 0:
            return
        file, pos = self._server.end()
        number, there = last >> 1 + ROW_BITS + POS_BITS & (1 << FILE_BITS) - 1, last >> 1 + ROW_BITS & (1 << POS_BITS) - 1
        if (file_number(file), pos) < (number, there):
            raise SourceReplaced(
                "the server's log ends before the last change in the topic: it has begun anew, as RESET MASTER or a restored server have it",
                operation="capture",
                object=self._server.where,
                expected=f"an end behind file {number}, position {there}",
                observed=f"{file}, position {pos}",
                hint="its changes would seem to be there already: capture into a new topic",
            )

    def _check_place(self, state: EngineState) -> None:
        """Refuse a log that has lost the place to go on from."""
        self._check_beginning()
        offset = json.loads(state.offset or "{}")
        logs = self._server.logs()
        if not logs or "file" not in offset:
            return
        number = file_number(offset["file"])
        if number < file_number(logs[0][0]):
            raise binlog_lost(self._server.where, f"the log begins with {logs[0][0]}, and {offset['file']} is needed")
        if number > file_number(logs[-1][0]):
            raise SourceReplaced(
                "the server's log ends before the place to go on: it has begun anew, as RESET MASTER or a restored server have it",
                operation="capture",
                object=self._server.where,
                expected=offset["file"],
                observed=f"{logs[-1][0]} as its last file",
                hint="capture into a new topic",
            )

    # --- The engine's lives -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _life_of(
        self,
        folder: Path,
        name: str,
        history: Path,
        offset: str | None,
        more: Mapping[str, str],
        listener: BinlogListener | None = None,
        *,
        without: Iterable[str] = (),
    ) -> Iterator[EmbeddedEngine]:
        offsets = folder / f"{name}.offsets"
        offsets.unlink(missing_ok=True)
        if offset is not None:
            offsets_file(offsets, self._options.name, json.loads(offset))
        properties = streaming_properties(
            without_tables(self._properties, {*self._stopped, *self._server.sequences(), *without}),
            name=self._options.name,
            server_id=server_id_of(self._states.key, self._life, name),
            offsets=offsets,
            history=history,
            more=more,
        )
        engine = EmbeddedEngine(
            {**properties, "connector.class": self._connector.class_name}, characters_of=self._server.characters, listener=listener
        )
        try:
            engine.start()
            yield engine
        finally:
            engine.close()

    def _ended(self, engine: EmbeddedEngine, listener: BinlogListener | None = None, since: str | None = None) -> PenstockError:
        """``listener``: knows where. ``since``: the place of an earlier transaction."""
        if isinstance(engine.failure, PenstockError):
            return engine.failure
        message = engine.message or (
            str(engine.failure) if engine.failure is not None else "it completed, though nobody told it to"
        )
        error = engine_error(message, self._server.where)
        if isinstance(error, DateUnreadable) and listener is not None and listener.unread is not None:
            file, pos = listener.unread
            before, _, behind = (since or "").rpartition(":")
            named = self._server.dates_behind(file, pos, int(behind) if before == file else _LOG_BEGINS)
            error.object = named or f"{self._server.where}, {file}, behind position {pos}"
        return error

    # --- Tables that stand still --------------------------------------------------------------------------------------------------

    def _named(self, state: EngineState, table: str) -> list[str]:
        found = [".".join(name) for name in self._captured if table in (name[1], ".".join(name))]
        return found or ([table] if "." in table else [])

    def _stop(self, state: EngineState, tables: Iterable[str], error: PenstockError) -> EngineState:
        """Stop tables. The capture ends with the error where none is left, or the connector stops at them again."""
        known = {stop.table for stop in state.stopped}
        new = [table for table in tables if table not in known]
        alone = not {*map(".".join, self._captured)} - known - {*new} and not self._may_have_rows(state)
        if not new or alone:
            raise error
        return self._stopping(state, dict.fromkeys(new, error.message))

    def _stopping(self, state: EngineState, reasons: Mapping[str, str]) -> EngineState:
        state = state.with_stopped(reasons)
        self._states.save(state)
        return state

    def _send_stopped(self, state: EngineState) -> EngineState:
        """Send the stopped tables, after all their rows: later cuts leave them out."""
        self._stopped = tuple(stop.table for stop in state.stopped)
        untold = [stop for stop in state.stopped if not stop.is_told]
        for stop in state.stopped:
            log.warning("%s stands still: %s", stop.table, stop.explanation)
        if not untold:
            return state
        end = self._server.end()
        first = rows_go_on_at(self._rows_producer.last_sequence, self._producer.last_sequence)
        records = [
            stopped_record(
                self._connector.name,
                self._options.name,
                self._server.name_of(stop.table),
                stop.explanation,
                end,
                self._clock.wall_ms(),
            )
            for stop in untold
        ]
        batch = [record._replace(sequence=place) for place, record in enumerate(records, first)]
        self._rows_producer.send_batch(table_of(batch)).result()
        self._reached("stop told")
        state = replace(state, stopped=tuple(msgspec.structs.replace(stop, is_told=True) for stop in state.stopped))
        self._states.save(state)
        return state

    def _learn(self, folder: Path, stopped: Callable[[], bool]) -> SchemaSnapshot | None:
        path = folder / "beginning.history"
        path.unlink(missing_ok=True)
        listener = self._listener()
        with self._life_of(folder, "begin", path, None, {"snapshot.mode": "no_data", "max.batch.size": "1"}, listener) as engine:
            while not stopped():
                batch = engine.next(_BEGIN_LOOK_S)
                if batch is not None and "snapshot" not in batch.offset:
                    found = engine.metric(self._connector.domain, "snapshot", "CapturedTables")
                    listener.check()
                    tables = sorted(str(table) for table in found or ())
                    return SchemaSnapshot(offset_text(boundary(batch.offset)), tables, listener.captured(), path.read_bytes())
                if batch is None and engine.ended:
                    raise self._ended(engine)
        return None

    def _listener(self) -> BinlogListener:
        return BinlogListener(self._connector.domain, java_ms, lowers_names=self._server.lowers_names())

    def _begin(self, state: EngineState, folder: Path, stopped: Callable[[], bool]) -> EngineState:
        self._states.expect_history(0)
        self._stopped = ()
        learnt = self._learn(folder, stopped)
        if learnt is None:
            return state
        self._captured = learnt.known
        tables = learnt.tables
        if not tables:
            raise InvalidArgument(
                "the configuration names no table that is there",
                operation="capture",
                object=self._server.where,
                expected="a table by --table, or table.include.list and database.include.list",
                hint="names are patterns of database.table; the user sees only tables that it may SELECT",
            )
        self._reached("place known")
        self._states.add_history(0, learnt.history)
        self._reached("history durable")
        wanted = () if self._options.snapshot == "never" else tuple(tables)
        emptied = wanted if self._may_have_rows(state) else ()
        state = replace(
            state,
            offset=learnt.offset,
            history=1,
            pending=wanted,
            emptied=emptied,
            chunk=None,
            stopped=(),
        )
        known = {*map(".".join, self._captured)}
        refused = dict.fromkeys((table for table in tables if table not in known), NOT_UNDERSTOOD)
        refused |= {table: "the connector's list of queries cannot have a name with a comma" for table in tables if "," in table}
        if not known - {*refused}:
            raise NotSupported(
                "Debezium does not understand the definition of any table",
                operation="capture",
                object=", ".join(refused),
                hint="SHOW CREATE TABLE has it: change what Debezium does not know, such as columns of the type INET6",
            )
        state = state.with_stopped(refused)
        self._states.save(state)
        self._reached("begun")
        return state

    # --- Tables whose columns the log does not tell -------------------------------------------------------------------------------

    def _relearn(self, state: EngineState, folder: Path, stopped: Callable[[], bool]) -> EngineState:
        """Learn the tables' present columns, and have their rows read, as the log before is of no use."""
        learnt = self._learn(folder, stopped)
        if learnt is None:
            return state
        self._reached("columns known")
        known = {*map(".".join, learnt.known)}
        there = [table for table, _ in state.unknown if table in known]
        refused = {
            table: f"{NOT_UNDERSTOOD}: {why}" for table, why in state.unknown if table in learnt.tables and table not in known
        }
        tables = [
            RelearnedTable(table, learnt.offset, lines_of(learnt.history, self._server.name_of(table), learnt.offset))
            for table, _ in state.unknown
            if table not in refused
        ]
        gone = [table for table, _ in state.unknown if table not in known and table not in refused]
        history = self._states.history(state.history) if gone else b""
        # Rows that were read behind the statement outlast its truncate, and nothing tells what has become of them since. Views had none.
        emptied = (*there, *(table for table in gone if has_known(history, self._server.name_of(table))))
        read, before = (tuple(dict.fromkeys((*noted, *emptied))) for noted in (state.pending, state.emptied))
        state = replace(state, unknown=(), learnt=(*state.learnt, *tables), pending=read, emptied=before).with_stopped(refused)
        self._states.save(state)
        self._reached("columns noted")
        return state

    def _take_up(self, state: EngineState, offset: str, parts: int) -> EngineState:
        """Go on where the connector gets the tables' columns. The topic has all before it but for theirs. ``parts``: of
        the history.
        """
        taken = [learnt for learnt in state.learnt if learnt.offset == offset]
        self._states.add_history(parts, "".join(learnt.lines for learnt in taken).encode())
        self._reached("columns durable")
        names = [learnt.table for learnt in taken]
        # A transaction of two phases that is not ended there may have their rows, of which nothing was told.
        prepared = tuple((xid, tuple(dict.fromkeys((*tables, *names)))) for xid, tables in state.prepared)
        rest = tuple(learnt for learnt in state.learnt if learnt not in taken)
        state = replace(state, offset=offset, history=parts + 1, learnt=rest, prepared=prepared)
        self._states.save(state)
        self._reached("columns taken up")
        return state

    def _read_rows(self, state: EngineState, folder: Path, stopped: Callable[[], bool]) -> EngineState:
        reader = RowsReader(
            self._connector.name,
            self._options.name,
            self._server,
            self._without_gone(state),
            self._resources,
            on_rows=lambda count: self._add_progress(rows=count),
        )
        if reader.state.pending:
            (folder / "rows.history").unlink(missing_ok=True)
            with self._life_of(folder, "rows", folder / "rows.history", None, reader.properties()) as engine:
                reader.read(engine, stopped, ended=lambda: self._ended(engine))
        state = reader.state
        if not state.pending:
            self._reached("rows done")
        return state

    def _without_gone(self, state: EngineState) -> EngineState:
        gone = [table for table in state.pending if table not in state.emptied and not self._server.has(table)]
        return replace(state, pending=tuple(table for table in state.pending if table not in gone)) if gone else state

    def _follow(self, state: EngineState, folder: Path, stopped: Callable[[], bool]) -> tuple[EngineState, bool]:
        """The state, and whether more is to do: rows for a signal, or tables whose columns are known from a place on."""
        path = folder / "stream.history"
        path.write_bytes(self._states.history(state.history))
        if not path.stat().st_size:
            raise HistoryLost(
                "the history of the tables' columns is empty", operation="capture", object=self._states.key, hint="--snapshot again"
            )
        # Whatever was read from tables, by this process or earlier ones, is of before.
        whole_from = self._server.end()
        listener = self._listener()
        without = [learnt.table for learnt in state.learnt]
        first = min((learnt.offset for learnt in state.learnt), key=place_of, default=None)
        more = {"snapshot.mode": "no_data"}
        with self._life_of(folder, "stream", path, state.offset, more, listener, without=without) as engine:
            history = SchemaHistory(path, self._states, state.history)
            follower = EngineFollower(
                engine,
                Effects(
                    listener,
                    self._server,
                    state,
                    kind=self._connector.name,
                    name=self._options.name,
                    there=self._producer.last_sequence,
                    now_ms=self._clock.wall_ms,
                ),
                self._connector,
                history,
                self._resources,
                self._options,
                whole_from=between(*whole_from, self._resources.snapshot),
                on_progress=self._add_progress,
                where=self._server.where,
            )
            until = self._server.end() if self._options.once and first is None else None
            try:
                since = state.place
                state, asked = follower.run(
                    state,
                    stopped,
                    until=until,
                    ends_at=None if first is None else place_of(first),
                    ended=lambda: self._ended(engine, listener, self._position or since),
                )
            finally:
                if listener.listens:
                    self._captured = [*listener.captured(), *map(self._server.name_of, without)]
        if first is None or asked or stopped():
            return state, asked
        return self._take_up(state, first, history.parts), True


def server_id_of(key: str, topic: str, life: str) -> int:
    """The engine's number as a replica: the server ends a replica when another takes its number.

    ``key``: of the capture's state; ``topic``: its topic's life, as other lakes may have the same key.
    """
    return 1 << 30 | int.from_bytes(blake2b(f"{key}/{topic}/{life}".encode(), digest_size=4).digest()) & (1 << 30) - 1


def place_of(offset: str) -> tuple[str, int]:
    found = json.loads(offset)
    return found["file"], found["pos"]


def offset_text(offset: Mapping[str, Any]) -> str:
    return json.dumps(offset, separators=(",", ":"))
