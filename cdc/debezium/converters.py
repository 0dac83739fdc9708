"""Converters of columns that the connector's own would falsify, by Debezium's property ``converters``.

Python is asked once for a column. All but rare values are converted in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ...log.errors import DataDamaged, NotSupported, PenstockError
from .charsets import JAVA, Characters, decoded, is_ours
from .configuration import CONNECTORS, Connector
from .errors import load_jpype
from .handles import ConversionHandles
from .java_bridge import CLASS, define_bridge_class

NAME = "penstock"
UNREAL = "@"
"""The mark of a time whose day Java's calendar lacks."""
_TEXT = "java.lang.String"
_PLAIN = re.compile(r"'([^'\\,]*[^'\\, ])?'")
_LITERAL = re.compile(r"""(?P<quote>['"])(?P<body>.*)(?P=quote)""", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_UUID_BYTES = 16
_BYTE = 8

Change = Literal["uuid", "single", "year", "date", "datetime", "timestamp", "text", "options", "bits"]
CharactersOf = Callable[[str], Characters]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The connector's knowledge of a column's type."""

    name: str
    """The type in capitals, without a length."""
    optional: bool
    has_scale: bool = False
    length: int = 0
    charset: str | None = None


def change_of(column: ColumnType, *, reads: bool) -> Change | None:
    """The conversion to replace the connector's. ``reads``: it reads rows, with texts as texts.

    - The binlog has a UUID without the zeros at its end, which the connector adds at the beginning.
    - A FLOAT(7,3) is a number of single precision, as any other FLOAT is.
    - The year 0000 is told as 1900, and is taken for 2000.
    - A date with a zero in year, month or day comes as nothing. In a column that is NOT NULL the connector makes its default of that, or 1970.
    - A TIMESTAMP of zeros comes as the first second of 1970, which no TIMESTAMP can be.
    - The bytes of a BIT(9) are turned around in place, of a key's both for the key and for the row.
    - A text is read by another character set than the server's, and a comma in an ENUM's value gets a backslash.
    """
    name = column.name
    match name:
        case "UUID":
            return "uuid"
        case "FLOAT" | "FLOAT UNSIGNED" | "FLOAT UNSIGNED ZEROFILL" if column.has_scale:
            return "single"
        case "YEAR":
            return "year"
        case "DATE" if reads or not column.optional:
            return "date"
        case "DATETIME":
            return "datetime"
        case "TIMESTAMP":
            return "timestamp"
        case "BIT" if reads and column.length > _BYTE:
            return "bits"
        case "ENUM" | "SET" if not reads:
            return "options"
    if column.charset is not None and not reads and (column.charset in JAVA or is_ours(column.charset)):
        return "text"
    return None


def with_converter(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with our converter after the user's: the first that takes a column has it."""
    names = [name.strip() for name in properties.get("converters", "").split(",") if name.strip()]
    return {**properties, "converters": ",".join((*names, NAME)), f"{NAME}.type": CLASS}


def install(properties: Mapping[str, str], characters_of: CharactersOf, fail: Callable[[PenstockError], None]) -> None:
    """Install our converter for one life of the connector. ``fail`` gets the error that ends that life."""
    connector = CONNECTORS[properties["connector.class"]]
    reads = properties.get("snapshot.mode") == "initial_only"
    define_bridge_class(Converters(_own_converters(connector, properties), characters_of, fail, reads=reads))


class Converters:
    """Debezium's ``CustomConverter``."""

    def __init__(self, own: Any, characters_of: CharactersOf, fail: Callable[[PenstockError], None], *, reads: bool) -> None:  # noqa: ANN401 - Java's
        self._own, self._characters_of, self._fail, self._reads = own, characters_of, fail, reads
        self._handles = ConversionHandles(load_jpype())

    def configure(self, properties: object) -> None:
        """No properties are read."""

    def converterFor(self, named: Any, registration: Any) -> None:  # noqa: N802, ANN401 - Java's
        column = _column_of(named)
        name, _, _ = str(column.typeName()).upper().partition("(")
        charset = column.charsetName()
        kind = ColumnType(
            name,
            bool(column.isOptional()),
            bool(column.scale().isPresent()),
            int(column.length()),
            None if charset is None else str(charset).lower(),
        )
        change = change_of(kind, reads=self._reads)
        if change is None:
            return
        edited, times = column.edit(), change in ("date", "datetime", "timestamp")
        if times:
            edited.optional(True)
        if change == "single":
            edited.unsetScale().length(24)
        edited = edited.create()
        builder, schema = self._own.schemaBuilder(edited), self._own.schemaBuilder(edited)
        if edited.isOptional():
            schema.optional()
            if not kind.optional:  # Debezium tells it of those that are
                builder.optional()
        schema = schema.build()
        field = load_jpype().JClass("org.apache.kafka.connect.data.Field")(column.name(), 0, schema)
        own = self._handles.own(self._own.converter(edited, field))
        if (handle := self._conversion(change, own, schema, column, f"{named.dataCollection()}.{column.name()}")) is not None:
            registration.register(builder, self._handles.registered(handle))

    def _conversion(self, change: Change, own: Any, schema: Any, column: Any, where: str) -> Any:  # noqa: ANN401 - Java's
        """The handle, unless the connector's own does."""
        jpype, handles = load_jpype(), self._handles
        match change:
            case "uuid":
                return handles.of_bytes(handles.padded(_UUID_BYTES, own), handles.same)
            case "single":
                return own
            case "bits":
                return handles.of_bytes(handles.padded(-(-int(column.length()) // _BYTE), own), own)
            case "year":
                year, none = jpype.JClass("java.time.Year").of(1900), jpype.JClass("java.lang.Integer").valueOf(0)
                return handles.instead(year, none, handles.instead(jpype.JClass(_TEXT)("0000"), none, own))
            case "date":
                text = handles.python(lambda value: self._unreal(value, own, where))
                return handles.of_class(_TEXT, text, handles.of_class(_finished(schema), handles.same, own))
            case "timestamp":
                instant, zone = jpype.JClass("java.time.Instant"), jpype.JClass("java.time.ZoneOffset").UTC
                zeros = jpype.JClass("java.time.ZonedDateTime").ofInstant(instant.EPOCH, zone)
                told = handles.of_class("java.sql.Timestamp", handles.in_zone(zone, own), own)  # what is read, in the same form
                return handles.instead(zeros, None, handles.of_class(_finished(schema), handles.same, told))
            case "datetime":
                finished = handles.of_class(_finished(schema), handles.same, own)
                return handles.of_class(_TEXT, handles.python(lambda value: self._unreal(value, own, where)), finished)
            case "text":
                return handles.of_bytes(self._text(str(column.charsetName()).lower(), own), handles.same)
            case "options":
                return self._options(own, column)

    def _text(self, charset: str, own: Any) -> Any:  # noqa: ANN401 - Java's
        handles = self._handles
        if (java := JAVA.get(charset)) is not None:
            return handles.text(java)
        string = load_jpype().JClass(_TEXT)
        if charset == "utf32":
            return handles.python(lambda data: string(bytes(data).decode("utf-32-be", "replace")))
        characters = self._characters_of(charset)
        ours = handles.python(lambda data: string(decoded(bytes(data), characters)))
        # A test of the bytes themselves would be as dear as reading them. This one leaves what Java knows to Java.
        return handles.unless_contains("\ufffd", own, ours) if charset == "latin1" else ours

    def _options(self, own: Any, column: Any) -> Any:  # noqa: ANN401 - Java's
        options = options_of([str(option) for option in column.enumValues()])
        if options is None:
            return None
        jpype, handles = load_jpype(), self._handles
        string, integer = jpype.JClass(_TEXT), jpype.JClass("java.lang.Integer")
        if str(column.typeName()).upper() == "SET":
            return handles.of_class(
                "java.lang.Long", handles.python(lambda bits: string(_chosen(int(bits), options))), handles.same
            )
        by_number = jpype.JClass("java.util.HashMap")()
        for number, option in enumerate(("", *options)):  # 0 is what a lax server makes of a value that is none
            by_number.put(integer.valueOf(number), string(option))
        return handles.of_class("java.lang.Integer", handles.looked_up(by_number), handles.same)

    def _unreal(self, value: Any, own: Any, where: str) -> Any:  # noqa: ANN401 - Java's
        """A time read as text, as Java's calendar lacks its day. One in no calendar ends the capture."""
        text = str(value).removeprefix(UNREAL)
        if not self._reads:
            return value  # a default, where the connector is told to write times as text
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            hint = "correct it (UPDATE); a server without ALLOW_INVALID_DATES in its sql_mode takes none"
            self._fail(DataDamaged("a date that no calendar has", operation="capture", object=where, observed=text, hint=hint))
            return None
        local = load_jpype().JClass("java.time.LocalDateTime")
        return own.invokeWithArguments(local.of(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000))


def options_of(literals: Sequence[str]) -> tuple[str, ...] | None:
    """The values of an ENUM or a SET in a statement; None where the connector's are right."""
    if all(_PLAIN.fullmatch(literal) for literal in literals):
        return None
    return tuple(map(_option, literals))


def _option(literal: str) -> str:
    if not (fits := _LITERAL.fullmatch(literal)):
        raise NotSupported(
            "a value of an ENUM or a SET is written in a way that is not known here", operation="capture", observed=literal
        )
    quote, body = fits["quote"], fits["body"]

    def unescaped(found: re.Match[str]) -> str:
        char = found[1]
        return _ESCAPED.get(char, char) if char else quote

    return re.sub(rf"\\(.)|{quote}{quote}", unescaped, body, flags=re.DOTALL).rstrip(" ")


def _chosen(bits: int, options: Sequence[str]) -> str:
    return ",".join(option for place, option in enumerate(options) if bits >> place & 1)


def _finished(schema: Any) -> str:  # noqa: ANN401 - Java's
    kinds = {"INT32": "java.lang.Integer", "INT64": "java.lang.Long", "STRING": _TEXT}
    return kinds.get(str(schema.type()), "java.lang.Void")


def _column_of(named: Any) -> Any:  # noqa: ANN401 - Java's
    kind = load_jpype().JClass("io.debezium.relational.Column").class_
    (found,) = (field for field in named.getClass().getDeclaredFields() if kind.equals(field.getType()))
    found.setAccessible(True)
    return found.get(named)


def _own_converters(connector: Connector, properties: Mapping[str, str]) -> Any:  # noqa: ANN401 - Java's
    jpype = load_jpype()
    said = jpype.JClass("java.util.Properties")()
    for name, value in properties.items():
        if name != "converters":  # it would make objects of them
            said.setProperty(name, value)
    package, _, title = connector.class_name.removesuffix("Connector").rpartition(".")
    settings = jpype.JClass("io.debezium.config.Configuration").from_(said)
    configuration = jpype.JClass(f"{package}.{title}ConnectorConfig")(settings)
    registry = configuration.getServiceRegistry()
    registry.registerServiceProvider(jpype.JClass(f"{package}.charset.{title}CharsetRegistryServiceProvider")())
    return jpype.JClass(f"{package}.jdbc.{title}ValueConverters")(
        configuration.getDecimalMode(),
        configuration.getTemporalPrecisionMode(),
        configuration.getBigIntUnsignedHandlingMode().asBigIntUnsignedMode(),
        configuration.binaryHandlingMode(),
        None,  # no adjuster of times
        configuration.getEventConvertingFailureHandlingMode(),
        registry,
    )
