"""Values as JSON: one text for one value, and the same value back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from penstock.log.errors import InvalidArgument
from penstock.log.schema.fields import StructType
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import first_schema
from penstock.log.schema.value_column import ValueColumn
from penstock.log.schema.value_json import value_json, value_of_json
from penstock.log.schema.values import convert
from tests.log.schema.strategies import any_fields
from tests.log.schema.test_value_column import types
from tests.log.schema.test_values import SEEDS, drawn_rows, schema

NOW = datetime(2026, 1, 31, 12, 0, 0, 5, UTC)


@given(any_fields(), SEEDS)
def test_values_come_back_as_they_were(fields: StructType, seed: int) -> None:
    of = first_schema(fields.fields)
    for row in ValueColumn.of(shown_value(convert(drawn_rows(of, seed), of).value, of)):
        text = value_json(row)
        back = value_of_json(text, of)
        assert back == row
        assert types(back) == types(row)
        assert value_json(back) == text


WRITTEN: list[tuple[str, Any, str]] = [
    ("a bigint, b bigint", {"a": -(2**63), "b": 2**63 - 1}, '{"a":-9223372036854775808,"b":9223372036854775807}'),
    ("d decimal(38,20)", {"d": Decimal("0E-20")}, '{"d":"0.00000000000000000000"}'),
    ("d decimal(38,0)", {"d": Decimal("1" + "0" * 37)}, '{"d":"1' + "0" * 37 + '"}'),
    ("b binary", {"b": b"\x00\xff\xfe"}, '{"b":"AP/+"}'),
    ("at timestamp", {"at": NOW}, '{"at":"2026-01-31T12:00:00.000005Z"}'),
    ("at timestamp", {"at": datetime(1, 1, 1, tzinfo=UTC)}, '{"at":"0001-01-01T00:00:00Z"}'),
    ("at timestamp_ntz", {"at": NOW.replace(tzinfo=None, microsecond=0)}, '{"at":"2026-01-31T12:00:00"}'),
    ("d date", {"d": date(2026, 1, 31)}, '{"d":"2026-01-31"}'),
    ("f double", {"f": math.inf}, '{"f":"Infinity"}'),
    ("f double", {"f": -math.inf}, '{"f":"-Infinity"}'),
    ("f float", {"f": 1.0}, '{"f":1.0}'),
    ("s string", {"s": 'ü"\n'}, '{"s":"ü\\"\\n"}'),
    ("m map<string, int>", {"m": {"a": 1}}, '{"m":{"a":1}}'),
    ("m map<int, boolean>", {"m": {1: True, 2: None}}, '{"m":[[1,true],[2,null]]}'),
    ("m map<date, int>", {"m": {date(2026, 1, 1): 1}}, '{"m":[["2026-01-01",1]]}'),
    ("m map<date, int>", {"m": {}}, '{"m":{}}'),
    ("s struct<x: array<int>>", {"s": {"x": [1, None]}}, '{"s":{"x":[1,null]}}'),
    ("n int", None, "null"),
]


@pytest.mark.parametrize(("text", "value", "written"), WRITTEN, ids=range(len(WRITTEN)))
def test_a_value_has_one_text(text: str, value: Any, written: str) -> None:
    assert value_json(value) == written
    assert value_of_json(written, schema(text)) == value


def test_nan_is_a_text() -> None:
    assert value_json({"f": math.nan}) == '{"f":"NaN"}'
    back = value_of_json('{"f":"NaN"}', schema("f double"))
    assert back is not None
    assert math.isnan(back["f"])


def test_a_moment_has_one_text_in_every_zone() -> None:
    assert value_json({"at": NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))}) == value_json({"at": NOW})


def test_numbers_are_decimals_without_a_change() -> None:
    text = '{"d":12345678901234567890.1234567890,"e":-7,"f":1.5,"g":1}'
    exactly = Decimal("12345678901234567890.1234567890")
    assert value_of_json(text, schema("d decimal(38,10), e decimal(5,2), f double, g double")) == {
        "d": exactly,
        "e": -7,
        "f": 1.5,
        "g": 1,
    }


def test_a_map_may_be_pairs_whatever_its_keys() -> None:
    assert value_of_json('{"m":[["a",1],["b",null]]}', schema("m map<string, int>")) == {"m": {"a": 1, "b": None}}


def test_a_field_that_is_left_out_is_none() -> None:
    assert value_of_json("{}", schema("n int, s string")) == {"n": None, "s": None}


REFUSED = [
    ("n int", '{"n":1', "this is no JSON"),
    ("f double", '{"f":NaN}', "this is no JSON"),
    ("n int", "[" * 100_000, "this is no JSON"),
    ("n int", "1", "object: the value; expected: struct<n: int>; observed: 1"),
    ("n int", '{"n":true}', "object: n; expected: int; observed: True"),
    ("n int", '{"n":1.0}', "object: n; expected: int; observed: 1.0"),
    ("n int", '{"N":1}', "object: 'N'; expected: n"),
    ("b boolean", '{"b":1}', "object: b; expected: boolean; observed: 1"),
    ("f double", '{"f":"1"}', "object: f; expected: double; observed: '1'"),
    ("f double", '{"f":1' + "0" * 400 + "}", "object: f; expected: double"),
    ("d decimal(5,2)", '{"d":true}', "object: d; expected: decimal(5,2); observed: True"),
    ("d decimal(5,2)", '{"d":[1]}', "object: d; expected: decimal(5,2); observed: [1]"),
    ("f double", '{"f":1e400}', "object: f; expected: double; observed: 1E+400"),
    ("d decimal(5,2)", '{"d":"NaN"}', "object: d; expected: decimal(5,2); observed: 'NaN'"),
    ("d decimal(5,2)", '{"d":"x"}', "object: d; expected: decimal(5,2); observed: 'x'"),
    ("b binary", '{"b":"*"}', "object: b; expected: binary; observed: '*'"),
    ("d date", '{"d":"2026-02-30"}', "object: d; expected: date; observed: '2026-02-30'). such as 2026-01-31"),
    ("at timestamp", '{"at":"2026-01-31T12:00:00"}', "object: at; expected: timestamp;"),
    ("at timestamp", '{"at":"0001-01-01T00:00:00+05:00"}', "object: at; expected: timestamp;"),
    ("at timestamp_ntz", '{"at":"2026-01-31T12:00:00Z"}', "object: at; expected: timestamp_ntz;"),
    ("l array<int>", '{"l":[1,"x"]}', "object: l.element; expected: int; observed: 'x'"),
    ("l array<int>", '{"l":{}}', "object: l; expected: array<int>"),
    ("m map<int, int>", '{"m":{"1":1}}', "object: m; expected: map<int, int>"),
    ("m map<int, int>", '{"m":[[1,1,1]]}', "object: m; expected: map<int, int>"),
    ("m map<int, int>", '{"m":[[1,1],[1,2]]}', "object: m; expected: map<int, int>; observed: [[1, 1], [1, 2]]"),
    ("m map<int, int>", '{"m":[[null,1]]}', "object: m; expected: map<int, int>"),
    ("m map<string, int>", '{"m":{"a":"x"}}', "object: m.value; expected: int"),
    ("s struct<x: int>", '{"s":{"x":1,"y":1}}', "object: 's.y'; expected: x"),
]


@pytest.mark.parametrize(("text", "written", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_value_is_refused_by_path(text: str, written: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as found:
        value_of_json(written, schema(text))
    assert said in str(found.value)
