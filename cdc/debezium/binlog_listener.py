"""A binlog's events besides rows, from the connector's own stream.

Debezium silently skips events without use for it. So a listener in the client that reads the log comes before Debezium's, put
there when the connector registers its metrics, before it reads. Events of rows never leave Java.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from ...log.errors import InternalError
from .errors import load_jpype
from .listeners import EventFunctions
from .statements import BinlogStatement, Name, statement_of, xid_text

ROWS = frozenset(
    {
        "TABLE_MAP",
        "WRITE_ROWS",
        "UPDATE_ROWS",
        "DELETE_ROWS",
        "EXT_WRITE_ROWS",
        "EXT_UPDATE_ROWS",
        "EXT_DELETE_ROWS",
        "TRANSACTION_PAYLOAD",
    }
)
WITHOUT_ROWS = frozenset(
    {
        "START_V3",
        "FORMAT_DESCRIPTION",
        "STOP",
        "ROTATE",
        "HEARTBEAT",
        "XID",
        "GTID",
        "ANONYMOUS_GTID",
        "PREVIOUS_GTIDS",
        "MARIADB_GTID",
        "MARIADB_GTID_LIST",
        "BINLOG_CHECKPOINT",
        "TRANSACTION_CONTEXT",
        "VIEW_CHANGE",
        "IGNORABLE",
        "ANNOTATE_ROWS",
        "ROWS_QUERY",
        "INTVAR",
        "RAND",
        "USER_VAR",
    }
)
_LOADS = frozenset({"LOAD", "NEW_LOAD", "EXEC_LOAD", "EXECUTE_LOAD_QUERY"})
"""LOAD DATA as a statement. Events before each, such as BEGIN_LOAD_QUERY, are the file."""
_FILES = frozenset({"BEGIN_LOAD_QUERY", "CREATE_FILE", "APPEND_BLOCK", "DELETE_FILE"})
_BORDERS = frozenset({"BEGIN", "COMMIT"})
_LOOK_S, _COORDINATOR_LOOKS = 0.01, 3_000
_PREPARED_XA = 64
_OF_SESSION = 4
_PARSER = "io.debezium.connector.binlog.BinlogDatabaseSchema"
"""The class that logs what its parser does not understand."""
_REFUSED = "Ignoring unparseable DDL statement"
_REGISTERED = "JMX.mbean.registered"


class BinlogEvent(NamedTuple):
    """An event of the log."""

    file: str
    pos: int
    size_bytes: int
    """The length of the event, whose positions are its own."""
    at_ms: int
    """The time: earlier records came before it."""
    statement: BinlogStatement | None
    """None: an event of an unknown type."""
    type: str
    unknown_tables: frozenset[Name] = frozenset()
    """The statement's captured tables, unknown to the connector before it."""


