"""The comparison finds exactly what differs, however rows are cut and ordered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.verify import TableComparison, compare
from penstock.log.errors import InvalidArgument
from tests.cdc.verify.tables import InMemory

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
ZONELESS = datetime(2026, 11, 20, 12, 17, 33, tzinfo=UTC).replace(tzinfo=None)


def compared(source: pa.Table, target: pa.Table, key: Sequence[str] = ("id",), **options: Any) -> TableComparison:
    return compare(InMemory(source), InMemory(target, 5), target.schema, key, **options)


def found(comparison: TableComparison) -> tuple[int, int, int]:
    return comparison.missing, comparison.extra, comparison.different


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


rows = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 8), "name": st.sampled_from([None, "", "x"]), "n": st.none() | st.integers(0, 2)}),
    max_size=25,
)


@given(rows, rows)
def test_any_two_tables(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    left, right = (Counter((row["id"], row["name"], row["n"]) for row in some) for some in (source, target))
    missing = extra = different = 0
    for key in {row[0] for row in left | right}:
        lacking = sum(count for row, count in (left - right).items() if row[0] == key)
        beyond = sum(count for row, count in (right - left).items() if row[0] == key)
        both = min(lacking, beyond)
        missing, extra, different = missing + lacking - both, extra + beyond - both, different + both
    result = compared(table(source), table(target))
    assert found(result) == (missing, extra, different)
    assert (result.source_rows, result.target_rows) == (len(source), len(target))
    assert result.equal == (left == right)


@given(st.permutations(range(40)), st.integers(0, 39), st.sampled_from(["name", "n", "id"]))
def test_one_changed_value_among_many_is_named(order: list[int], changed: int, column: str) -> None:
    source = [{"id": n, "name": f"name {n}", "n": n * 7} for n in range(40)]
    target = [dict(source[n]) for n in order]
    row = target[order.index(changed)]
    row[column] = -1 if column != "name" else "other"
    result = compared(table(source), table(target))
    if column == "id":
        assert found(result) == (1, 1, 0)
        assert [(one.kind, one.key) for one in result.differences] == [("missing", {"id": changed}), ("extra", {"id": -1})]
    else:
        assert found(result) == (0, 0, 1)
        (difference,) = result.differences
        assert (difference.kind, difference.key) == ("different", {"id": changed})
        assert difference.columns == {column: (source[changed][column], row[column])}


def test_rows_beyond_the_first_of_a_key_are_extra() -> None:
    one = {"id": 1, "name": "x", "n": 1}
    assert found(compared(table([one]), table([one, one]))) == (0, 1, 0)
    assert found(compared(table([one]), table([one, {**one, "n": 2}]))) == (0, 1, 0)
    result = compared(table([one]), table([{**one, "n": 3}, {**one, "n": 2}]))
    assert found(result) == (0, 1, 1)


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ("10.50", pa.decimal128(12, 2), Decimal("10.50")),
        ("10.5", pa.decimal128(38, 10), Decimal("10.5000000000")),
        ("1e3", pa.decimal128(12, 2), Decimal(1000)),
        (10, pa.decimal128(12, 2), Decimal(10)),
        (0.1, pa.decimal128(12, 2), Decimal("0.10")),
        ("-9" + "9" * 37, pa.decimal128(38, 0), Decimal("-9" + "9" * 37)),
        ("007", pa.int32(), 7),
        (Decimal("7.00"), pa.int64(), 7),
        ("0.1", pa.float64(), 0.1),
        ("-0.0", pa.float64(), 0.0),
        ("NaN", pa.float64(), float("nan")),
        (-(2**63), pa.int64(), -(2**63)),
        (Decimal(-(2**63)), pa.int64(), -(2**63)),
        (Decimal(2**63 - 1), pa.int64(), 2**63 - 1),
        ("1" * 12, pa.decimal128(12, 0), Decimal("1" * 12)),
        (pa.scalar(b"\x00\xff", pa.large_binary()), pa.binary(), b"\x00\xff"),
        (ZONELESS, pa.timestamp("us"), ZONELESS),
        (date(2026, 11, 20), pa.timestamp("us", "UTC"), datetime(2026, 11, 20, tzinfo=UTC)),
        ("-inf", pa.float64(), float("-inf")),
        ("0.1", pa.float32(), 0.1),
        (0.1, pa.float32(), 0.1),
        (7.038531e-26, pa.float32(), float.fromhex("0x1.5c87fa0000000p-84")),
        (Decimal("0.1"), pa.float32(), 0.1),
        (2**25, pa.float32(), float(2**25)),
        ("7.038531e-26", pa.float32(), float.fromhex("0x1.5c87fa0000000p-84")),  # by way of a double it would be the next one
        ("-0.0", pa.float32(), 0.0),
        ("NaN", pa.float32(), float("nan")),
        ("Infinity", pa.float32(), float("inf")),
        ("t", pa.bool_(), True),
        ("false", pa.bool_(), False),
        (1, pa.bool_(), True),
        ("2026-11-20 12:17:33.188143+00", pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        ("2026-11-20T14:47:33.188143000+02:30", pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        ("2026-11-20 12:17:33", pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 12, 17, 33, 0, UTC)),
        (ZONELESS, pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 12, 17, 33, 0, UTC)),
        ("2026-11-20 12:17:33", pa.timestamp("us"), ZONELESS),
        ("2026-11-20", pa.date32(), date(2026, 11, 20)),
        ("\\x00ff", pa.binary(), b"\x00\xff"),
        ("AP8=", pa.binary(), b"\x00\xff"),
        ("", pa.binary(), b""),
        ("ß", pa.string(), "ß"),
        ("ß", pa.large_string(), "ß"),
        (Decimal("10.50"), pa.string(), "10.50"),
        (True, pa.string(), "true"),
    ],
)
def test_values_are_compared_by_what_they_mean(given: Any, kind: pa.DataType, value: Any) -> None:
    source = pa.table({"id": [1, 2], "v": [given, None]})
    assert compared(source, pa.table({"id": [1, 2], "v": pa.array([value, None], kind)})).equal
    for wrong in ([None, None], [value, value]):
        assert found(compared(source, pa.table({"id": [1, 2], "v": pa.array(wrong, kind)}))) == (0, 0, 1)


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ("10.505", pa.decimal128(12, 2), Decimal("10.50")),
        ("10.51", pa.decimal128(12, 2), Decimal("10.50")),
        ("1" * 13, pa.decimal128(12, 2), Decimal(1)),
        ("7.5", pa.int64(), 7),
        (True, pa.int64(), 1),
        (str(2**63), pa.int64(), None),
        ("1" * 13, pa.decimal128(12, 0), Decimal(1)),
        (True, pa.binary(), b"\x01"),
        (5, pa.timestamp("us"), ZONELESS),
        (
            pa.scalar(1_700_000_000_000_000_001, pa.timestamp("ns", "UTC")),
            pa.timestamp("us", "UTC"),
            datetime(2023, 11, 14, 22, 13, 20, 0, UTC),
        ),
        ("seven", pa.int64(), 7),
        (2**63 - 1, pa.int64(), 2**63 - 2),
        ("0.1", pa.float64(), 0.1000001),
        ("1e400", pa.float64(), float("inf")),
        ("1e39", pa.float32(), float("inf")),
        (1e39, pa.float32(), float("inf")),
        (2**24 + 1, pa.float32(), 2.0**24),
        ("0.5", pa.float32(), 0.5000001192092896),
        ("maybe", pa.bool_(), True),
        ("2026-11-20 12:17:33.1881434+00", pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        (ZONELESS.replace(second=34), pa.timestamp("us"), ZONELESS),
        ("2026-11-20 00:00:01", pa.date32(), date(2026, 11, 20)),
        ("no base64!", pa.binary(), b""),
        ("", pa.string(), None),
        ("é", pa.string(), "e\u0301"),
    ],
)
def test_what_is_not_the_same_differs_and_both_values_are_shown(given: Any, kind: pa.DataType, value: Any) -> None:
    result = compared(pa.table({"id": [1], "v": [given]}), pa.table({"id": [1], "v": pa.array([value], kind)}))
    assert found(result) == (0, 0, 1)
    (source, target) = result.differences[0].columns["v"]
    assert (str(source), target) == (str(given), value)


def test_only_the_columns_that_differ_are_shown() -> None:
    """NaN is itself; what cannot be read is nothing, though it says the same."""
    nan, names = float("nan"), ("id", "f", "g", "d", "n")
    source = pa.table(dict(zip(names, ([1, 2], [nan, 1.5], [nan, nan], ["x", "1"], [1, 1]), strict=True)))
    decimals = pa.array([None, Decimal(1)], pa.decimal128(5, 0))
    target = pa.table(dict(zip(names, ([1, 2], [nan, nan], [nan, 1.5], decimals, [2, 1]), strict=True)))
    result = compared(source, target)
    assert found(result) == (0, 0, 2)
    assert {one.key["id"]: sorted(one.columns) for one in result.differences} == {1: ["d", "n"], 2: ["f", "g"]}
    missing = compared(source.slice(0, 1), target.slice(1)).differences
    assert [(one.kind, sorted(one.key), sorted(one.columns)) for one in missing] == [
        ("missing", ["id"], ["d", "f", "g", "n"]),
        ("extra", ["id"], ["d", "f", "g", "n"]),
    ]


def test_an_empty_text_is_null_when_the_source_cannot_tell() -> None:
    source = pa.table({"id": [1, 2], "v": ["", None]})
    target = pa.table({"id": [1, 2], "v": [None, ""]})
    assert found(compared(source, target)) == (0, 0, 2)
    assert compared(source, target, empty_is_null=True).equal


def test_columns_that_only_one_has_are_named_and_those_to_ignore_are_not() -> None:
    source = pa.table({"id": [1], "a": ["x"], "old": [1]})
    target = pa.table({"id": [1], "a": ["x"], "new": [1], "__position": [7]})
    result = compared(source, target)
    assert (result.source_columns, result.target_columns, result.equal) == (("old",), ("new",), False)
    assert found(result) == (0, 0, 0)
    assert compared(source, target, ignore=["old", "new"]).equal


def test_as_many_examples_as_asked_for() -> None:
    source, target = table([{"id": n, "name": "", "n": 0} for n in range(50)]), table([])
    result = compared(source, target, examples=3)
    assert (result.missing, len(result.differences)) == (50, 3)


def test_a_key_of_several_columns() -> None:
    source = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "n": [1, 2, 3]})
    assert compared(source, source.take([2, 0, 1]), ("a", "b")).equal
    other = source.set_column(2, "n", pa.array([1, 2, 4]))
    assert compared(source, other, ("a", "b")).differences[0].key == {"a": 2, "b": "x"}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_key_column_that_is_missing_is_named(side: str) -> None:
    with_key, without = pa.table({"id": [1], "n": [1]}), pa.table({"n": [1]})
    source, target = (without, with_key) if side == "source" else (with_key, without)
    with pytest.raises(InvalidArgument, match="a column of the key is missing") as raised:
        compared(source, target)
    assert "no id among n" in str(raised.value)
    assert "--key" in str(raised.value)


def test_large_tables_are_compared_in_little_memory_and_time() -> None:
    n = 200_000
    source = pa.table({"id": pa.array(range(n)), "name": pa.array([f"name {i}" for i in range(n)]), "n": pa.array(range(n))})
    changed = source.set_column(2, "n", pa.array([i if i != 123_456 else -1 for i in range(n)]))
    result = compare(
        InMemory(source, 10_000), InMemory(changed.take(pa.array(range(n - 1, -1, -1))), 10_000), changed.schema, ["id"]
    )
    assert found(result) == (0, 0, 1)
    assert result.differences[0].columns == {"n": (123_456, -1)}


ARRAYS: list[tuple[Any, pa.DataType, list[str]]] = [
    ([1, None, 2], pa.int64(), ["[1,null,2]"]),
    ([], pa.int64(), ["[]"]),
    ([Decimal("1.50"), None], pa.decimal128(12, 2), ["[1.50,null]", "[1.5,null]", '["1.5",null]']),
    (
        [datetime(2026, 11, 20, 12, tzinfo=UTC)],
        pa.timestamp("us", "UTC"),
        ['["2026-11-20T13:00:00+01:00"]', '["2026-11-20 12:00:00"]'],
    ),
    ([ZONELESS], pa.timestamp("us"), ['["2026-11-20T12:17:33"]']),
    ([date(2026, 11, 20)], pa.date32(), ['["2026-11-20"]']),
    ([b"\x00\xff"], pa.binary(), [r'["\\x00ff"]', '["AP8="]']),
    ([True, False], pa.bool_(), ["[true,false]"]),
    ([0.1], pa.float32(), ["[0.1]"]),
    (["a", None, ""], pa.string(), ['["a",null,""]']),
    ([["a"], None, []], pa.list_(pa.string()), ['[["a"],null,[]]']),
]


@pytest.mark.parametrize(("held", "element", "dumps"), ARRAYS)
def test_arrays_compare_by_their_elements(held: Any, element: pa.DataType, dumps: list[str]) -> None:
    """As dumps have them, and as PostgreSQL's array_to_json writes them."""
    kind = pa.list_(pa.field("element", element))
    target = pa.table({"id": [1, 2], "v": pa.array([held, None], kind)})
    assert compared(pa.table({"id": [1, 2], "v": pa.array([held, None], pa.large_list(element))}), target).equal
    for text in dumps:
        assert compared(pa.table({"id": [1, 2], "v": [text, None]}), target).equal, text
    for other in ("[9]", "{}", "1", "no JSON", "[[[]]]"):
        result = compared(pa.table({"id": [1, 2], "v": [other, None]}), target)
        assert found(result) == (0, 0, 1), other
