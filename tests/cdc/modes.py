"""What Debezium's connectors write in each of their modes, with the types and values that targets have to have.

Values are those of the connectors' documentation and sources (2.x and 3.x). `Mode.field` is the column's part of the schema.
"""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple


class Mode(NamedTuple):
    """One column in one mode."""

    field: dict[str, Any]
    said: Any
    type: str
    held: Any


def column(type_: str, name: str | None = None, **parameters: object) -> dict[str, Any]:
    """A column's part of the schema."""
    named = {} if name is None else {"name": name, "version": 1}
    return {"type": type_, "optional": True} | named | ({"parameters": parameters} if parameters else {})


def time(kind: str, type_: str = "int64") -> dict[str, Any]:
    return column(type_, f"io.debezium.time.{kind}")


def connect(kind: str, type_: str) -> dict[str, Any]:
    return column(type_, f"org.apache.kafka.connect.data.{kind}")


def decimal(scale: object, precision: object = None) -> dict[str, Any]:
    parameters = {"scale": scale} | ({} if precision is None else {"connect.decimal.precision": precision})
    return {**connect("Decimal", "bytes"), "parameters": parameters}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "optional": True}


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def source(type_: str, length: object = None, scale: object = None) -> dict[str, str]:
    """The parameters of ``column.propagate.source.type``."""
    said = {"type": type_, "length": length, "scale": scale}
    return {f"__debezium.source.column.{name}": str(one) for name, one in said.items() if one is not None}


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


LOCAL, INSTANT = local("2023-11-14T22:13:20.123"), datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
AT = {"year": 2023, "month": 11, "day": 14}
CLOCK = {"hour": 22, "minute": 13, "second": 20, "picoseconds": 123_000_000_000, "precision": 3}
UNSIGNED = 2**64 - 1
WKB = "AQEAAAAAAAAAAADwPwAAAAAAAPA/"
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
ENUM = {"allowed": "a,b,c"}

