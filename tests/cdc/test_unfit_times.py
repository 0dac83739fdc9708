"""Times that no column of their type can hold: they stop their table, become NULL, or are text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.cdc.events.connect import schema_of_key
from penstock.cdc.events.conversion import UnfitTime, UnfitValue, converter
from penstock.cdc.events.placeholders import UnavailablePlaceholder
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.fold.row_decoder import RowDecoder, ValueOptions
from penstock.cdc.target import Target
from tests.cdc.columns import target_column


def read(kind: str, value: object, name: str | None, *, unfit: Any = "stop", key: str = "id") -> object:
    target = Target(TableId(None, "t"), "t", (target_column("id", "bigint"), target_column("at", kind)), (key,))
    field = {"field": "at", "type": "int64", "name": name}
    schema = None if name is None else {"type": "struct", "fields": [{"field": "id", "type": "int64"}, field]}
    return RowDecoder(target, ValueOptions(UnavailablePlaceholder.of(), unfit)).values(
        {"id": 1, "at": value}, schema_of_key(schema)
    )[1]


MICRO, NANO, MILLI = (f"io.debezium.time.{kind}Timestamp" for kind in ("Micro", "Nano", ""))
UNFIT: list[tuple[str | None, object, str]] = [
    (MICRO, 9_223_371_331_200_000_000, "infinity"),
    (MICRO, 9_223_372_036_825_200_000, "infinity"),
    (MILLI, 9_223_372_036_825_200, "infinity"),
    (MICRO, -9_223_372_036_832_400_000, "-infinity"),
    (NANO, 1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789"),
    (NANO, 253_402_300_799_999_999_999, "9999-12-31T23:59:59.999999999"),
    (MICRO, -62_167_219_200_000_000, "0000-01-01T00:00:00"),
    (MICRO, -63_549_360_000_000_000, "-0044-03-15T00:00:00"),
    (MILLI, 253_402_300_800_000, "+10000-01-01T00:00:00"),
    (None, "infinity", "infinity"),
    (None, "-infinity", "-infinity"),
    (None, "0044-03-15 00:00:00 BC", "0044-03-15 00:00:00 BC"),
    (None, "+292278994-08-16T23:00:00Z", "+292278994-08-16T23:00:00Z"),
    (None, "2023-11-14T22:13:20.123456789Z", "2023-11-14T22:13:20.123456789Z"),
]


@pytest.mark.parametrize(("name", "value", "text"), UNFIT)
def test_they_stop_or_are_null_or_are_text_where_that_is_declared(name: str | None, value: object, text: str) -> None:
    for kind in ("timestamp", "timestamp_ntz"):
        with pytest.raises(UnfitValue):
            read(kind, value, name)
        assert read(kind, value, name, unfit="null") is None
        with pytest.raises(UnfitValue):
            read(kind, value, name, unfit="null", key="at")
    assert read("string", value, name) == text


@pytest.mark.parametrize("value", ["hello", "2023-13-01T00:00:00", True, [1], 1_700_000_000_123])
def test_what_is_no_time_at_all_is_never_null(value: object) -> None:
    with pytest.raises(UnfitValue):
        read("timestamp", value, None, unfit="null")


@pytest.mark.parametrize("value", ["infinity", "0044-03-15 BC", 2**31 - 1])
def test_dates_too(value: object) -> None:
    with pytest.raises(UnfitTime):
        converter(parse_target_type("date"))(value)


def test_an_integer_is_microseconds_only_where_it_cannot_be_anything_else() -> None:
    assert converter(parse_target_type("timestamp"))(1_700_000_000_123_456) == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    with pytest.raises(UnfitValue, match="milliseconds or microseconds"):
        converter(parse_target_type("timestamp"))(1_700_000_000_123)
