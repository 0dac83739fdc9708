"""Values as PostgreSQL writes them become JSON without loss."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.postgres import column_types
from penstock.cdc.postgres.values import PostgresType, TypeConversions, parse_array
from penstock.log import DataDamaged

TYPES = {
    1007: PostgresType(1007, element=column_types.INT4),
    1009: PostgresType(1009, element=25),
    1001: PostgresType(1001, element=column_types.BYTEA),
    1020: PostgresType(1020, element=603, delimiter=";"),
    90001: PostgresType(90001, base=column_types.INT8),
    90002: PostgresType(90002, element=90001),
    90003: PostgresType(90003, base=column_types.NUMERIC, modifier=(12 << 16 | 2) + 4),
    90004: PostgresType(90004, base=90003),
    90005: PostgresType(90005, base=column_types.NUMERIC),
    90006: PostgresType(90006, element=column_types.NUMERIC),
}


@pytest.mark.parametrize(
    ("oid", "text", "value"),
    [
        (column_types.BOOL, "t", True),
        (column_types.BOOL, "f", False),
        (column_types.INT2, "-32768", -32768),
        (column_types.INT8, "9223372036854775807", 2**63 - 1),
        (column_types.OID, "4294967295", 2**32 - 1),
        (column_types.FLOAT8, "0.1", 0.1),
        (column_types.FLOAT8, "1e+300", 1e300),
        (column_types.FLOAT8, "NaN", "NaN"),
        (column_types.FLOAT8, "-Infinity", "-Infinity"),
        (1700, "12345678901234567890123456789012345678.10", "12345678901234567890123456789012345678.10"),
        (1700, "NaN", "NaN"),
        (column_types.BYTEA, "\\x00ff", "AP8="),
        (column_types.TIMESTAMPTZ, "2026-11-22 03:04:05.678901+00", "2026-11-22T03:04:05.678901Z"),
        (column_types.TIMESTAMPTZ, "2026-11-22 03:04:05+00", "2026-11-22T03:04:05Z"),
        (column_types.TIMESTAMPTZ, "infinity", "infinity"),
        (column_types.TIMESTAMPTZ, "0044-03-15 12:00:00+00 BC", "0044-03-15 12:00:00+00 BC"),
        (column_types.TIMESTAMP, "2026-11-22 03:04:05", "2026-11-22T03:04:05"),
        (column_types.TIMESTAMP, "-infinity", "-infinity"),
        (1082, "2026-11-22", "2026-11-22"),
        (3802, '{"a": 1.0}', '{"a": 1.0}'),
        (2950, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (1007, "{1,NULL,-3}", [1, None, -3]),
        (1007, "[0:1]={{1,2},{3,4}}", None),
        (1009, '{"a b",NULL,"NULL","c\\"d\\\\","",{}}', None),
        (1001, '{"\\\\x00ff"}', ["AP8="]),
        (1020, "{(1,1),(0,0);(3,3),(2,2)}", ["(1,1),(0,0)", "(3,3),(2,2)"]),
        (90001, "7", 7),
        (90002, "{7}", [7]),
        (90003, "a type that is gone", "a type that is gone"),
    ],
)
def test_values(oid: int, text: str, value: Any) -> None:
    expected = {
        "[0:1]={{1,2},{3,4}}": [[1, 2], [3, 4]],
        '{"a b",NULL,"NULL","c\\"d\\\\","",{}}': ["a b", None, "NULL", 'c"d\\', "", []],
    }
    found = TypeConversions(TYPES.get).of(oid).convert(text)
    assert found == expected.get(text, value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def written(items: list[Any], delimiter: str) -> str:
    def one(item: Any) -> str:
        if item is None:
            return "NULL"
        if isinstance(item, list):
            return written(item, delimiter)
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + delimiter.join(map(one, items)) + "}"


@given(
    st.recursive(st.lists(st.text() | st.none()), lambda inner: st.lists(inner, min_size=1), max_leaves=12), st.sampled_from(",;")
)
def test_arrays_are_read_as_they_are_written(items: list[Any], delimiter: str) -> None:
    assert parse_array(written(items, delimiter), str, delimiter) == items


@pytest.mark.parametrize("text", ["", "1", "{", "{1", "{1,", '{"a', '{"a\\', "{1}}", "1}", "{1}x", "{{1}", '{"a"b}'])
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(DataDamaged):
        parse_array(text, str)


def test_bytes_that_are_not_in_hexadecimal_are_refused() -> None:
    with pytest.raises(DataDamaged, match="hexadecimal"):
        TypeConversions(TYPES.get).of(column_types.BYTEA).convert("abc\\000")


def test_a_type_is_asked_for_once() -> None:
    asked: list[int] = []

    def describe(oid: int) -> PostgresType | None:
        asked.append(oid)
        return TYPES.get(oid)

    conversions = TypeConversions(describe)
    for _ in range(3):
        conversions.of(1007)
        conversions.of(column_types.INT4)
    assert asked == [1007]


@pytest.mark.parametrize(
    ("oid", "modifier", "name"),
    [
        (column_types.INT2, -1, "smallint"),
        (column_types.OID, -1, "bigint"),
        (column_types.DATE, -1, "date"),
        (column_types.TIMESTAMP, 3, "timestamp_ntz"),
        (column_types.TIMESTAMPTZ, -1, "timestamp"),
        (column_types.NUMERIC, -1, "string"),
        (column_types.NUMERIC, (12 << 16 | 2) + 4, "decimal(12,2)"),
        (column_types.NUMERIC, (38 << 16 | 38) + 4, "decimal(38,38)"),
        (column_types.NUMERIC, (39 << 16) + 4, "string"),
        (column_types.NUMERIC, (2 << 16 | 4) + 4, "string"),  # a scale above the precision
        (column_types.NUMERIC, (5 << 16 | 0x7FD) + 4, "string"),  # a scale of -3
        (column_types.NUMERIC, (1000 << 16 | 1000) + 4, "string"),
        (1043, 20, "string"),
        (1007, -1, "array<int>"),
        (1009, -1, "array<string>"),
        (90001, -1, "bigint"),
        (90002, -1, "array<bigint>"),
        (90006, (12 << 16 | 2) + 4, "array<decimal(12,2)>"),
        (90003, -1, "decimal(12,2)"),
        (90004, -1, "decimal(12,2)"),
        (90005, -1, "string"),
        (99999, -1, "string"),  # nobody knows it any more
    ],
)
def test_columns_of_targets_have_types_that_hold_the_values(oid: int, modifier: int, name: str) -> None:
    assert str(TypeConversions(TYPES.get).column_type(oid, modifier)) == name