class BinlogListener:
    """Listens to one life of the engine. `events` has the events in the log's order, each before any later record comes out."""

    def __init__(self, domain: str, now_ms: Callable[[], int], *, lowers_names: bool) -> None:
        """``domain``: of the connector's metrics. ``now_ms``: its heartbeats' clock. ``lowers_names``: tables' names are in
        small letters.
        """
        jpype = self._jpype = load_jpype()
        self._lowers_names = lowers_names
        self._domain, self._now_ms = domain, now_ms
        self.events: deque[BinlogEvent] = deque()
        self.failure: BaseException | None = None
        self.unread: tuple[str, int] | None = None
        """The place before an unreadable event of rows, which the connector outlasts for a while."""
        self._pause = threading.Event()
        self._engine: Any = None
        self._client: Any = None
        self._schema: Any = None
        self._config: Any = None
        self._server = jpype.JClass("java.lang.management.ManagementFactory").getPlatformMBeanServer()
        self._delegate = jpype.JClass("javax.management.MBeanServerDelegate").DELEGATE_NAME
        self._registrations: Any = None
        self._logger: Any = None
        self._last: BinlogEvent | None = None
        self._silent: Any = None
        self._table_type: Any = None
        self._hidden: set[Name] = set()
        """Tables hidden from the connector, as it does not know their columns."""
        self._is_refused = False

    def attach(self, engine: Any, prefix: str) -> None:  # noqa: ANN401 - Java's
        """Listen once the connector of this ``topic.prefix`` registers its stream's metrics."""
        outer = self
        self._engine = engine  # none of the classes below may hold it: Java's collector would wait for Python's rarest one
        name = f"{self._domain}:type=connector-metrics,context=streaming,server={prefix}"
        bean = self._jpype.JClass("javax.management.ObjectName")(name)

        class Registrations:
            def handleNotification(self, notification: Any, handback: Any) -> None:  # noqa: N802, ANN401 - Java's
                if str(notification.getType()) == _REGISTERED and notification.getMBeanName().equals(bean):
                    try:
                        outer._listen()
                    except BaseException as error:  # noqa: BLE001 - Java would drop it; the capture's thread raises it
                        outer.failure = error

        self._registrations = self._jpype.JProxy("javax.management.NotificationListener", inst=Registrations())
        self._server.addNotificationListener(self._delegate, self._registrations, None, None)

        class ParserWarnings:
            def isLoggable(self, record: Any) -> bool:  # noqa: N802, ANN401 - Java's
                if str(record.getMessage()).startswith(_REFUSED):
                    outer._refused()
                return False

        self._logger = self._jpype.JClass("java.util.logging.Logger").getLogger(_PARSER)
        self._logger.setFilter(self._jpype.JProxy("java.util.logging.Filter", inst=ParserWarnings()))
        self._logger.setLevel(self._jpype.JClass("java.util.logging.Level").WARNING)

    def detach(self) -> None:
        if self._registrations is not None:
            self._server.removeNotificationListener(self._delegate, self._registrations)
            self._registrations = None
            self._logger.setLevel(self._jpype.JClass("java.util.logging.Level").OFF)
            self._logger.setFilter(None)
        self._engine = self._client = self._schema = self._config = None

    @property
    def listens(self) -> bool:
        return self._client is not None

    def check(self) -> None:
        """Raise `InternalError` where records came out of the engine without a listener."""
        if self.failure is not None or self._client is None:
            raise InternalError(
                "nothing listens to the connector's log, so what it passes over would be lost",
                operation="capture",
                expected="the client of Debezium 3.5",
                observed=repr(self.failure),
            )

    def is_captured(self, database: str, table: str) -> bool:
        table_id = self._jpype.JClass("io.debezium.relational.TableId")(database, None, table)
        return bool(self._config.getTableFilters().dataCollectionFilter().isIncluded(table_id))

    def _table(self, name: Name) -> Any:  # noqa: ANN401 - Java's
        return self._schema.tableFor(self._jpype.JClass("io.debezium.relational.TableId")(name[0], None, name[1]))

    def _key_of(self, name: Name) -> list[str]:
        table = self._table(name)
        return [] if table is None else [str(column) for column in table.primaryKeyColumnNames()]

    def _forget(self, statement: BinlogStatement) -> None:
        """Have the connector forget tables made anew, whose former columns it would keep."""
        tables = _member(self._schema, "tables")
        for table in self._schema.tableIds():
            name = str(table.catalog()), str(table.table())
            if name in statement.makes or name[0] in statement.databases:
                tables.removeTable(table)

    def _strange(self, names: Iterable[Name]) -> tuple[Name, ...]:
        """The captured tables whose columns the connector does not know."""
        return tuple(name for name in dict.fromkeys(names) if self.is_captured(*name) and self._table(name) is None)

    def captured(self) -> list[tuple[str, str]]:
        """The captured tables whose columns the connector knows."""
        tables = self._schema.tableIds()
        names = [(str(table.catalog()), str(table.table())) for table in tables]
        if self._lowers_names:  # the connector keeps a database as a statement has it
            names = [*dict.fromkeys((database.lower(), table.lower()) for database, table in names)]
        return [name for name in names if self.is_captured(*name)]

    def _listen(self) -> None:
        (task,) = _member(self._engine, "tasks")
        coordinator = self._coordinator(_member(task, "connectTask"))
        self._schema, self._config = _member(coordinator, "schema"), _member(coordinator, "connectorConfig")
        client = _member(_member(coordinator, "streamingMetrics"), "client")
        client.registerEventListener(self._listener())
        client.registerLifecycleListener(self._life())
        self._client = client  # what it calls must not hold it by itself: neither side's collector sees such a ring

    def _coordinator(self, task: Any) -> Any:  # noqa: ANN401 - Java's
        """The task's coordinator, which runs before the task has it."""
        for _ in range(_COORDINATOR_LOOKS):
            if (found := _member(task, "coordinator")) is not None:
                return found
            self._pause.wait(_LOOK_S)
        raise InternalError("the connector's task does not begin", operation="capture", object="coordinator")

    def _life(self) -> Any:  # noqa: ANN401 - Java's
        outer = self

        class ConnectionListener:
            def onEventDeserializationFailure(self, client: Any, error: Any) -> None:  # noqa: N802, ANN401 - Java's
                try:
                    if outer.unread is None:
                        outer.unread = str(client.getBinlogFilename()), int(client.getBinlogPosition())
                except BaseException as failure:  # noqa: BLE001 - the client would log it; the capture's thread raises it
                    outer.failure = failure

            def onConnect(self, client: Any) -> None:  # noqa: N802, ANN401 - Java's
                try:
                    client.registerEventListener(outer._listener_behind())
                except BaseException as failure:  # noqa: BLE001 - the client would log it; the capture's thread raises it
                    outer.failure = failure

            def onCommunicationFailure(self, client: Any, error: Any) -> None:  # noqa: N802, ANN401 - Java's
                pass

            def onDisconnect(self, client: Any) -> None:  # noqa: N802, ANN401 - Java's
                pass

        listener = self._jpype.JClass("com.github.shyiko.mysql.binlog.BinaryLogClient$LifecycleListener")
        return self._jpype.JProxy(listener, inst=ConnectionListener())

    def _listener(self) -> Any:  # noqa: ANN401 - Java's
        """A listener that enters Python only for events that matter."""
        java = EventFunctions(self._jpype)
        self._silent = java.set_of(one for one in java.types.values() if str(one.name()) in ROWS | WITHOUT_ROWS)
        # A transaction of two phases says so at its beginning, by a flag of an event that begins every transaction.
        self._table_type = java.types.TABLE_MAP
        flags = [flag for flag in range(256) if flag & _PREPARED_XA]
        taken = java.calls(self._take)
        by_type = java.guarded(java.is_one_of(self._silent), java.dropped, taken)
        begins = java.guarded(java.has_flags(flags), taken, java.dropped)
        return java.listener(java.guarded(java.is_one_of(java.set_of([java.types.MARIADB_GTID])), begins, by_type))

    def _listener_behind(self) -> Any:  # noqa: ANN401 - Java's
        java = EventFunctions(self._jpype)
        taken = java.calls(lambda event: self._read())
        return java.listener(java.guarded(java.is_one_of(java.set_of([java.types.QUERY])), taken, java.dropped))

    def _take(self, event: Any) -> None:  # noqa: ANN401 - Java's
        """Note an event before the connector reads it, in its thread."""
        try:
            header = event.getHeader()
            kind = str(header.getEventType().name())
            if kind == "TABLE_MAP":
                self._rename(event.getData())
                return
            self._last, self._is_refused = None, False
            statement = self._statement(kind, event.getData(), of_session=bool(int(header.getFlags()) & _OF_SESSION))
            if statement is not None and statement.databases:
                gone = [table for table in self.captured() if table[0] in statement.databases]
                statement = replace(statement, tables=(*statement.tables, *gone))  # it knows them no more when this takes effect
            if statement is not None and statement.does == "filled":
                statement = statement.of_key(self._key_of(statement.tables[0]))
            if statement is None or statement.does != "nothing":
                size_bytes = int(header.getEventLength())
                named = () if statement is None else (*statement.tables, *statement.makes)
                strange = frozenset(self._strange(named))
                place = str(self._client.getBinlogFilename()), int(header.getPosition())
                self._last = BinlogEvent(*place, size_bytes, self._now_ms(), statement, kind, strange)
                self.events.append(self._last)
            if statement is not None and statement.told is not None:
                _unwrapped(event.getData()).setSql(statement.told)
            if statement is not None and statement.anew:
                self._forget(statement)
        except BaseException as error:  # noqa: BLE001 - the client would log it; the capture's thread raises it
            self.failure = error

    def _hide(self, tables: Iterable[Name], made: Iterable[Name]) -> None:
        self._hidden = (self._hidden - {*made}) | {table for table in tables if self.is_captured(*table)}
        (self._silent.remove if self._hidden else self._silent.add)(self._table_type)

    def _rename(self, data: Any) -> None:  # noqa: ANN401 - Java's
        """Give the rows behind an event to a table that no connector captures."""
        data = _unwrapped(data)
        if (str(data.getDatabase()), str(data.getTable())) in self._hidden:
            data.setDatabase("mysql")
            data.setTable("penstock_hidden")

    def _refused(self) -> None:
        self._is_refused = True

    def _read(self) -> None:
        """Note the unknown tables after a read statement, in the connector's thread."""
        try:
            last, self._last = self._last, None
            if last is None or last.statement is None or last.statement.does not in ("redefined", "filled", "ends"):
                return
            known = self.captured() if self._is_refused and last.statement.does == "ends" else []
            refused = [table for table in last.statement.tables if table not in known] if self._is_refused else []
            unknown = tuple(dict.fromkeys((*last.statement.unknown, *refused, *self._strange(last.statement.makes))))
            # What is renamed may be a table of a session, that hides another one of this name.
            renamed = self._strange(last.statement.tables) if last.statement.makes else ()
            self._hide(unknown + renamed, last.statement.makes)
            if unknown == last.statement.unknown:
                return
            amended = last._replace(statement=replace(last.statement, unknown=unknown))
            try:
                if self.events[-1] is last:
                    self.events[-1] = amended
                    return
            except IndexError:
                pass
            # It was taken meanwhile; this is a matter of its own then.
            self.events.append(last._replace(statement=BinlogStatement("redefined", unknown=unknown, text=last.statement.text)))
        except BaseException as error:  # noqa: BLE001 - the client would log it; the capture's thread raises it
            self.failure = error

    def _statement(self, kind: str, data: Any, *, of_session: bool) -> BinlogStatement | None:  # noqa: ANN401 - Java's
        data = _unwrapped(data)
        if kind == "QUERY":
            sql = str(data.getSql())
            if sql in _BORDERS:
                return BinlogStatement()
            statement = statement_of(sql, str(data.getDatabase() or ""), of_session=of_session)
            return statement.lowered() if self._lowers_names else statement
        if kind == "MARIADB_GTID":
            return BinlogStatement("prepares")
        if kind == "XA_PREPARE":
            parts = bytes(data.getData())
            cut = int(data.getGtridLength())
            ends = cut + int(data.getBqualLength())
            return BinlogStatement("prepared", xid=xid_text(parts[:cut], parts[cut:ends], int(data.getFormatID())))
        if kind in _LOADS:
            return BinlogStatement("rows", text="LOAD DATA")
        if kind in _FILES or (kind == "INCIDENT" and data is not None):  # what the connector could not read, which it says itself
            return BinlogStatement()
        return None


def _unwrapped(data: Any) -> Any:  # noqa: ANN401 - Java's
    return data.getInternal() if data is not None and str(data.getClass().getSimpleName()) == "EventDataWrapper" else data


def _member(thing: Any, name: str) -> Any:  # noqa: ANN401 - Java's
    kind = thing.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if str(field.getName()) == name:
                field.setAccessible(True)
                return field.get(thing)
        kind = kind.getSuperclass()
    raise InternalError(
        "an object of Debezium is another one than was pinned", operation="capture", object=name, observed=str(thing.getClass())
    )
