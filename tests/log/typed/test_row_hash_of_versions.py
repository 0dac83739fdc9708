"""The hash that log and table are compared by: equal however rows of several versions are stored, different for any change."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.message.columns import with_value_as
from penstock.log.message.message import MESSAGE_SCHEMA, VALUE
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import StructType
from penstock.log.schema.topic_schema import first_schema
from penstock.log.schema.values import convert
from penstock.log.table.comparison.row_hash import row_digest
from tests.log.schema.strategies import any_fields, drawn_step, drawn_value
from tests.thorough import examples

COUNT = 8


def messages(value: pa.Array) -> pa.Table:
    """Rows that differ in nothing but their values."""
    columns: dict[str, Any] = {field.name: pa.nulls(len(value), field.type) for field in MESSAGE_SCHEMA}
    columns["offset"] = pa.array(range(len(value)), pa.int64())
    columns["queue"] = pa.array([0] * len(value), pa.int32())
    return pa.table(columns).append_column(VALUE, value)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(any_fields(), st.data(), st.integers(0, 2**32))
def test_the_hash_is_that_of_the_values_whatever_version_stored_them_and_however_they_are_cut(
    fields: StructType, data: st.DataObject, seed: int
) -> None:
    first = first_schema(fields.fields)
    chance = random.Random(seed)
    rows = [None if chance.random() < 0.2 else drawn_value(StructType(first.fields), chance) for _ in range(COUNT)]
    stored = messages(convert(rows, first).value)
    rename: dict[str, str] = {}
    retire: list[str] = []
    wanted = drawn_step(first.fields, data, rename, retire, "")
    later = evolve(first, wanted, rename=rename, retire=retire)
    number, digest = row_digest([stored])
    assert number == COUNT
    wide = with_value_as(stored, later.stored_arrow)
    cuts = sorted(chance.randrange(COUNT + 1) for _ in range(3))
    pieces = [wide.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, COUNT], strict=True)]
    pieces[1:2] = [stored.slice(cuts[0], cuts[1] - cuts[0])]
    assert row_digest(pieces)[1] == digest
    taken = [piece.take(pa.array(range(piece.num_rows), pa.int64())) for piece in pieces]
    assert row_digest(taken)[1] == digest


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(any_fields(), st.integers(0, 2**32))
def test_any_other_value_has_another_hash(fields: StructType, seed: int) -> None:
    schema = first_schema(fields.fields)
    chance = random.Random(seed)
    draws = [
        [None if chance.random() < 0.2 else drawn_value(StructType(schema.fields), chance) for _ in range(3)] for _ in range(3)
    ]
    tables = [messages(convert(rows, schema).value) for rows in draws]
    tables.append(tables[0].set_column(tables[0].schema.get_field_index(VALUE), VALUE, tables[0][VALUE].take(pa.array([1, 0, 2]))))
    for one in tables:
        for other in tables:
            same = one[VALUE].equals(other[VALUE])
            assert (row_digest([one]) == row_digest([other])) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([{"a": None}], [None]),
        ([{"a": []}], [{"a": None}]),
        ([{"a": [1], "b": None}], [{"a": None, "b": [1]}]),
        ([{"a": [1]}, {"a": []}], [{"a": []}, {"a": [1]}]),
        ([{"a": [None, 1]}], [{"a": [1, None]}]),
        ([{"a": [None]}], [{"a": []}]),
        ([{"a": [1, 2]}, {"a": [3]}], [{"a": [1]}, {"a": [2, 3]}]),
    ],
)
def test_where_values_stand_is_part_of_the_hash(one: list[Any], other: list[Any]) -> None:
    kind = pa.struct({"a": pa.list_(pa.int32()), "b": pa.list_(pa.int32())})
    digests = {row_digest([messages(pa.array(rows, kind))])[1] for rows in (one, other)}
    assert len(digests) == 2
