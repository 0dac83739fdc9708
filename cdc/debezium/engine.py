"""One life of Debezium's engine, in a Java of this process, and its batches of records.

The engine's `ChangeConsumer` is a Python object. A batch crosses in few calls, with all keys and all values joined by Java into
one text each.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...log.errors import InternalError, MissingDependency, PenstockError
from ..capture.records import ConnectSchemas
from .binlog_listener import BinlogListener
from .converters import CharactersOf, install, with_converter
from .errors import load_jpype
from .java import find_jvm
from .memory import give_back
from .records import schemas_of

log = logging.getLogger("penstock.cdc")

HEAP_MB = 128
_BATCHES_MAX = 4
_LOOK_S = 0.1
_CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that the engine handed over together."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    schemas: Sequence[str]
    offset: Mapping[str, Any]


def start_java(jars: Sequence[Path], *, heap_mb: int = HEAP_MB) -> None:
    """Start this process's one Java with these JARs; later calls add JARs. Raises `MissingDependency`."""
    jpype = load_jpype()
    if jpype.isJVMStarted():
        known = set(str(jpype.java.lang.System.getProperty("java.class.path")).split(os.pathsep))
        for jar in jars:
            if str(jar) not in known:
                jpype.addClassPath(str(jar))
        return
    options = [
        "-Xrs",  # signals stay Python's
        f"-Xmx{heap_mb}m",
        "-Xss512k",
        "-XX:+UseSerialGC",
        f"-Xms{3 * heap_mb // 8}m",  # Java's own choice may be above the largest heap, which then never shrinks
        f"-XX:NewSize={heap_mb // 4}m",  # a small one means many collections, each with one of Python's behind it
        "-XX:MinHeapFreeRatio=30",
        "-XX:MaxHeapFreeRatio=50",
        "-XX:-ShrinkHeapInSteps",  # what a burst took is given back
        "-XX:MaxMetaspaceSize=128m",
        "-XX:ReservedCodeCacheSize=64m",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
    ]
    library = find_jvm()
    try:
        jpype.startJVM(str(library), *options, classpath=[str(jar) for jar in jars], convertStrings=False)
    except Exception as error:
        raise MissingDependency(
            "Java cannot be started in this process", operation="capture", object=str(library), observed=str(error).splitlines()[0]
        ) from error
    logs = jpype.JClass("java.util.logging.LogManager").getLogManager()
    logs.reset()
    logs.getLogger("").setLevel(jpype.JClass("java.util.logging.Level").OFF)  # what matters comes as an error


def java_ms() -> int:
    """The time by Java's clock, since the epoch. The lake's clock follows the store's, perhaps minutes off."""
    return int(load_jpype().JClass("java.lang.System").currentTimeMillis())


