"""The column of values as Python's rows: what Arrow itself makes of them, with dicts for maps."""

from __future__ import annotations

import gc
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.schema.fields import StructType
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.schema.value_column import ValueColumn
from penstock.log.schema.values import convert
from tests.log.schema.strategies import any_fields
from tests.log.schema.test_values import SEEDS, drawn_rows, plain, schema


def structs(of: TopicSchema, rows: list[Any]) -> pa.StructArray:
    return shown_value(convert(rows, of).value, of)


@given(any_fields(), SEEDS, st.data())
def test_rows_are_what_arrow_says(fields: StructType, seed: int, data: st.DataObject) -> None:
    of = first_schema(fields.fields)
    array = structs(of, drawn_rows(of, seed))
    hidden = data.draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array)))
    array = pa.StructArray.from_arrays(array.flatten(), fields=list(array.type), mask=pa.array(hidden, pa.bool_()))
    array = array[data.draw(st.integers(0, len(array))) :]
    expected = plain(array.to_pylist(), fields) if len(array) else []
    cut = data.draw(st.integers(0, len(array)))
    for column in (ValueColumn.of(array), ValueColumn.of(pa.chunked_array([array[:cut], array[cut:]], array.type))):
        assert list(column) == expected
        assert [column[at] for at in range(-len(expected), 0)] == expected
        assert list(map(types, column)) == list(map(types, expected))
        assert column[cut:] == expected[cut:]
        assert column[::-1] == expected[::-1]
        places = [at for at in range(len(expected)) if data.draw(st.booleans())]
        kept = column.only(places)
        assert kept[:] == [kept[at] for at in range(len(kept))] == [expected[at] for at in places]


def types(value: Any) -> Any:
    """The types of a value and of all in it."""
    if isinstance(value, dict):
        return {types(key): types(one) for key, one in value.items()}
    return [types(one) for one in value] if isinstance(value, list) else type(value)


def test_columns_are_taken_apart_as_lists_are() -> None:
    column = ValueColumn.of(structs(schema("n int"), [{"n": number} for number in range(5)]))
    assert itemgetter(0, 2, 4)(column) == ({"n": 0}, {"n": 2}, {"n": 4})
    assert itemgetter(slice(1, 3))(column) == [{"n": 1}, {"n": 2}]
    assert column[-1] == {"n": 4}
    with pytest.raises(IndexError):
        column[5]


def test_rows_are_each_their_own() -> None:
    column = ValueColumn.of(structs(schema("l array<int>, s struct<x: int>"), [{"l": [1], "s": {"x": 1}}]))
    changed = column[0]
    assert changed is not None
    changed["l"].append(2)
    changed["s"]["x"] = 2
    assert column[:] == [{"l": [1], "s": {"x": 1}}]


def test_no_arrow_data_stay_in_memory() -> None:
    text = "n int, s string, l array<struct<x: int>>, m map<string, int>, d decimal(12,2)"
    before = pa.total_allocated_bytes()
    of = schema(text)
    row = {"n": 1, "s": "a" * 100, "l": [{"x": 1}], "m": {"a": 1}, "d": Decimal("1.00")}
    column = ValueColumn.of(structs(of, [row] * 1000))
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    assert column[999] == row


def test_every_time_of_the_calendar_is_exact() -> None:
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - of times without a zone
    rows = [{"at": time.replace(tzinfo=UTC), "local": time, "day": time.date()} for time in (first, last)]
    column = ValueColumn.of(structs(schema("at timestamp, local timestamp_ntz, day date"), rows))
    assert column[:] == rows
    assert column[0] == {"at": first.replace(tzinfo=UTC), "local": first, "day": date(1, 1, 1)}


def test_a_column_without_fields_has_rows() -> None:
    array = pa.StructArray.from_arrays([], fields=[], mask=pa.array([], pa.bool_()))
    assert ValueColumn.of(array)[:] == []
    assert ValueColumn.of(pa.array([{}, None], pa.struct([])))[:] == [{}, None]
