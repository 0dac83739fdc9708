"""What a binlog tells besides rows, heard in the connector's own stream before the connector handles it.

Debezium passes over events that it has no use for, and says so nowhere. So a listener of ours stands before its own in the client that reads the
log. It is put there when the connector registers its metrics, in the connector's thread: that is before it reads. Events of rows never leave
Java for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ...log.errors import InternalError
from .errors import load_jpype
from .statements import Statement, statement_of, xid_text

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
"""Events that the connector makes rows of."""
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
"""Events that say nothing of rows by themselves."""
_LOADS = frozenset({"LOAD", "NEW_LOAD", "EXEC_LOAD", "EXECUTE_LOAD_QUERY"})
"""LOAD DATA as a statement. What comes before each, such as BEGIN_LOAD_QUERY, is the file."""
_FILES = frozenset({"BEGIN_LOAD_QUERY", "CREATE_FILE", "APPEND_BLOCK", "DELETE_FILE"})
_BORDERS = frozenset({"BEGIN", "COMMIT"})
_LOOK_S, _COORDINATOR_LOOKS = 0.01, 3_000
_PREPARED_XA = 64
_PARSER = "io.debezium.connector.binlog.BinlogDatabaseSchema"
"""The class whose log says what its parser does not understand."""
_REFUSED = "Ignoring unparseable DDL statement"
_REGISTERED = "JMX.mbean.registered"


class Heard(NamedTuple):
    """Something that the log says at a place."""

    file: str
    pos: int
    size_bytes: int
    """The length of the event: so many positions are its own."""
    at_ms: int
    """When it was heard: records that were there before came before it."""
    statement: Statement | None
    """None: an event of a type that nobody understands."""
    type: str


class Ear:
    """Listens to one life of the engine. What it hears lies in `heard`, in the order of the log, before any record behind it comes out."""

    def __init__(self, domain: str, now_ms: Callable[[], int]) -> None:
        """``domain``: of the connector's metrics."""
        jpype = self._jpype = load_jpype()
        self._domain, self._now_ms = domain, now_ms
        self.heard: deque[Heard] = deque()
        self.failure: BaseException | None = None
        self.unread: tuple[str, int] | None = None
        """A place in the log: the next event of rows behind it could not be read. The connector goes on for a while nevertheless."""
        self._pause = threading.Event()
        self._client: Any = None
        self._schema: Any = None
        self._config: Any = None
        self._server = jpype.JClass("java.lang.management.ManagementFactory").getPlatformMBeanServer()
        self._delegate = jpype.JClass("javax.management.MBeanServerDelegate").DELEGATE_NAME
        self._registrations: Any = None
        self._logger: Any = None
        self._last: Heard | None = None
        """The statement that the connector reads now, or read last."""

    def attach(self, engine: Any, prefix: str) -> None:  # noqa: ANN401 - Java's
        """Have the ear listen as soon as the engine's connector, of this ``topic.prefix``, registers what it tells of its stream."""
        outer = self
        name = f"{self._domain}:type=connector-metrics,context=streaming,server={prefix}"
        bean = self._jpype.JClass("javax.management.ObjectName")(name)

        class Registrations:
            def handleNotification(self, notification: Any, handback: Any) -> None:  # noqa: N802, ANN401 - Java's
                if str(notification.getType()) == _REGISTERED and notification.getMBeanName().equals(bean):
                    try:
                        outer._listen(engine)
                    except BaseException as error:  # noqa: BLE001 - Java would drop it; the capture's thread raises it
                        outer.failure = error

        self._registrations = self._jpype.JProxy("javax.management.NotificationListener", inst=Registrations())
        self._server.addNotificationListener(self._delegate, self._registrations, None, None)

        class Refusals:
            def isLoggable(self, record: Any) -> bool:  # noqa: N802, ANN401 - Java's
                if str(record.getMessage()).startswith(_REFUSED):
                    outer._refused()
                return False

        self._logger = self._jpype.JClass("java.util.logging.Logger").getLogger(_PARSER)
        self._logger.setFilter(self._jpype.JProxy("java.util.logging.Filter", inst=Refusals()))
        self._logger.setLevel(self._jpype.JClass("java.util.logging.Level").WARNING)

    def detach(self) -> None:
        """Hear no more."""
        if self._registrations is not None:
            self._server.removeNotificationListener(self._delegate, self._registrations)
            self._registrations = None
            self._logger.setLevel(self._jpype.JClass("java.util.logging.Level").OFF)
            self._logger.setFilter(None)
        self._client = self._schema = self._config = None

    @property
    def listens(self) -> bool:
        """Whether it hears what the log tells."""
        return self._client is not None

    def check(self) -> None:
        """Raise `InternalError` where records came out of the engine that nobody listened to."""
        if self.failure is not None or self._client is None:
            raise InternalError(
                "nothing listens to the connector's log, so what it passes over would be lost",
                operation="capture",
                expected="the client of Debezium 3.5",
                observed=repr(self.failure),
            )

    def is_captured(self, database: str, table: str) -> bool:
        """Whether the connector is told to capture a table of this name."""
        table_id = self._jpype.JClass("io.debezium.relational.TableId")(database, None, table)
        return bool(self._config.getTableFilters().dataCollectionFilter().isIncluded(table_id))

    def captured(self) -> list[tuple[str, str]]:
        """The captured tables whose columns the connector knows, as databases and names."""
        tables = self._schema.tableIds()
        names = [(str(table.catalog()), str(table.table())) for table in tables]
        return [name for name in names if self.is_captured(*name)]

    def _listen(self, engine: Any) -> None:  # noqa: ANN401 - Java's
        (task,) = _member(engine, "tasks")
        coordinator = self._coordinator(_member(task, "connectTask"))
        self._schema, self._config = _member(coordinator, "schema"), _member(coordinator, "connectorConfig")
        client = _member(_member(coordinator, "streamingMetrics"), "client")
        client.registerEventListener(self._listener(client))
        client.registerLifecycleListener(self._failures())
        self._client = client

    def _coordinator(self, task: Any) -> Any:  # noqa: ANN401 - Java's
        """The task's coordinator, which runs before the task has noted it."""
        for _ in range(_COORDINATOR_LOOKS):
            if (found := _member(task, "coordinator")) is not None:
                return found
            self._pause.wait(_LOOK_S)
        raise InternalError("the connector's task does not begin", operation="capture", object="coordinator")

    def _failures(self) -> Any:  # noqa: ANN401 - Java's
        outer = self

        class Failures:
            def onEventDeserializationFailure(self, client: Any, error: Any) -> None:  # noqa: N802, ANN401 - Java's
                try:
                    if outer.unread is None:
                        outer.unread = str(client.getBinlogFilename()), int(client.getBinlogPosition())
                except BaseException as failure:  # noqa: BLE001 - the client would log it; the capture's thread raises it
                    outer.failure = failure

            def onConnect(self, client: Any) -> None:  # noqa: N802, ANN401 - Java's
                pass

            def onCommunicationFailure(self, client: Any, error: Any) -> None:  # noqa: N802, ANN401 - Java's
                pass

            def onDisconnect(self, client: Any) -> None:  # noqa: N802, ANN401 - Java's
                pass

        listener = self._jpype.JClass("com.github.shyiko.mysql.binlog.BinaryLogClient$LifecycleListener")
        return self._jpype.JProxy(listener, inst=Failures())

    def _listener(self, client: Any) -> Any:  # noqa: ANN401 - Java's
        """A listener that calls into Python for those events only that say something: Java tells them apart by itself."""
        jpype, outer = self._jpype, self
        handles = jpype.JClass("java.lang.invoke.MethodHandles")
        lookup = handles.publicLookup()
        types = jpype.JClass("java.lang.invoke.MethodType")
        event = jpype.JClass("com.github.shyiko.mysql.binlog.event.Event")
        header = jpype.JClass("com.github.shyiko.mysql.binlog.event.EventHeader")
        event_type = jpype.JClass("com.github.shyiko.mysql.binlog.event.EventType")
        listener = jpype.JClass("com.github.shyiko.mysql.binlog.BinaryLogClient$EventListener")
        any_object, nothing = jpype.JClass("java.lang.Object"), jpype.JClass("java.lang.Void").TYPE

        class Python:
            def onEvent(self, event: Any) -> None:  # noqa: N802, ANN401 - Java's
                outer._take(client, event)

        silent = jpype.JClass("java.util.HashSet")()
        for one in event_type.values():
            if str(one.name()) in ROWS | WITHOUT_ROWS:
                silent.add(one)
        type_of = handles.filterReturnValue(
            lookup.findVirtual(event, "getHeader", types.methodType(header)),
            lookup.findVirtual(header, "getEventType", types.methodType(event_type)),
        )
        truth = jpype.JClass("java.lang.Boolean").TYPE
        is_silent = lookup.findVirtual(jpype.JClass("java.util.Set"), "contains", types.methodType(truth, any_object)).bindTo(
            silent
        )
        is_silent = is_silent.asType(types.methodType(truth, event_type))
        python = jpype.JProxy(listener, inst=Python())
        taken = lookup.findVirtual(listener, "onEvent", types.methodType(nothing, event)).bindTo(python)
        dropped = handles.empty(types.methodType(nothing, event))
        by_type = handles.guardWithTest(handles.filterReturnValue(type_of, is_silent), dropped, taken)
        # A transaction of two phases says so at its beginning, by a flag of an event that begins every transaction.
        gtid = jpype.JClass("com.github.shyiko.mysql.binlog.event.MariadbGtidEventData")
        flags = jpype.JClass("java.util.HashSet")()
        for flag in range(256):
            if flag & _PREPARED_XA:
                flags.add(jpype.JClass("java.lang.Integer").valueOf(flag))
        int_type = jpype.JClass("java.lang.Integer").TYPE
        data_of = lookup.findVirtual(
            event, "getData", types.methodType(jpype.JClass("com.github.shyiko.mysql.binlog.event.EventData"))
        )
        flags_of = handles.filterReturnValue(
            data_of.asType(types.methodType(gtid, event)), lookup.findVirtual(gtid, "getFlags", types.methodType(int_type))
        )
        contains = lookup.findVirtual(jpype.JClass("java.util.Set"), "contains", types.methodType(truth, any_object))
        begins_xa = handles.filterReturnValue(flags_of, contains.bindTo(flags).asType(types.methodType(truth, int_type)))
        is_gtid = handles.filterReturnValue(
            type_of,
            lookup.findVirtual(event_type, "equals", types.methodType(truth, any_object))
            .bindTo(event_type.MARIADB_GTID)
            .asType(types.methodType(truth, event_type)),
        )
        guarded = handles.guardWithTest(is_gtid, handles.guardWithTest(begins_xa, taken, dropped), by_type)
        return jpype.JClass("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(listener, guarded)

    def _take(self, client: Any, event: Any) -> None:  # noqa: ANN401 - Java's
        """Note what an event says; the connector's thread calls this."""
        try:
            header = event.getHeader()
            kind = str(header.getEventType().name())
            statement = self._statement(kind, event.getData())
            if statement is None or statement.does != "nothing":
                size_bytes = int(header.getEventLength())
                place = int(header.getPosition())
                self._last = Heard(str(client.getBinlogFilename()), place, size_bytes, self._now_ms(), statement, kind)
                self.heard.append(self._last)
            else:
                self._last = None
        except BaseException as error:  # noqa: BLE001 - the client would log it; the capture's thread raises it
            self.failure = error

    def _refused(self) -> None:
        """Note that the connector's parser does not understand a statement; the connector's thread calls this while it reads that."""
        try:
            last = self._last
            if last is None or last.statement is None or last.statement.does not in ("redefined", "ends"):
                return
            known = self.captured() if last.statement.does == "ends" else []
            tables = tuple(table for table in last.statement.tables if table not in known)
            self.heard.append(last._replace(statement=Statement("unreadable", tables, text=last.statement.text)))
        except BaseException as error:  # noqa: BLE001 - Java would log it; the capture's thread raises it
            self.failure = error

    def _statement(self, kind: str, data: Any) -> Statement | None:  # noqa: ANN401 - Java's
        if data is not None and str(data.getClass().getSimpleName()) == "EventDataWrapper":
            data = data.getInternal()
        if kind == "QUERY":
            sql = str(data.getSql())
            return Statement() if sql in _BORDERS else statement_of(sql, str(data.getDatabase() or ""))
        if kind == "MARIADB_GTID":
            return Statement("prepares")
        if kind == "XA_PREPARE":
            parts = bytes(data.getData())
            cut = int(data.getGtridLength())
            ends = cut + int(data.getBqualLength())
            return Statement("prepared", xid=xid_text(parts[:cut], parts[cut:ends], int(data.getFormatID())))
        if kind in _LOADS:
            return Statement("rows", text="LOAD DATA")
        if kind in _FILES or (kind == "INCIDENT" and data is not None):  # what the connector could not read, which it says itself
            return Statement()
        return None


def _member(thing: Any, name: str) -> Any:  # noqa: ANN401 - Java's
    """What an object of Java has under this name, also where it tells nobody."""
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