class EmbeddedEngine:
    """One life of the engine: `start`, `next` until None, `close`."""

    def __init__(
        self, properties: Mapping[str, str], *, characters_of: CharactersOf, listener: BinlogListener | None = None
    ) -> None:
        """``characters_of``: the characters of one of the server's sets. ``listener``: listens to the log, if it is read for long."""
        self._jpype = load_jpype()
        self._listener, self._characters_of = listener, characters_of
        self._properties = with_converter(properties)
        self._batches: queue.Queue[RecordBatch] = queue.Queue(_BATCHES_MAX)
        self._closing = threading.Event()
        self._ended = threading.Event()
        self.message: str | None = None
        self.failure: BaseException | None = None
        self.schemas: dict[str, ConnectSchemas] = {}
        self._engine: Any = None
        self._functions: _Functions | None = None

    def start(self) -> None:
        jpype = self._jpype
        functions = self._functions = _Functions(jpype)
        install(self._properties, self._characters_of, self._fail)
        properties = jpype.JClass("java.util.Properties")()
        for name, value in self._properties.items():
            properties.setProperty(name, value)
        outer = self

        class RecordConsumer:
            def handleBatch(self, records: Any, committer: Any) -> None:  # noqa: N802, ANN401 - Java's
                outer._take(functions, records)

            def supportsTombstoneEvents(self) -> bool:  # noqa: N802 - Java's
                return True

        class Completion:
            def handle(self, success: Any, message: Any, error: Any) -> None:  # noqa: ANN401 - Java's
                if not success:
                    outer.message = _chain(message, error)

        create = jpype.JClass("io.debezium.engine.DebeziumEngine").create(jpype.JClass("io.debezium.engine.format.Json").class_)
        self._engine = (
            create.using(properties)
            .using(jpype.JProxy("io.debezium.engine.DebeziumEngine$CompletionCallback", inst=Completion()))
            .notifying(jpype.JProxy("io.debezium.engine.DebeziumEngine$ChangeConsumer", inst=RecordConsumer()))
            .build()
        )
        if self._listener is not None:
            self._listener.attach(self._engine, self._properties["topic.prefix"])
        threading.Thread(target=self._run, name="debezium", daemon=True).start()

    def _run(self) -> None:
        try:
            with self._attached():
                self._engine.run()
        except BaseException as error:  # noqa: BLE001 - Java's errors are of any kind; the capture's thread raises it
            self.failure = self.failure or error
        finally:
            self._ended.set()

    @contextlib.contextmanager
    def _attached(self) -> Iterator[None]:
        """Attach one of our threads to Java, and detach it: Java would crash at the stack of one that ended attached."""
        thread = self._jpype.JClass("java.lang.Thread")
        thread.attachAsDaemon()
        try:
            yield
        finally:
            thread.detach()

    def _fail(self, error: PenstockError) -> None:
        self.failure = self.failure or error

    def _take(self, functions: _Functions, records: Any) -> None:  # noqa: ANN401 - Java's
        if self.failure is not None:  # a value of these records could not be converted
            raise self.failure
        try:
            batch = functions.batch(records, self.schemas)
        except BaseException as error:
            self.failure = error
            raise
        while not self._closing.is_set():
            with contextlib.suppress(queue.Full):
                self._batches.put(batch, timeout=_LOOK_S)
                return

    def next(self, timeout_s: float) -> RecordBatch | None:
        """The next batch; None when none came in time, or none is left."""
        try:
            return self._batches.get(timeout=0 if self._ended.is_set() else timeout_s) if timeout_s else self._batches.get_nowait()
        except queue.Empty:
            return None

    @property
    def ended(self) -> bool:
        return self._ended.is_set() and self._batches.empty()

    def metric(self, domain: str, context: str, name: str) -> Any:  # noqa: ANN401 - of any type
        jpype = self._jpype
        server = jpype.JClass("java.lang.management.ManagementFactory").getPlatformMBeanServer()
        prefix = self._properties["topic.prefix"]
        bean = jpype.JClass("javax.management.ObjectName")(f"{domain}:type=connector-metrics,context={context},server={prefix}")
        if not server.isRegistered(bean):
            return None
        value = server.getAttribute(bean, name)
        return None if value is None else value

    def now_ms(self) -> int:
        """The time by the connector's heartbeats' clock."""
        return java_ms()

    def give_back(self) -> None:
        give_back(self._jpype)

    def close(self) -> None:
        """End it, and wait. Raises `InternalError` when it does not end."""
        self._closing.set()
        if self._listener is not None:
            self._listener.detach()
        if self._engine is None:
            return
        closer = threading.Thread(target=self._close, name="debezium-close", daemon=True)
        closer.start()
        if not self._ended.wait(_CLOSE_S):
            self._jpype.config.destroy_jvm = False  # its threads would hold up the end of the process
            raise InternalError("Debezium's engine does not end", operation="capture", expected=f"an end within {_CLOSE_S:g} s")
        closer.join(_CLOSE_S)
        # Neither side's collector sees that the engine holds this object by what it calls, and this object the engine.
        self._engine = None

    def _close(self) -> None:
        with self._attached():
            while not self._ended.is_set():
                try:
                    self._engine.close()
                except self._jpype.JException:  # it is still starting, and does not take it; or has ended by itself
                    self._ended.wait(_LOOK_S)
                else:
                    return


