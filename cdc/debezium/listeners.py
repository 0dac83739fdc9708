"""Listeners of the binlog's client, made of Java's own functions: most events never enter Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class EventFunctions:
    """Functions of an event without a call into Python."""

    def __init__(self, jpype: Any) -> None:  # noqa: ANN401 - a module
        shyiko = "com.github.shyiko.mysql.binlog"
        self._jpype = jpype
        self._handles = jpype.JClass("java.lang.invoke.MethodHandles")
        self._lookup = self._handles.publicLookup()
        self._method = jpype.JClass("java.lang.invoke.MethodType").methodType
        self._event = jpype.JClass(f"{shyiko}.event.Event")
        self._listener = jpype.JClass(f"{shyiko}.BinaryLogClient$EventListener")
        self._gtid = jpype.JClass(f"{shyiko}.event.MariadbGtidEventData")
        self.types = jpype.JClass(f"{shyiko}.event.EventType")
        self._nothing = jpype.JClass("java.lang.Void").TYPE
        self.dropped = self._handles.empty(self._method(self._nothing, self._event))

    def calls(self, take: Callable[[Any], None]) -> Any:  # noqa: ANN401 - Java's

        class Python:
            def onEvent(self, event: Any) -> None:  # noqa: N802, ANN401 - Java's
                take(event)

        python = self._jpype.JProxy(self._listener, inst=Python())
        return self._lookup.findVirtual(self._listener, "onEvent", self._method(self._nothing, self._event)).bindTo(python)

    def guarded(self, test: Any, then: Any, other: Any) -> Any:  # noqa: ANN401 - Java's
        return self._handles.guardWithTest(test, then, other)

    def listener(self, function: Any) -> Any:  # noqa: ANN401 - Java's
        return self._jpype.JClass("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(self._listener, function)

    def set_of(self, things: Iterable[Any]) -> Any:  # noqa: ANN401 - Java's
        those = self._jpype.JClass("java.util.HashSet")()
        for one in things:
            those.add(one)
        return those

    def is_one_of(self, types: Any) -> Any:  # noqa: ANN401 - Java's
        header = self._jpype.JClass("com.github.shyiko.mysql.binlog.event.EventHeader")
        type_of = self._handles.filterReturnValue(
            self._lookup.findVirtual(self._event, "getHeader", self._method(header)),
            self._lookup.findVirtual(header, "getEventType", self._method(self.types)),
        )
        return self._handles.filterReturnValue(type_of, self._is_in(types, self.types))

    def has_flags(self, flags: Iterable[int]) -> Any:  # noqa: ANN401 - Java's
        data = self._jpype.JClass("com.github.shyiko.mysql.binlog.event.EventData")
        int_type = self._jpype.JClass("java.lang.Integer").TYPE
        flags_of = self._handles.filterReturnValue(
            self._lookup.findVirtual(self._event, "getData", self._method(data)).asType(self._method(self._gtid, self._event)),
            self._lookup.findVirtual(self._gtid, "getFlags", self._method(int_type)),
        )
        numbers = map(self._jpype.JClass("java.lang.Integer").valueOf, flags)
        return self._handles.filterReturnValue(flags_of, self._is_in(self.set_of(numbers), int_type))

    def _is_in(self, things: Any, kind: Any) -> Any:  # noqa: ANN401 - Java's
        truth = self._jpype.JClass("java.lang.Boolean").TYPE
        contains = self._lookup.findVirtual(
            self._jpype.JClass("java.util.Set"), "contains", self._method(truth, self._jpype.JClass("java.lang.Object"))
        )
        return contains.bindTo(things).asType(self._method(truth, kind))
