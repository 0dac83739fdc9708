"""Rows and columns that users send: what fits is stored as it was, what does not is known by row and path."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import InvalidArgument
from penstock.log.schema.columns import convert_columns
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import ArrayType, Field, MapType, PrimitiveType, StructType
from penstock.log.schema.sources import fields_of
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.schema.values import convert
from tests.log.schema.strategies import any_fields, drawn_step, drawn_value

NOW = datetime(2026, 11, 1, 12, 30, 15, 123_456, UTC)
LOCAL = datetime(2026, 1, 1)  # noqa: DTZ001 - of a time without a zone


def schema(text: str) -> TopicSchema:
    return first_schema(fields_of(text))


def shown(rows: Sequence[object], of: TopicSchema, *, ignore_extra: bool = False) -> list[Any]:
    made = convert(rows, of, ignore_extra=ignore_extra)
    assert not made.bad
    made.value.validate(full=True)
    return plain(shown_value(made.value, of).to_pylist(), StructType(of.fields))


def plain(values: Any, type_: Any) -> Any:
    """Values as Arrow gives them, with dicts for maps."""
    if values is None:
        return None
    match type_:
        case StructType():
            if isinstance(values, list):
                return [plain(one, type_) for one in values]
            return {field.name: plain(values[field.name], field.type) for field in type_.live}
        case ArrayType(element):
            return [plain(one, element.type) for one in values]
        case MapType(_, value):
            return {key: plain(one, value.type) for key, one in values}
        case _:
            return values


def drawn_rows(of: TopicSchema, seed: int) -> list[Any]:
    random = Random(seed)
    return [drawn_value(StructType(of.fields), random) for _ in range(random.randrange(6))]


SEEDS = st.integers(0, 2**32)


@given(any_fields(), SEEDS)
def test_rows_that_fit_come_back_as_they_were(fields: StructType, seed: int) -> None:
    of = first_schema(fields.fields)
    rows = drawn_rows(of, seed)
    assert shown(rows, of) == rows


@given(any_fields(), SEEDS)
def test_columns_give_the_same_as_rows(fields: StructType, seed: int) -> None:
    of = first_schema(fields.fields)
    by_rows = convert(drawn_rows(of, seed), of)
    given_columns = shown_value(by_rows.value, of)
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(given_columns)])
    cut = seed % (table.num_rows + 1)
    made = convert_columns(table.slice(cut), of)
    assert not made.bad
    made.value.validate(full=True)
    assert made.value.type == by_rows.value.type
    assert made.value.equals(by_rows.value.slice(cut))


@given(any_fields(), st.data())
def test_older_rows_are_read_by_every_later_schema(fields: StructType, data: st.DataObject) -> None:
    of = first_schema(fields.fields)
    rows = drawn_rows(of, data.draw(SEEDS))
    stored = convert(rows, of).value
    for _ in range(data.draw(st.integers(1, 3))):
        rename: dict[str, str] = {}
        retire: list[str] = []
        wanted = drawn_step(of.fields, data, rename, retire, "")
        if not wanted:
            continue
        rows = [followed(row, StructType(of.fields), StructType(wanted), rename, set(retire), "") for row in rows]
        of = evolve(of, wanted, rename=rename, retire=retire)
        cut = data.draw(st.integers(0, len(rows)))
        found = shown_value(stored.slice(cut), of)
        found.validate(full=True)
        assert found.type == of.arrow
        assert plain(found.to_pylist(), StructType(of.fields)) == rows[cut:]


def followed(row: Any, old: StructType, new: StructType, rename: dict[str, str], retire: set[str], under: str) -> Any:
    """A plain model of what an evolution makes of a row."""
    if row is None:
        return None
    made = {field.name: None for field in new.fields}
    wanted = {field.name: field for field in new.fields}
    for field in old.live:
        path = f"{under}.{field.name}" if under else field.name
        if path in retire:
            continue
        name = rename.get(path, field.name)
        value = row[field.name]
        if isinstance(field.type, StructType):
            behind = wanted[name].type
            assert isinstance(behind, StructType)
            value = followed(value, field.type, behind, rename, retire, path)
        made[name] = value
    return made


@pytest.mark.parametrize(
    "steps",
    [
        (("k int", {}, ["a"]), ("k int, a int", {}, [])),
        (("k int, c int, a int", {"a": "c"}, []), ("k int, a int", {}, ["c"])),
    ],
)
def test_a_name_that_is_used_again_never_shows_the_values_of_the_old_field(steps: Any) -> None:
    of = schema("k int, a int")
    stored = convert([{"k": 1, "a": 5}], of).value
    for text, rename, retire in steps:
        of = evolve(of, fields_of(text), rename=rename, retire=retire)
    assert shown_value(stored, of).to_pylist() == [{"k": 1, "a": None}]


def test_a_former_name_of_a_retired_field_never_means_the_field_that_has_its_last_name_now() -> None:
    of = evolve(schema("k int, a int"), fields_of("k int, b int"), rename={"a": "b"})
    of = evolve(of, fields_of("k int"), retire=["b"])
    of = evolve(of, fields_of("k int, b int"))
    rows = [{"k": 1, "a": 5}, {"k": 2, "b": 6}, {"k": 3, "a": 7, "b": 8}]
    made = convert(rows, of)
    assert not made.bad
    assert shown_value(made.value, of).to_pylist() == [{"k": 1, "b": None}, {"k": 2, "b": 6}, {"k": 3, "b": 8}]
    assert made.value.field("a").to_pylist() == [5, None, 7]
    assert convert([{"k": 1, "A": 5}], of).bad[0].found == "the field 'A'"


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Item:
    sku: str
    n: int


class Pair(NamedTuple):
    sku: str
    n: int


class Model:
    """As pydantic's models are."""

    model_fields = {"sku": None, "n": None}  # noqa: RUF012

    def __init__(self) -> None:
        self.sku, self.n = "c", 3


