"""Conditions on fields of JSON bodies: what they name, how values are read, and where they may stand."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.log.errors import InvalidArgument
from penstock.log.filter.filters import check_filter, columns_read, filters_of, parse_filter, passing
from tests.log.sql.test_fields import SCHEMA

ORDER: dict[str, Any] = {
    "customer": {"id": 7, "name": "Ann", "vip": True},
    "items": [{"name": "pen", "price": 1.50}, {"name": "ink"}],
    "order-id": "A 1",
    "total": 12345678901234567890,
    "none": None,
    "half": "\ud800",
    "2026": "year",
}


def batch(*bodies: bytes | None) -> pa.RecordBatch:
    count = len(bodies)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "tag": pa.array([None] * count, pa.string()),
            "keys": pa.array([[]] * count, pa.list_(pa.string())),
            "properties": pa.array([[("kind", "paid")]] * count, pa.map_(pa.string(), pa.string())),
            "body": pa.array(bodies, pa.binary()),
        }
    )


def found(condition: str, *bodies: bytes | None) -> list[int]:
    offsets: list[int] = passing(batch(*bodies), filters_of(None, condition)).column("offset").to_pylist()
    return offsets


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("body.customer.id = 7", True),
        ("body.customer.id > 6.5 AND body.customer.id BETWEEN 7 AND 8", True),
        ("body.customer.id <> 7", False),
        ("body.customer.id = '7'", True),
        ("body.customer.name IN ('Ann', 'Bob') AND kind = 'paid'", True),
        ("body.customer.name CONTAINS 'nn'", True),
        ("body.customer.vip = TRUE", True),
        ("body.items.0.price = 1.5", True),
        ("body.items.1.name = 'ink'", True),
        ("body.items.2.name IS NULL AND body.items.999999999999.name IS NULL", True),
        ("body.items.name IS NULL", True),
        ("body.`order-id` = 'A 1'", True),
        ("body.2026 = 'year'", True),
        ("body.total = '12345678901234567890'", True),
        ("body.none IS NULL AND body.customer IS NULL AND body.half IS NOT NULL", True),
        ("body.customer.name > 5", False),
        ("NOT (body.customer.name > 5)", False),
        ("body = 'x'", False),
    ],
)
def test_fields_are_read_like_properties(condition: str, passes: bool) -> None:
    assert found(condition, json.dumps(ORDER).encode()) == ([0] if passes else [])


def test_bodies_that_are_no_json_have_no_fields() -> None:
    bodies = (b'{"a": 1}', None, b"", b"\xff{", b"text", b'{"a": 1', b"[" * 100_000, b'"a"', b' \n[{"a": 1}]', b'{"a": 1}')
    assert found("body.a = 1", *bodies) == [0, 9]
    assert found("body.0.a = 1", *bodies) == [8]
    assert found("body.a IS NULL", *bodies) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found("body.a = 1") == []


def test_the_body_is_read_and_no_subscription_asks_for_it() -> None:
    assert columns_read(filters_of(None, "body.a = 1 AND b = 2"), typed=False) == {"body", "properties"}
    with pytest.raises(InvalidArgument, match="not filtered by fields of bodies"):
        parse_filter("SQL92: body.a = 1")


def test_typed_topics_have_fields_instead() -> None:
    (_, condition) = filters_of(None, "body.a = 1")
    with pytest.raises(InvalidArgument, match="a typed topic has no bodies"):
        check_filter(condition, SCHEMA)