class _Functions:
    """Java's own functions; none is compiled here."""

    def __init__(self, jpype: Any) -> None:  # noqa: ANN401 - a module
        self._jpype = jpype
        handles = jpype.JClass("java.lang.invoke.MethodHandles").publicLookup()
        types = jpype.JClass("java.lang.invoke.MethodType")
        proxies = jpype.JClass("java.lang.invoke.MethodHandleProxies")
        function = jpype.JClass("java.util.function.Function")
        any_object = jpype.JClass("java.lang.Object")
        event = jpype.JClass("io.debezium.engine.ChangeEvent")
        wrapped = jpype.JClass("io.debezium.embedded.EmbeddedEngineChangeEvent")
        record = jpype.JClass("org.apache.kafka.connect.source.SourceRecord")
        schema = jpype.JClass("org.apache.kafka.connect.data.Schema")

        def of(handle: Any) -> Any:  # noqa: ANN401 - Java's
            return proxies.asInterfaceInstance(function, handle)

        self.key = of(handles.findVirtual(event, "key", types.methodType(any_object)))
        self.value = of(handles.findVirtual(event, "value", types.methodType(any_object)))
        source_record = of(handles.findVirtual(wrapped, "sourceRecord", types.methodType(record)))
        value_schema = of(handles.findVirtual(record, "valueSchema", types.methodType(schema)))
        self._names = jpype.JClass("java.util.IdentityHashMap")()
        name_of = of(handles.bind(self._names, "get", types.methodType(any_object, any_object)))
        self.schema_name = source_record.andThen(value_schema).andThen(name_of)
        self._lines = jpype.JClass("java.util.stream.Collectors").joining("\n")
        self._json = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")()
        self._json.configure(jpype.JClass("java.util.Collections").emptyMap(), False)
        self._mapper = jpype.JClass("com.fasterxml.jackson.databind.ObjectMapper")()

    def batch(self, records: Any, schemas: dict[str, ConnectSchemas]) -> RecordBatch:  # noqa: ANN401 - Java's
        import json

        names = self._joined(records, self.schema_name)
        if b"null" in names:
            for place, name in enumerate(names):
                if name == b"null":
                    self._note(records.get(place).sourceRecord(), schemas)
            names = self._joined(records, self.schema_name)
        last = records.get(records.size() - 1).sourceRecord()
        offset = json.loads(str(self._mapper.writeValueAsString(last.sourceOffset())))
        return RecordBatch(
            self._joined(records, self.key), self._joined(records, self.value), [name.decode() for name in names], offset
        )

    def _joined(self, records: Any, function: Any) -> list[bytes]:  # noqa: ANN401 - Java's
        return bytes(records.stream().map(function).collect(self._lines).getBytes("UTF-8")).split(b"\n")

    def _note(self, record: Any, schemas: dict[str, ConnectSchemas]) -> None:  # noqa: ANN401 - Java's
        value = record.valueSchema()
        if value is None or self._names.get(value) is not None:
            return
        name = str(len(schemas))
        key = record.keySchema()
        key_json = None if key is None else str(self._json.asJsonSchema(key).toString())
        schemas[name] = schemas_of(key_json, str(self._json.asJsonSchema(value).toString()))
        self._names.put(value, name)


def _chain(message: Any, error: Any) -> str:  # noqa: ANN401 - Java's
    lines = [] if message is None else [str(message)]
    seen = 0
    while error is not None and seen < 10:
        lines.append(f"{error.getClass().getSimpleName()}: {error.getMessage()}")
        error, seen = error.getCause(), seen + 1
    return "\n".join(" ".join(line.split()) for line in lines)


def offsets_file(path: Path, name: str, offset: Mapping[str, Any]) -> None:
    """Write a place in the log for a connector: a Java map of the source's name and place, in JSON."""
    import json

    jpype = load_jpype()
    byte_array = jpype.JArray(jpype.JByte)

    def stored(value: object) -> Any:  # noqa: ANN401 - Java's
        return byte_array(json.dumps(value, separators=(",", ":")).encode())

    offsets = jpype.JClass("java.util.HashMap")()
    offsets.put(stored([name, {"server": name}]), stored(offset))
    stream = jpype.JClass("java.io.ObjectOutputStream")(jpype.JClass("java.io.FileOutputStream")(str(path)))
    stream.writeObject(offsets)
    stream.close()
