"""Conversions of values in Java, composed of Java's own functions: nothing is compiled, and Python is not asked for each value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CONVERTER = "io.debezium.spi.converter.CustomConverter$Converter"
_OWN_CONVERTER = "io.debezium.relational.ValueConverter"


class _Called:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.convert = function


class ConversionHandles:
    """Makes handles of conversions of one object to one."""

    def __init__(self, jpype: Any) -> None:  # noqa: ANN401 - a module
        self._jpype = jpype
        self._object = jpype.JClass("java.lang.Object").class_
        self._methods = jpype.JClass("java.lang.invoke.MethodHandles")
        self._types = jpype.JClass("java.lang.invoke.MethodType")
        self._lookup = self._methods.publicLookup()
        self._conversion = self._types.methodType(self._object, self._object)
        test = self._types.methodType(jpype.JClass("java.lang.Boolean").TYPE, self._object)
        self._is_instance = self._lookup.findVirtual(jpype.JClass("java.lang.Class"), "isInstance", test)
        self._equals = self._lookup.findVirtual(self._object, "equals", test)
        self._bytes = jpype.JArray(jpype.JByte).class_
        self.same = self._methods.identity(self._object)

    def registered(self, handle: Any) -> Any:  # noqa: ANN401 - Java's
        return self._jpype.JClass("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(
            self._jpype.JClass(_CONVERTER), handle
        )

    def own(self, converter: Any) -> Any:  # noqa: ANN401 - Java's
        return self._lookup.findVirtual(self._jpype.JClass(_OWN_CONVERTER), "convert", self._conversion).bindTo(converter)

    def python(self, function: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - Java's
        """A function of Python's, for rare values."""
        interface = self._jpype.JClass(_CONVERTER)
        proxy = self._jpype.JObject(self._jpype.JProxy(interface, inst=_Called(function)), interface)
        return self._lookup.findVirtual(interface, "convert", self._conversion).bindTo(proxy)

    def of_class(self, name: str, then: Any, otherwise: Any) -> Any:  # noqa: ANN401 - Java's
        return self._methods.guardWithTest(self._is_instance.bindTo(self._jpype.JClass(name).class_), then, otherwise)

    def of_bytes(self, then: Any, otherwise: Any) -> Any:  # noqa: ANN401 - Java's
        return self._methods.guardWithTest(self._is_instance.bindTo(self._bytes), then, otherwise)

    def instead(self, value: Any, other: Any, otherwise: Any) -> Any:  # noqa: ANN401 - Java's
        constant = self._methods.dropArguments(self._methods.constant(self._object, other), 0, self._object)
        return self._methods.guardWithTest(self._equals.bindTo(value), constant, otherwise)

    def padded(self, count: int, then: Any) -> Any:  # noqa: ANN401 - Java's
        """Bytes, filled with zeros up to ``count``, for ``then``."""
        arrays, number = self._jpype.JClass("java.util.Arrays"), self._jpype.JClass("java.lang.Integer")
        copy = self._lookup.findStatic(arrays, "copyOf", self._types.methodType(self._bytes, self._bytes, number.TYPE))
        padded = self._methods.insertArguments(copy, 1, number.valueOf(count)).asType(self._conversion)
        return self._methods.filterReturnValue(padded, then)

    def text(self, charset: str) -> Any:  # noqa: ANN401 - Java's
        string, kind = self._jpype.JClass("java.lang.String").class_, self._jpype.JClass("java.nio.charset.Charset")
        void = self._jpype.JClass("java.lang.Void").TYPE
        made = self._lookup.findConstructor(string, self._types.methodType(void, self._bytes, kind.class_))
        return self._methods.insertArguments(made, 1, kind.forName(charset)).asType(self._conversion)

    def unless_contains(self, part: str, then: Any, otherwise: Any) -> Any:  # noqa: ANN401 - Java's
        """The result of ``then``, or of ``otherwise`` where that text has a part."""
        string = self._jpype.JClass("java.lang.String").class_
        boolean, sequence = self._jpype.JClass("java.lang.Boolean").TYPE, self._jpype.JClass("java.lang.CharSequence").class_
        contains = self._lookup.findVirtual(string, "contains", self._types.methodType(boolean, sequence))
        test = self._methods.insertArguments(contains, 1, self._jpype.JClass("java.lang.String")(part))
        test = test.asType(self._types.methodType(boolean, self._object))
        first = self._methods.dropArguments(self.same, 1, self._object)
        other = self._methods.dropArguments(otherwise, 0, self._object)
        chosen = self._methods.guardWithTest(self._methods.dropArguments(test, 1, self._object), other, first)
        return self._methods.foldArguments(chosen, then)

    def looked_up(self, values: Any) -> Any:  # noqa: ANN401 - Java's
        return self._lookup.findVirtual(self._jpype.JClass("java.util.Map"), "get", self._conversion).bindTo(values)

    def in_zone(self, zone: Any, then: Any) -> Any:  # noqa: ANN401 - Java's
        """The driver's timestamp, as a time in a zone, for ``then``."""
        timestamp, instant, at = (
            self._jpype.JClass(name).class_ for name in ("java.sql.Timestamp", "java.time.Instant", "java.time.ZonedDateTime")
        )
        zone_id = self._jpype.JClass("java.time.ZoneId").class_
        to_instant = self._lookup.findVirtual(timestamp, "toInstant", self._types.methodType(instant))
        at_zone = self._lookup.findVirtual(instant, "atZone", self._types.methodType(at, zone_id))
        zoned = self._methods.filterReturnValue(to_instant, self._methods.insertArguments(at_zone, 1, zone))
        return self._methods.filterReturnValue(zoned.asType(self._conversion), then)