class Text(str):
    __slots__ = ()


class Extra(Model):
    """As a model is that takes what it does not name."""

    model_extra = {"more": 1}  # noqa: RUF012


@dataclass
class Default:
    n: int = 7


@dataclass
class Unset:
    n: int = dataclasses.field(init=False)


class Secret(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "***"


class Short(list[int]):
    def __len__(self) -> int:
        return 1


class Many(dict[str, int]):
    """As dicts are that have several values by a key."""

    def items(self) -> Any:
        return [("a", 1), ("b", 2)]


def test_a_value_is_what_it_holds_whatever_its_class_shows() -> None:
    of = schema("s string, l array<int>, m map<string, int>")
    rows = [{"s": Secret("x"), "l": Short([1, 2]), "m": Many()}, {"s": "y", "l": [3], "m": {"c": 3}}]
    assert shown(rows, of) == [{"s": "x", "l": [1, 2], "m": {"a": 1, "b": 2}}, {"s": "y", "l": [3], "m": {"c": 3}}]


def test_rows_may_be_of_any_class_of_fields() -> None:
    of = schema("sku string, n int")
    assert shown([Item("a", 1), Pair("b", 2), Model(), {"n": 4}], of) == [
        {"sku": "a", "n": 1},
        {"sku": "b", "n": 2},
        {"sku": "c", "n": 3},
        {"sku": None, "n": 4},
    ]


def test_values_may_be_of_kindred_classes() -> None:
    of = schema("s string, n int, f double, i struct<sku: string, n: int>, b binary")
    row = {"s": Colour.RED, "n": Level.HIGH, "f": np.float64(1.5), "i": Item("a", 1), "b": memoryview(b"x")}
    other = {"s": UUID(int=5), "n": np.int32(7), "f": 2, "i": None, "b": bytearray(b"y")}
    third = {"s": Text("z"), "n": None, "f": None, "i": None, "b": None}
    assert [one["s"] for one in shown([row, other, third], of)] == ["red", "00000000-0000-0000-0000-000000000005", "z"]
    assert [one["n"] for one in shown([row, other, third], of)] == [3, 7, None]


def test_a_zone_is_kept_as_the_moment_that_it_means() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert shown([{"at": there}], schema("at timestamp")) == [{"at": NOW}]


BAD = [
    ("n int", {"n": "7"}, "n: expected int, found the str '7'"),
    ("n int", {"n": 1.5}, "n: expected int, found the float 1.5"),
    ("n int", {"n": 1.0}, "n: expected int, found the float 1.0"),
    ("n int", {"n": True}, "n: expected int, found the bool True"),
    ("n int", {"n": 2**31}, "n: expected int, found the int 2147483648"),
    ("n bigint", {"n": 10**30}, "n: expected bigint, found the int 1000000000000000000000000000000"),
    ("n bigint", {"n": float("nan")}, "n: expected bigint, found the float nan"),
    ("f double", {"f": True}, "f: expected double, found the bool True"),
    ("f double", {"f": 2**53 + 1}, "f: expected double, found the int 9007199254740993"),
    ("f double", {"f": "1"}, "f: expected double, found the str '1'"),
    ("d decimal(5,2)", {"d": Decimal("1000.00")}, "d: expected decimal(5,2), found the Decimal Decimal('1000.00')"),
    ("d decimal(5,2)", {"d": Decimal("1.234")}, "d: expected decimal(5,2), found the Decimal Decimal('1.234')"),
    ("d decimal(5,2)", {"d": Decimal("NaN")}, "d: expected decimal(5,2), found the Decimal Decimal('NaN')"),
    ("d decimal(5,2)", {"d": 1.5}, "d: expected decimal(5,2) (a Decimal or an int), found the float 1.5"),
    ("d date", {"d": np.datetime64("2026-01-01")}, "d: expected date, found the datetime64"),
    ("f float", {"f": 1e300}, "f: expected float, found the float 1e+300"),
    ("f float", {"f": np.float64(-1e39)}, "f: expected float, found the float64"),
    ("f float", {"f": 2**24 + 1}, "f: expected float, found the int 16777217"),
    ("at timestamp", {"at": pd.Timestamp(1001, tz="UTC")}, "at: expected timestamp (a datetime with a zone), found the Timestamp"),
    ("at timestamp", {"at": pd.NaT}, "at: expected timestamp (a datetime with a zone), found the NaTType NaT"),
    ("at timestamp", {"at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "at: expected timestamp"),
    ("at timestamp", {"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "at: expected timestamp"),
    ("m map<string, int>", {"m": {Colour.RED: 1, "red": 2}}, "m.key: expected each key once, found the str 'red'"),
    ("m map<float, int>", {"m": {0.1: 1, 0.1000000001: 2}}, "m.key: expected each key once, found the float 0.1000000001"),
    ("n int", {"\ud800": 1}, "'\\ud800': expected a field of the schema"),
    ("n int", {"n" * 300: 1}, f"'{'n' * 199}…: expected a field of the schema"),
    ("n int", Unset(), "the row: expected a row with n, found the Unset"),
    ("sku string, n int", Item, "the row: expected a row with sku, n, found the type <class"),
    ("n int", Default, "the row: expected a row with n, found the type <class"),
    ("sku string, n int", Extra(), "more: expected a field of the schema, found the field 'more'"),
    ("s string", {"s": b"x"}, "s: expected string, found the bytes b'x'"),
    ("s string", {"s": "\ud800"}, "s: expected string, found the str '\\ud800'"),
    ("b binary", {"b": "x"}, "b: expected binary, found the str 'x'"),
    ("b boolean", {"b": 1}, "b: expected boolean, found the int 1"),
    (
        "d date",
        {"d": NOW},
        "d: expected date, found the datetime datetime.datetime(2026, 11, 1, 12, 30, 15, 123456, tzinfo=datetime.timezone.utc)",
    ),
    (
        "at timestamp",
        {"at": LOCAL},
        "at: expected timestamp (a datetime with a zone), found the datetime datetime.datetime(2026, 1, 1, 0, 0)",
    ),
    ("at timestamp", {"at": 5}, "at: expected timestamp (a datetime with a zone), found the int 5"),
    ("at timestamp_ntz", {"at": NOW}, "at: expected timestamp_ntz (a datetime without a zone), found"),
    ("n int not null", {}, "n: expected int not null, found NULL"),
    ("n int", {"n": 1, "m": 2}, "m: expected a field of the schema, found the field 'm'"),
    ("n int", {"N": 1}, "N: expected a field of the schema, found the field 'N' (the schema has n)"),
    ("n int", 7, "the row: expected a row with n, found the int 7"),
    ("s struct<x: int not null>", {"s": {}}, "s.x: expected int not null, found NULL"),
    ("s struct<x: int>", {"s": {"x": "a"}}, "s.x: expected int, found the str 'a'"),
    ("s struct<x: int>", {"s": [1]}, "s: expected a row with x, found the list [1]"),
    ("s struct<x: int>", {"s": {"y": 1}}, "s.y: expected a field of the schema, found the field 'y'"),
    ("l array<string>", {"l": "abc"}, "l: expected array<string>, found the str 'abc'"),
    ("l array<int>", {"l": [1, "x"]}, "l.element: expected int, found the str 'x'"),
    ("m map<string, int>", {"m": [("a", 1)]}, "m: expected map<string, int>, found the list [('a', 1)]"),
    ("m map<string, int>", {"m": {None: 1}}, "m.key: expected string not null, found NULL"),
    ("m map<string, int>", {"m": {"a": 1, "b": "x"}}, "m.value: expected int, found the str 'x'"),
]


@pytest.mark.parametrize(("text", "row", "said"), BAD, ids=range(len(BAD)))
def test_a_bad_row_is_known_by_place_path_and_reason(text: str, row: object, said: str) -> None:
    of = schema(text)
    good = next(iter(convert([{}], replace_nullable(of)).value.to_pylist()))
    made = convert([good, row, good], replace_nullable(of) if "not null" not in text else of)
    faults = {number: str(fault) for number, fault in made.bad.items() if number == 1}
    assert list(faults) == [1]
    assert faults[1].startswith(said)
    if "not null" not in text:
        assert list(made.bad) == [1]


def replace_nullable(of: TopicSchema) -> TopicSchema:
    """The same schema with all fields at the top nullable."""
    return replace(of, fields=tuple(replace(field, nullable=True) for field in of.fields))


def test_none_is_a_row_that_is_null_as_a_whole() -> None:
    made = convert([{"n": 1}, None], schema("n int not null"))
    assert not made.bad
    assert made.value.to_pylist() == [{"n": 1}, None]


def test_only_the_first_fault_of_a_row_is_kept_and_each_row_has_its_own() -> None:
    made = convert([{"a": "x", "b": "y"}, {"a": 1, "b": 2}, {"a": 1, "b": "z"}], schema("a int, b int"))
    assert {number: fault.path for number, fault in made.bad.items()} == {0: "a", 2: "b"}


def test_extra_fields_are_dropped_by_choice() -> None:
    assert shown([{"a": 1, "x": 2, "s": {"b": 1, "y": 2}}], schema("a int, s struct<b: int>"), ignore_extra=True) == [
        {"a": 1, "s": {"b": 1}}
    ]


def test_nan_is_a_value_of_floats() -> None:
    assert np.isnan(shown([{"f": float("nan")}], schema("f double"))[0]["f"])


def test_the_first_and_the_last_moment_fit() -> None:
    ends = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    rows = [{"t": one, "d": one.date()} for one in ends]
    of = schema("t timestamp, d date")
    assert shown(rows, of) == rows
    assert not convert_columns(pa.Table.from_pylist(rows, pa.schema(of.arrow)), of).bad


def numbers(values: list[int], type_: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).view(type_)


# --- Columns --------------------------------------------------------------------------------------------------------------------------


def test_columns_of_the_same_family_fit_where_every_value_does() -> None:
    of = schema("a int, s string, at timestamp, d decimal(10,2), l array<string>, e string, none double")
    data = pa.table(
        {
            "a": pa.array([1, 2], pa.int64()),
            "s": pa.array(["x", None], pa.large_string()),
            "at": pa.array([NOW, NOW], pa.timestamp("ns", "Europe/Berlin")),
            "d": pa.array([5, 6], pa.int64()),
            "l": pa.array([["x"], None], pa.large_list(pa.string())),
            "e": pa.array(["p", "p"]).dictionary_encode(),
            "none": pa.nulls(2),
        }
    )
    made = convert_columns(data, of)
    assert not made.bad
    assert shown_value(made.value, of).to_pylist() == [
        {"a": 1, "s": "x", "at": NOW, "d": Decimal("5.00"), "l": ["x"], "e": "p", "none": None},
        {"a": 2, "s": None, "at": NOW, "d": Decimal("6.00"), "l": None, "e": "p", "none": None},
    ]


def test_views_and_days_in_milliseconds_fit() -> None:
    of = schema("s struct<x: string>, l array<binary>, d string, day date")
    values = pa.array(["q", "x"], pa.string_view())
    data = pa.table(
        {
            "s": pa.array([{"x": "a"}, None], pa.struct([("x", pa.string_view())])),
            "l": pa.array([None, [b"y"]], pa.large_list(pa.binary_view())),
            "d": pa.DictionaryArray.from_arrays(pa.array([1, None], pa.uint8()), values),
            "day": pa.array([date(2026, 1, 1), None], pa.date64()),
        }
    )
    made = convert_columns(data, of)
    assert not made.bad
    assert shown_value(made.value, of).to_pylist() == [
        {"s": {"x": "a"}, "l": None, "d": "x", "day": date(2026, 1, 1)},
        {"s": None, "l": [b"y"], "d": None, "day": None},
    ]


def test_columns_that_differ_from_the_schema_show_the_whole_difference() -> None:
    of = schema("a int, s struct<x: date>, at timestamp")
    data = pa.table(
        {
            "A": [1],
            "s": pa.array([{"x": "2026-01-01", "y": 1}]),
            "at": pa.array([LOCAL]),
        }
    )
    with pytest.raises(InvalidArgument) as error:
        convert_columns(data, of)
    assert error.value.expected == "a int, s struct<x: date>, at timestamp"
    assert error.value.observed == (
        "A is not in the schema, which has a; s.x is string, not date; s.y is not in the schema; at is timestamp[us] without a zone, not timestamp"
    )


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("a int", pa.array([1, 2**40, 3]), "a: expected int, found the int64 1099511627776"),
        (
            "a decimal(4,1)",
            pa.array([Decimal("1.0"), Decimal("1.25"), None]),
            "a: expected decimal(4,1), found the decimal128(3, 2) Decimal('1.25')",
        ),
        (
            "a timestamp",
            pa.array([0, 1, 2000], pa.timestamp("ns", "UTC")),
            "a: expected timestamp, found the timestamp[ns, tz=UTC]",
        ),
        ("a int not null", pa.array([1, None, 3]), "a: expected int not null, found NULL"),
        ("a struct<x: int not null>", pa.array([None, {"x": None}, {"x": 1}]), "a.x: expected int not null, found NULL"),
        (
            "a array<struct<x: int not null>>",
            pa.array([None, [{"x": 1}, {"x": None}], []]),
            "a.element.x: expected int not null, found NULL",
        ),
        (
            "a map<int, int>",
            pa.array([None, [(2**40, 1)], [(1, 1)]], pa.map_(pa.int64(), pa.int64())),
            "a.key: expected int, found the int64",
        ),
        (
            "a map<string, int>",
            pa.array([None, [("k", 1), ("k", 2)], [("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "a.key: expected each key once, found the string 'k'",
        ),
        (
            "a timestamp",
            numbers([0, 2**60, 1], pa.timestamp("s", "UTC")),
            "a: expected timestamp, found the timestamp[s, tz=UTC] 1152",
        ),
        (
            "a timestamp",
            numbers([0, 2**38, 1], pa.timestamp("s", "UTC")),
            "a: expected timestamp, found the timestamp[s, tz=UTC] 2748",
        ),
        (
            "a timestamp",
            numbers([0, 2**62, 1], pa.timestamp("us", "UTC")),
            "a: expected timestamp, found the timestamp[us, tz=UTC] 46",
        ),
        ("a timestamp", numbers([0, -(2**62), 1], pa.timestamp("us", "UTC")), "a: expected timestamp, found"),
        ("a date", pa.array([0, 2**31 - 1, 1], pa.int32()).view(pa.date32()), "a: expected date, found the date32[day] 2147483647"),
        ("a date", pa.array([0, -(2**31), 1], pa.int32()).view(pa.date32()), "a: expected date, found"),
        ("a date", numbers([0, 5, 86_400_000], pa.date64()), "a: expected date, found the date64[ms]"),
        (
            "a map<string, int>",
            pa.array([None, [("k", 2**40)], []], pa.map_(pa.string(), pa.int64())),
            "a.value: expected int, found the int64",
        ),
    ],
)
def test_a_bad_row_of_columns_is_known_by_place_path_and_reason(text: str, column: pa.Array, said: str) -> None:
    made = convert_columns(pa.table({"a": column}), schema(text))
    assert list(made.bad) == [1]
    assert str(made.bad[1]).startswith(said)


def test_dates_are_stored_as_dates() -> None:
    assert shown([{"d": date(2026, 1, 1)}], schema("d date")) == [{"d": date(2026, 1, 1)}]
    assert Field("d", PrimitiveType.DATE) == fields_of("d date")[0]


def test_a_retired_field_is_asked_of_nobody() -> None:
    of = evolve(schema("k int, a int not null"), fields_of("k int"), retire=["a"])
    by_rows = convert([{"k": 1, "a": 5}, {"k": 2}], of)
    by_columns = convert_columns(pa.table({"k": pa.array([1, 2], pa.int32()), "a": pa.array([5, None], pa.int32())}), of)
    for made in (by_rows, by_columns):
        assert not made.bad
        assert made.value.field("a").to_pylist() == [5, None]
        assert shown_value(made.value, of).to_pylist() == [{"k": 1}, {"k": 2}]


def test_one_field_under_two_names_is_refused() -> None:
    of = evolve(schema("k int, a int"), fields_of("k int, b int"), rename={"a": "b"})
    for row in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        assert convert([row], of).bad[0].path == "a"
        with pytest.raises(InvalidArgument, match=r"(a|b) is there twice; (a|b) is there twice"):
            convert_columns(pa.table({name: pa.array([value], pa.int32()) for name, value in row.items()}), of)


def test_columns_that_the_schema_lacks_are_left_out_by_choice() -> None:
    of = schema("k int, s struct<a: int>")
    part = pa.array([{"a": 1, "more": 2}], pa.struct([("a", pa.int32()), ("more", pa.int32())]))
    data = pa.table({"k": pa.array([1], pa.int32()), "s": part, "more": ["x"]})
    with pytest.raises(InvalidArgument, match=r"s\.more is not in the schema; more is not in the schema"):
        convert_columns(data, of)
    assert shown_value(convert_columns(data, of, ignore_extra=True).value, of).to_pylist() == [{"k": 1, "s": {"a": 1}}]


def test_the_keys_of_columns_are_of_their_type() -> None:
    data = pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))})
    with pytest.raises(InvalidArgument, match=r"m\.key is int32, not string"):
        convert_columns(data, schema("m map<string, int>"))


@pytest.mark.parametrize(
    ("ddl", "values", "type_"),
    [
        ("l array<tinyint>", [[1, 2, 3], None, [], [4, 500], [5]], pa.list_(pa.int64())),
        ("l map<string, tinyint>", [[("a", 1), ("b", 2)], None, [], [("a", 500)], []], pa.map_(pa.string(), pa.int64())),
        ("l map<tinyint, string>", [[(1, "a"), (2, "b")], None, [], [(500, "a")], []], pa.map_(pa.int64(), pa.string())),
        ("l struct<a: tinyint>", [{"a": 1}, None, {"a": None}, {"a": 500}, {}], pa.struct([("a", pa.int64())])),
    ],
)
def test_a_bad_part_is_of_the_row_that_has_it(ddl: str, values: list[Any], type_: pa.DataType) -> None:
    whole = pa.table({"l": pa.array(values, type_)})
    for first in range(4):
        assert list(convert_columns(whole.slice(first), schema(ddl)).bad) == [3 - first]
