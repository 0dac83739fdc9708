"""The log's events besides rows, as records and tables to read: definitions, transactions of two phases, statements that change
rows.

All take effect at their places among the records. A table that gets other rows without events is truncated there, and read
before anything later is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ...log.errors import LimitExceeded, NotSupported
from ..capture.records import ChangeRecord
from .binlog_listener import BinlogEvent, BinlogListener
from .positions import between, file_number
from .prepared_transactions import PreparedTransactions
from .records import record_at, truncate_record
from .source import BinlogServer
from .state import EngineState
from .statements import BinlogStatement, Name

log = logging.getLogger("penstock.cdc")

_ROWS_A_PLACE = 4_000
"""The rows of a transaction of two phases at one place; more come at the next."""


class Effects:
    """The effects in one life of the engine."""

    def __init__(
        self,
        listener: BinlogListener,
        server: BinlogServer,
        state: EngineState,
        *,
        kind: str,
        name: str,
        there: int,
        now_ms: Callable[[], int],
    ) -> None:
        """``kind``: of the connector. ``name``: of the capture. ``there``: the last sequence in the topic."""
        self._listener, self._server, self._now_ms = listener, server, now_ms
        self._kind, self._name, self._there = kind, name, there
        self.prepared = PreparedTransactions(state.prepared)
        self._fresh = dict(state.fresh)
        self._end_at: tuple[int, int] | None = None
        self.due: dict[str, None] = {}
        """The tables to read before anything after their place is sent."""
        self.stopping: dict[str, str] = {}
        self.unknown: dict[str, str] = {}

    @property
    def ends(self) -> bool:
        """Whether the engine's life ends here."""
        return bool(self.due or self.stopping or self.unknown)

    def stop(self, table: str, reason: str) -> None:
        self.stopping[table] = reason

    @property
    def unread(self) -> tuple[int, int] | None:
        """A place before an unreadable event: nothing after it may be sent."""
        return None if self._listener.unread is None else (file_number(self._listener.unread[0]), self._listener.unread[1])

    def check(self) -> None:
        self._listener.check()

    def take_fresh_tables(self, fresh: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """The tables read, each with a place before its reading, once those due are read."""
        if not self.due:
            return fresh
        return tuple({**dict(fresh), **dict.fromkeys(self.due, between(*self._server.end(), 0))}.items())

    def set_end(self, place: tuple[int, int]) -> None:
        self._end_at = place

    def apply_before(self, records: list[ChangeRecord], *, before: tuple[int, int] = (-1, 0), made_before_ms: int = 0) -> None:
        """Apply events before a place, or before the making of a record that is out by now: all records before them are out
        then.

        It may add records, or have tables read.
        """
        events = self._listener.events
        while events and not self.ends:
            place = file_number(events[0].file), events[0].pos
            if (place >= before and events[0].at_ms >= made_before_ms) or ((unread := self.unread) is not None and place > unread):
                return
            if self._end_at is not None and place >= self._end_at:
                return
            self._apply(events.popleft(), records)

    def _apply(self, event: BinlogEvent, records: list[ChangeRecord]) -> None:
        statement = event.statement
        if statement is None:
            raise NotSupported(
                "the log has an event that cannot be read, and its changes would be lost",
                operation="capture",
                object=f"{event.file}, position {event.pos}",
                expected="events that are not compressed, of types that the connector knows",
                observed=event.type,
                hint="SET GLOBAL log_bin_compress = OFF on the server; then begin again behind it: --snapshot again",
            )
        number = between(event.file, event.pos, 0)
        self._ask_for_columns(statement, event, records)
        match statement.does:
            case "prepares":
                self.prepared.begin()
            case "prepared":
                self.prepared.prepared(statement.xid)
            case "rolls back":
                self.prepared.rolled_back(statement.xid, number)
            case "commits":
                self._commit(statement, event, records)
            case "rows":
                self._read_again(self._changed_by(statement), event, records, f"a statement changed rows of it: {statement.text}")
            case "filled":
                why = f"a statement gave rows values: {statement.text}"
                self._read_again(self._wanted(statement.tables), event, records, why, empties=False)
            case "ends":
                self._empty_gone(statement, event, records)
            case _:
                pass

    def _ask_for_columns(self, statement: BinlogStatement, event: BinlogEvent, records: list[ChangeRecord]) -> None:
        unknown = self._wanted(statement.unknown)
        if statement.makes:  # a session may have renamed a table of its own, that hides this one: nothing tells
            old = [table for table in self._wanted(statement.tables) if table not in statement.makes]
            unknown += [table for table in old if table not in unknown and self._server.has(".".join(table))]
        for table in map(".".join, unknown):
            log.warning("%s has its columns asked for and is read again, as events do not tell them: %s", table, statement.text)
            self.unknown[table] = statement.text
        if statement.does in ("redefined", "filled"):
            self._empty(unknown, event, records, 0)

    def _commit(self, statement: BinlogStatement, event: BinlogEvent, records: list[ChangeRecord]) -> None:
        found = self.prepared.committed(statement.xid, between(event.file, event.pos, 0))
        if self._there > between(event.file, event.pos + event.size_bytes, 0):
            return  # all of it is there
        if found is None:
            self._read_again(self._captured(), event, records, f"nothing tells the rows of {statement.text}")
            return
        held, tables = found
        if len(held) > _ROWS_A_PLACE * event.size_bytes:
            raise LimitExceeded(
                "a transaction of two phases has too many rows", operation="capture", object=statement.text, observed=len(held)
            )
        for count, record in enumerate(held):
            records.append(record_at(record, event.file, event.pos + count // _ROWS_A_PLACE, count % _ROWS_A_PLACE))
        if tables:
            self._read_again(map(self._server.name_of, tables), event, records, f"its rows were prepared before: {statement.text}")

    def _changed_by(self, statement: BinlogStatement) -> list[Name]:
        """The captured tables that a statement may have changed, also by triggers if these are visible."""
        captured = self._captured()
        named = [table for table in self._wanted(statement.tables) if table in captured]
        more = self._server.runs_more({name for _, name in statement.tables}) if statement.tables else True
        return captured if more or (more is None and named) else named

    def _empty_gone(self, statement: BinlogStatement, event: BinlogEvent, records: list[ChangeRecord]) -> None:
        """Empty tables that are gone or have other rows by a definition, and have these read."""
        gone = self._wanted(statement.tables)
        read = self._wanted(statement.read)
        self._read_again(read, event, records, statement.text)
        self._empty([table for table in gone if table not in read], event, records, len(read))

    def _read_again(
        self, tables: Iterable[Name], event: BinlogEvent, records: list[ChangeRecord], why: str, *, empties: bool = True
    ) -> None:
        """Empty tables at a place, and have their rows read, unless that was done after it. ``empties``: rows came or went
        without events.
        """
        tables = tuple(tables)
        if empties:
            self._empty(tables, event, records, 0)
        place = between(event.file, event.pos, 0)
        for table in map(".".join, tables):
            if table not in self.unknown and self._fresh.get(table, -1) <= place:
                log.warning("%s is read again, as events do not tell what has become of its rows: %s", table, why)
                self.due[table] = None

    def _empty(self, tables: Iterable[Name], event: BinlogEvent, records: list[ChangeRecord], first: int) -> None:
        no_tables = {table for table in event.unknown_tables if not self._server.has(".".join(table))}
        for row, table in enumerate((table for table in tables if table not in no_tables), first):
            record = truncate_record(self._kind, self._name, table, (event.file, event.pos, row), self._now_ms())
            records.append(record)

    def _wanted(self, names: Iterable[Name]) -> list[Name]:
        return [name for name in names if self._listener.is_captured(*name)]

    def _captured(self) -> list[Name]:
        return self._wanted(self._listener.captured())
