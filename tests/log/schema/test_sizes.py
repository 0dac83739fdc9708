"""How large rows are: none is larger than is said of all together."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given

from penstock.log.schema.fields import StructType
from penstock.log.schema.sizes import largest_row_bytes, row_bytes
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import first_schema
from penstock.log.schema.values import convert
from tests.log.schema.strategies import any_fields
from tests.log.schema.test_values import SEEDS, drawn_rows


@given(any_fields(), SEEDS)
def test_no_row_is_larger_than_the_largest(fields: StructType, seed: int) -> None:
    of = first_schema(fields.fields)
    value = convert(drawn_rows(of, seed), of).value
    sizes = row_bytes(value)
    assert len(sizes) == len(value)
    assert largest_row_bytes(value) >= sizes.max(initial=0)


def test_sizes_are_those_of_texts_and_of_numbers_by_their_width() -> None:
    kind = pa.struct([("n", pa.int32()), ("text", pa.string()), ("list", pa.list_(pa.string()))])
    rows = pa.array([{"n": 1, "text": "abc", "list": ["x", "yz"]}, {"n": 2, "text": "a", "list": []}, None], kind)
    assert row_bytes(rows).tolist() == [10, 5, 4]
    assert largest_row_bytes(rows) == 4 + 3 + 2 * 2, (
        "the longest text, and as many of the longest in the list as in the longest list"
    )
    assert largest_row_bytes(rows[:0]) == 4


def test_each_row_has_its_own_size() -> None:
    of = first_schema(fields_of("b boolean, m map<string, int>, s struct<t: string>"))
    rows = [{"m": {"ab": 1, "c": 2}, "s": {"t": "xyz"}}, {"s": None}, None, {"b": True, "m": {}, "s": {"t": "x"}}]
    assert row_bytes(convert(rows, of).value).tolist() == [1 + 2 + 4 + 1 + 4 + 3, 1, 1, 1 + 1]