MODES = {
    # decimal.handling.mode
    "decimal: precise": Mode(decimal("2", "10"), unscaled(-12345), "decimal(10,2)", Decimal("-123.45")),
    "decimal: precise, without a precision": Mode(decimal("2"), "MDk=", "decimal(38,2)", Decimal("123.45")),
    "decimal: precise, numbers in the schema": Mode(decimal(2, 10), "MDk=", "decimal(10,2)", Decimal("123.45")),
    "decimal: precise, of 38 digits": Mode(
        decimal("10", "38"), unscaled(10**38 - 1), "decimal(38,10)", Decimal("9999999999999999999999999999.9999999999")
    ),
    "decimal: precise, of more digits than a decimal has": Mode(
        decimal("2", "39"), unscaled(10**39 - 1), "string", "9" * 37 + ".99"
    ),
    "decimal: precise, scale below zero": Mode(decimal("-3", "5"), unscaled(-99999), "decimal(8,0)", Decimal(-99999000)),
    "decimal: precise, scale above the precision": Mode(decimal("5", "3"), unscaled(999), "decimal(5,5)", Decimal("0.00999")),
    "decimal: precise, of any scale": Mode(
        column("struct", "io.debezium.data.VariableScaleDecimal"), {"scale": 2, "value": "MDk="}, "string", "123.45"
    ),
    "decimal: double": Mode(column("double"), 123.45, "double", 123.45),
    "decimal: double, infinite": Mode(column("double"), "-Infinity", "double", float("-inf")),
    "decimal: string": Mode(column("string"), "123.45", "string", "123.45"),
    "decimal: string, of a type that is told": Mode(
        column("string", **source("NUMERIC", 12, 2)), "123.45", "decimal(12,2)", Decimal("123.45")
    ),
    "decimal: string, of a type without digits": Mode(column("string", **source("NUMERIC", 0)), "1E-50", "string", "1E-50"),
    "decimal: string, of too many digits": Mode(column("string", **source("NUMERIC", 1000, 2)), "123.45", "string", "123.45"),
    "text of a type that is told": Mode(column("string", **source("VARCHAR", 12)), "123.45", "string", "123.45"),
    "money: precise": Mode(decimal("2"), unscaled(-100), "decimal(38,2)", Decimal("-1.00")),
    "money: string": Mode(column("string"), "1.00", "string", "1.00"),
    # time.precision.mode
    "timestamp: adaptive, milliseconds": Mode(time("Timestamp"), 1_700_000_000_123, "timestamp_ntz", LOCAL),
    "timestamp: adaptive, microseconds": Mode(time("MicroTimestamp"), 1_700_000_000_123_000, "timestamp_ntz", LOCAL),
    "timestamp: nanoseconds": Mode(time("NanoTimestamp"), 1_700_000_000_123_000_000, "timestamp_ntz", LOCAL),
    "timestamp: before 1970": Mode(time("MicroTimestamp"), -1, "timestamp_ntz", local("1969-12-31T23:59:59.999999")),
    "timestamp: connect": Mode(connect("Timestamp", "int64"), 1_700_000_000_123, "timestamp_ntz", LOCAL),
    "timestamp: isostring": Mode(time("IsoTimestamp", "string"), "2023-11-14T22:13:20.123Z", "timestamp_ntz", LOCAL),
    "timestamp: structured": Mode(
        time("StructuredTimestamp", "struct"), AT | CLOCK | {"specialValue": None}, "timestamp_ntz", LOCAL
    ),
    "timestamp with time zone": Mode(time("ZonedTimestamp", "string"), "2023-11-14T23:13:20.123+01:00", "timestamp", INSTANT),
    "timestamp with time zone, in UTC": Mode(time("ZonedTimestamp", "string"), "2023-11-14T22:13:20.123000Z", "timestamp", INSTANT),
    "timestamp with time zone, structured": Mode(
        time("StructuredZonedTimestamp", "struct"),
        AT | CLOCK | {"hour": 23, "offsetSeconds": 3600, "zoneId": None},
        "timestamp",
        INSTANT,
    ),
    "date: adaptive": Mode(time("Date", "int32"), 19_675, "date", date(2023, 11, 14)),
    "date: connect": Mode(connect("Date", "int32"), 19_675, "date", date(2023, 11, 14)),
    "date: isostring": Mode(time("IsoDate", "string"), "2023-11-14Z", "date", date(2023, 11, 14)),
    "date: structured": Mode(time("StructuredDate", "struct"), AT, "date", date(2023, 11, 14)),
    "time: adaptive, milliseconds": Mode(time("Time", "int32"), 80_000_123, "string", "22:13:20.123"),
    "time: adaptive_time_microseconds": Mode(time("MicroTime"), 80_000_123_000, "string", "22:13:20.123"),
    "time: nanoseconds": Mode(time("NanoTime"), 80_000_123_456_789, "string", "22:13:20.123456789"),
    "time: connect": Mode(connect("Time", "int32"), 80_000_123, "string", "22:13:20.123"),
    "time: isostring": Mode(time("IsoTime", "string"), "22:13:20.123Z", "string", "22:13:20.123"),
    "time: structured": Mode(time("StructuredTime", "struct"), CLOCK, "string", "22:13:20.123"),
    "time: the end of the day": Mode(time("MicroTime"), 86_400_000_000, "string", "24:00:00"),
    "time: longer than a day, in MySQL": Mode(time("MicroTime"), -3_020_399_000_000, "string", "-838:59:59"),
    "time with time zone": Mode(time("ZonedTime", "string"), "22:13:20.123Z", "string", "22:13:20.123Z"),
    "time with time zone, structured": Mode(
        time("StructuredZonedTime", "struct"), CLOCK | {"offsetSeconds": -5400}, "string", "22:13:20.123-01:30"
    ),
    "year": Mode(time("Year", "int32"), 2023, "int", 2023),
    # interval.handling.mode
    "interval: numeric": Mode(time("MicroDuration"), 37_091_106_400_000, "bigint", 37_091_106_400_000),
    "interval: numeric, nanoseconds": Mode(time("NanoDuration"), 5, "bigint", 5),
    "interval: string": Mode(time("Interval", "string"), "P1Y2M3DT4H5M6.78S", "string", "P1Y2M3DT4H5M6.78S"),
    "interval: structured": Mode(time("StructuredDuration", "struct"), {"months": 1, "days": 2}, "string", '{"months":1,"days":2}'),
    # binary.handling.mode
    "binary: bytes": Mode(column("bytes"), "AP8=", "binary", b"\x00\xff"),
    "binary: base64": Mode(column("string"), "AP8=", "string", "AP8="),
    "binary: base64-url-safe": Mode(column("string"), "-_8=", "string", "-_8="),
    "binary: hex": Mode(column("string"), "00ff", "string", "00ff"),
    # Numbers
    "tinyint(1)": Mode(column("int16"), 1, "smallint", 1),
    "tinyint(1), by the converter": Mode(column("boolean"), True, "boolean", True),
    "tinyint unsigned": Mode(column("int16"), 255, "smallint", 255),
    "smallint unsigned": Mode(column("int32"), 65_535, "int", 65_535),
    "int unsigned": Mode(column("int64"), 2**32 - 1, "bigint", 2**32 - 1),
    "bigint unsigned: long": Mode(column("int64"), -1, "bigint", -1),
    "bigint unsigned: precise": Mode(decimal("0"), unscaled(UNSIGNED), "decimal(38,0)", Decimal(UNSIGNED)),
    "int8": Mode(column("int8"), -128, "tinyint", -128),
    "real": Mode(column("float"), 10.22, "float", 10.220000267028809),
    "bit(1)": Mode(column("boolean"), True, "boolean", True),
    "bits": Mode(column("bytes", "io.debezium.data.Bits", length="10"), "BQI=", "binary", b"\x05\x02"),
    # Texts and structures
    "json": Mode(column("string", "io.debezium.data.Json"), '{"a": 1.10}', "string", '{"a": 1.10}'),
    "hstore: json": Mode(column("string", "io.debezium.data.Json"), '{"a":"1"}', "string", '{"a":"1"}'),
    "hstore: map": Mode(column("map"), {"a": "1", "b": None}, "string", '{"a":"1","b":null}'),
    "uuid": Mode(column("string", "io.debezium.data.Uuid"), UUID, "string", UUID),
    "enum": Mode(column("string", "io.debezium.data.Enum", **ENUM), "b", "string", "b"),
    "set": Mode(column("string", "io.debezium.data.EnumSet", **ENUM), "a,c", "string", "a,c"),
    "ltree": Mode(column("string", "io.debezium.data.Ltree"), "Top.Science", "string", "Top.Science"),
    "xml": Mode(column("string", "io.debezium.data.Xml"), "<a/>", "string", "<a/>"),
    "tsvector": Mode(column("string", "io.debezium.data.TsVector"), "'a':1", "string", "'a':1"),
    "range": Mode(column("string"), "[1,10)", "string", "[1,10)"),
    "geometry": Mode(
        column("struct", "io.debezium.data.geometry.Geometry"),
        {"wkb": WKB, "srid": 4326},
        "string",
        f'{{"wkb":"{WKB}","srid":4326}}',
    ),
    "point": Mode(
        column("struct", "io.debezium.data.geometry.Point"),
        {"x": 1.0, "y": 1.5, "wkb": WKB, "srid": None},
        "string",
        f'{{"x":1.0,"y":1.5,"wkb":"{WKB}","srid":null}}',
    ),
    # Arrays
    "array": Mode(array(column("int32")), [1, None, -2], "array<int>", [1, None, -2]),
    "array: empty": Mode(array(column("int64")), [], "array<bigint>", []),
    "array: text": Mode(array(column("string")), ["a", None, "ß"], "array<string>", ["a", None, "ß"]),
    "array: numeric, precise": Mode(array(decimal("2", "12")), ["MDk=", None], "array<decimal(12,2)>", [Decimal("123.45"), None]),
    "array: numeric, of any scale": Mode(
        array(column("struct", "io.debezium.data.VariableScaleDecimal")),
        [{"scale": 2, "value": "MDk="}],
        "array<string>",
        ["123.45"],
    ),
    "array: timestamp": Mode(array(time("MicroTimestamp")), [1_700_000_000_123_000, None], "array<timestamp_ntz>", [LOCAL, None]),
    "array: timestamp with time zone": Mode(
        array(time("ZonedTimestamp", "string")), ["2023-11-14T22:13:20.123Z"], "array<timestamp>", [INSTANT]
    ),
    "array: date": Mode(array(time("Date", "int32")), [19_675], "array<date>", [date(2023, 11, 14)]),
    "array: time": Mode(array(time("MicroTime")), [80_000_123_000], "array<string>", ["22:13:20.123"]),
    "array: bytea": Mode(array(column("bytes")), ["AP8=", None], "array<binary>", [b"\x00\xff", None]),
    "array: real": Mode(array(column("float")), [1.5], "array<float>", [1.5]),
    "array: boolean": Mode(array(column("boolean")), [True, False], "array<boolean>", [True, False]),
    "array: uuid": Mode(array(column("string", "io.debezium.data.Uuid")), [UUID], "array<string>", [UUID]),
    "array: hstore": Mode(array(column("map")), [{"a": None}], "array<string>", ['{"a":null}']),
    "array: nested": Mode(array(array(column("int32"))), [[1, 2], [], None], "array<array<int>>", [[1, 2], [], None]),
    "array: of what nobody says": Mode(column("array"), [1, "a"], "string", '[1,"a"]'),
    "vector": Mode({**array(column("double")), "name": "io.debezium.data.DoubleVector"}, [1.0, 0.1], "array<double>", [1.0, 0.1]),
    "halfvec": Mode({**array(column("float")), "name": "io.debezium.data.FloatVector"}, [0.5], "array<float>", [0.5]),
    "sparsevec": Mode(
        column("struct", "io.debezium.data.SparseDoubleVector"),
        {"dimensions": 5, "vector": {"1": 2.5}},
        "string",
        '{"dimensions":5,"vector":{"1":2.5}}',
    ),
    # Of some later connector
    "a meaning that nobody knows": Mode(column("int64", "io.debezium.time.PicoTimestamp"), 7, "bigint", 7),
    "a meaning of bytes that nobody knows": Mode(column("bytes", "io.debezium.data.Later"), "AP8=", "binary", b"\x00\xff"),
    "a type that nobody knows": Mode(column("uint128"), 7, "string", "7"),
    "a structure that nobody knows": Mode(column("struct", "io.debezium.Later"), {"a": [1]}, "string", '{"a":[1]}'),
}
