from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.events.connect import declared_type
from penstock.cdc.events.conversion import UnfitTime, UnfitValue
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.retype.changes import TypeChange, changes_of
from penstock.cdc.retype.converter import TargetConverter, stored_converter
from penstock.cdc.target import CURRENT
from penstock.log.schema.arrow_types import arrow_type
from tests.cdc.columns import target_column, target_types

AT = datetime(2026, 11, 22, 3, 4, 5, 500_000, UTC)
LOCAL = AT.replace(tzinfo=None)
SINGLE = struct.unpack("f", struct.pack("f", 0.1))[0]


def changed(column: str, old: str, new: str) -> TypeChange:
    return TypeChange(column, parse_target_type(old), parse_target_type(new))


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("string", "decimal(12,2)", "12.50", Decimal("12.50")),
        ("string", "timestamp", "2026-11-22T03:04:05.5Z", AT),
        ("string", "timestamp_ntz", "2026-11-22T03:04:05.5", LOCAL),
        ("string", "date", "2026-11-22", date(2026, 11, 22)),
        ("string", "binary", "AP8=", b"\x00\xff"),
        ("string", "boolean", "true", True),
        ("string", "bigint", "7", 7),
        ("int", "bigint", 7, 7),
        ("bigint", "decimal(20,1)", 7, Decimal("7.0")),
        ("decimal(5,1)", "decimal(7,2)", Decimal("1.5"), Decimal("1.50")),
        ("decimal(5,2)", "decimal(5,1)", Decimal("1.50"), Decimal("1.5")),
        ("float", "double", SINGLE, SINGLE),
        ("float", "decimal(5,1)", SINGLE, Decimal("0.1")),
        ("double", "decimal(5,1)", 0.1, Decimal("0.1")),
        ("double", "bigint", 3.0, 3),
        ("date", "timestamp", date(2026, 11, 22), datetime(2026, 11, 22, tzinfo=UTC)),
        ("timestamp_ntz", "timestamp", LOCAL, AT),
        ("timestamp_ntz", "date", datetime(2026, 11, 22), date(2026, 11, 22)),  # noqa: DTZ001 - it has no zone
        ("timestamp", "string", AT.astimezone(timezone(timedelta(hours=2))), "2026-11-22T03:04:05.5Z"),
        ("timestamp", "string", AT.replace(microsecond=0), "2026-11-22T03:04:05Z"),
        ("timestamp_ntz", "string", LOCAL, "2026-11-22T03:04:05.5"),
        ("date", "string", date(2026, 11, 22), "2026-11-22"),
        ("binary", "string", b"\x00\xff", "AP8="),
        ("decimal(5,2)", "string", Decimal("1.50"), "1.50"),
        ("boolean", "string", True, "true"),
        ("int", "string", 7, "7"),
        ("float", "string", SINGLE, "0.1"),
        ("double", "string", 1e300, "1e+300"),
        ("double", "string", float("inf"), "Infinity"),
        ("string", "array<bigint>", "[1, null]", [1, None]),
        ("string", "array<decimal(5,2)>", '["1.50",2.5]', [Decimal("1.50"), Decimal("2.50")]),
        ("string", "array<array<timestamp>>", '[["2026-11-22T03:04:05.5Z"],[]]', [[AT], []]),
        ("array<int>", "array<bigint>", [7, None], [7, None]),
        ("array<float>", "array<double>", [SINGLE], [SINGLE]),
        ("array<date>", "array<timestamp>", [date(2026, 11, 22)], [datetime(2026, 11, 22, tzinfo=UTC)]),
        ("array<int>", "array<string>", [7], ["7"]),
        ("array<decimal(5,2)>", "string", [Decimal("1.50"), None], "[1.50,null]"),
        ("array<array<timestamp>>", "string", [[AT], None], '[["2026-11-22T03:04:05.5Z"],null]'),
        ("array<binary>", "string", [b"\x00\xff"], '["AP8="]'),
    ],
)
def test_a_value_of_one_type_as_one_of_another(old: str, new: str, value: Any, expected: Any) -> None:
    found = stored_converter(changed("v", old, new))(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("string", "decimal(4,2)", "12.345"),
        ("string", "decimal(4,2)", "NaN"),
        ("string", "int", "3000000000"),
        ("bigint", "int", 3_000_000_000),
        ("double", "bigint", 0.5),
        ("decimal(5,2)", "decimal(5,1)", Decimal("1.55")),
        ("timestamp", "date", AT),
        ("boolean", "date", True),
        ("string", "binary", "%"),
        ("string", "array<int>", "[1,"),
        ("string", "array<int>", '{"a":1}'),
        ("string", "array<int>", "[" * 100_000),
        ("string", "array<int>", "[[1]]"),
        ("array<bigint>", "array<int>", [3_000_000_000]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_never_rounded(old: str, new: str, value: Any) -> None:
    with pytest.raises(UnfitValue):
        stored_converter(changed("v", old, new))(value)


def test_a_time_that_no_column_holds_is_told_from_what_is_no_time() -> None:
    convert = stored_converter(changed("v", "string", "timestamp"))
    with pytest.raises(UnfitTime):
        convert("infinity")
    with pytest.raises(UnfitValue) as raised:
        convert("soon")
    assert not isinstance(raised.value, UnfitTime)


@pytest.mark.parametrize(
    ("declared", "old", "value", "expected"),
    [
        ("decimal(12,2) from base64", "string", "BNI=", Decimal("12.34")),
        ("binary from hex", "string", "00ff", b"\x00\xff"),
        ("array<binary> from hex", "string", '["00ff",null]', [b"\x00\xff", None]),
        ("timestamp from milliseconds", "bigint", 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ],
)
def test_a_declared_form_says_how_values_are_written(declared: str, old: str, value: Any, expected: Any) -> None:
    new, form = declared_type(declared)
    assert stored_converter(TypeChange("v", parse_target_type(old), new), form)(value) == expected


def conversion(changes: list[TypeChange], given: pa.RecordBatch, **options: Any) -> tuple[TargetConverter, pa.RecordBatch]:
    made = TargetConverter(given.schema, changes, ["id"], **options)
    return made, made.batch(given)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(
        {name: pa.array(values, arrow_type(parse_target_type(kind))) for name, (kind, values) in columns.items()}
    )


def test_columns_that_keep_their_types_are_as_they_were() -> None:
    given = batch(id=("int", [1, 2]), v=("string", ["1.5", None]), w=("string", ["a", "b"]))
    made, found = conversion([changed("v", "string", "decimal(5,2)")], given)
    assert found.to_pylist() == [{"id": 1, "v": Decimal("1.50"), "w": "a"}, {"id": 2, "v": None, "w": "b"}]
    assert (made.rows, [str(field.type) for field in made.schema]) == (2, ["int32", "decimal128(5, 2)", "string"])


def test_the_row_and_the_column_of_a_value_that_does_not_fit_are_named() -> None:
    given = batch(id=("int", [1, 2]), v=("string", ["1.5", "much"]))
    with pytest.raises(UnfitValue, match=r"row id=2: column v: 'much' does not fit decimal\(5,2\)"):
        conversion([changed("v", "string", "decimal(5,2)")], given)


def test_a_placeholder_is_no_value() -> None:
    with pytest.raises(UnfitValue, match=r"row id=1: column v: .* was not logged"):
        conversion([changed("v", "string", "date")], batch(id=("int", [1]), v=("string", ["__debezium_unavailable_value"])))


def test_times_that_no_column_holds_become_null_if_they_may() -> None:
    given = batch(id=("int", [1]), v=("string", ["infinity"]))
    changes = [changed("v", "string", "date")]
    assert conversion(changes, given, nulls=True)[1].to_pylist() == [{"id": 1, "v": None}]
    with pytest.raises(UnfitValue, match="'infinity' does not fit date"):
        conversion(changes, given)
    with pytest.raises(UnfitValue, match="'infinity' does not fit date"):
        conversion([changed("id", "string", "date")], batch(id=("string", ["infinity"])), nulls=True)


def test_two_rows_may_not_get_one_key() -> None:
    changes = [changed("id", "string", "int")]
    made, _ = conversion(changes, batch(id=("string", ["1", "2"])))
    made.check_keys()
    made.batch(batch(id=("string", ["02"])))
    with pytest.raises(UnfitValue, match=r"1 rows would have the key \(id\) of another row"):
        made.check_keys()


def test_versions_of_a_row_share_its_key() -> None:
    given = pa.record_batch({"id": ["1", "1"], CURRENT: [False, True]})
    made, _ = conversion([changed("id", "string", "int")], given)
    made.check_keys()


def test_which_columns_change() -> None:
    kinds = {
        "a": "string",
        "b": "bigint",
        "c": "int",
        "d": "decimal(10,4)",
        "e": "decimal(5,1)",
        "f": "timestamp",
        "g": "string",
        "h": "double",
        "i": "array<bigint>",
    }
    told = {
        "a": "decimal(5,2)",
        "b": "int",
        "c": "bigint",
        "d": "decimal(12,2)",
        "e": "decimal(5,1)",
        "f": "date",
        "h": "decimal(9,1)",
        "i": "array<int>",
    }
    declared = target_types({"g": "date", "e": "decimal(5,0)"})
    found = changes_of([target_column(name, kind) for name, kind in kinds.items()], declared, target_types(told))
    assert {one.column: (one.shown.old, one.shown.new) for one in found} == {
        "a": ("string", "decimal(5,2)"),
        "c": ("int", "bigint"),
        "d": ("decimal(10,4)", "decimal(14,4)"),  # rows of before may have four digits
        "e": ("decimal(5,1)", "decimal(5,0)"),
        "f": ("timestamp", "date"),
        "g": ("string", "date"),
        "h": ("double", "decimal(9,1)"),
    }
