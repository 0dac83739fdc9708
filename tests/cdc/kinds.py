"""The types of a drawn source, and how connectors tell their values."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.cdc.reference import EPOCH, LOCAL_EPOCH, exact

SCALE, PRECISION = 10, 38

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["", "null", "ß丁🏔", "a'b\"c\\", "NaN"])
instants = st.builds(lambda us: EPOCH + timedelta(microseconds=us), st.integers(-(10**15), 4 * 10**15))


@dataclass(frozen=True)
class Kind:
    """A type of the source, and how it is told."""

    values: st.SearchStrategy[Any]
    declared: str | None
    """What a user declares when the events do not say it; None: JSON says enough."""
    schema: dict[str, Any]
    plain: Callable[[Any], Any]
    """Without Connect's schema."""
    connect: Callable[[Any], Any]
    """With it."""


def same(value: Any) -> Any:
    return value


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def unscaled(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert exponent == -SCALE
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def zoned(value: datetime) -> str:
    """In any zone: here one that depends on the value."""
    return value.astimezone(timezone(timedelta(minutes=value.minute * 15 - 450))).isoformat()


DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": str(SCALE), "connect.decimal.precision": str(PRECISION)},
}
decimals = st.integers(-(10**PRECISION) + 1, 10**PRECISION - 1).map(lambda number: exact(number, SCALE))


def each(tell: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Arrays, whose elements are told so."""
    return lambda value: [None if one is None else tell(one) for one in value]


def decimal_of(value: Decimal) -> str:
    return base64_of(unscaled(value))


KINDS = {
    "bigint": Kind(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), None, {"type": "int64"}, same, same),
    "text": Kind(texts, None, {"type": "string"}, same, same),
    "boolean": Kind(st.booleans(), None, {"type": "boolean"}, same, same),
    "double": Kind(st.floats(allow_nan=False, allow_infinity=False), None, {"type": "double"}, same, same),
    "decimal": Kind(decimals, f"decimal({PRECISION},{SCALE})", DECIMAL, str, decimal_of),
    "array": Kind(
        st.lists(st.none() | decimals, max_size=3),
        f"array<decimal({PRECISION},{SCALE})>",
        {"type": "array", "items": DECIMAL},
        each(str),
        each(decimal_of),
    ),
    "binary": Kind(st.binary(max_size=6), "binary", {"type": "bytes"}, base64_of, base64_of),
    "timestamptz": Kind(
        instants,
        "timestamp",
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        lambda value: value.isoformat(" ").replace("+00:00", "+00"),
        zoned,
    ),
    "timestamp": Kind(
        instants.map(lambda at: at.replace(tzinfo=None)),
        "timestamp_ntz",
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        datetime.isoformat,
        lambda value: (value - LOCAL_EPOCH) // timedelta(microseconds=1),
    ),
    "date": Kind(
        st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "date",
        {"type": "int32", "name": "io.debezium.time.Date"},
        date.isoformat,
        lambda value: (value - date(1970, 1, 1)).days,
    ),
}
