"""Stored columns of several versions: what may lie beside what, and what of it is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.log.schema.evolution import evolve
from penstock.log.schema.sources import fields_of
from penstock.log.schema.stored_columns import FlattenedParts, aligned, concatenated, is_stored_by, shown_value, wider_type
from penstock.log.schema.topic_schema import first_schema

INT, BIGINT, TEXT = pa.int32(), pa.int64(), pa.string()


def struct(**parts: pa.DataType) -> pa.StructType:
    return pa.struct(list(parts.items()))


NESTED = [
    ("as it is", lambda type_: type_),
    ("in a struct", lambda type_: struct(a=type_)),
    ("in a list", pa.list_),
    ("as a key", lambda type_: pa.map_(type_, TEXT)),
    ("as a value", lambda type_: pa.map_(TEXT, type_)),
]


@pytest.mark.parametrize("nest", [nest for _, nest in NESTED], ids=[name for name, _ in NESTED])
def test_a_narrower_type_may_be_stored_where_a_wider_one_holds_all(nest: Any) -> None:
    assert is_stored_by(nest(INT), nest(BIGINT))
    assert not is_stored_by(nest(BIGINT), nest(INT))
    assert not is_stored_by(nest(TEXT), nest(BIGINT))
    assert wider_type(nest(INT), nest(BIGINT)) == wider_type(nest(BIGINT), nest(INT)) == nest(BIGINT)
    with pytest.raises(ValueError, match="no type holds"):
        wider_type(nest(TEXT), nest(BIGINT))


@pytest.mark.parametrize(
    "found",
    [
        pa.struct([("a", INT), ("a", INT)]),
        struct(a=INT, c=INT),
        struct(a=INT, c=TEXT),
        pa.struct([pa.field("a", INT, nullable=False)]),
        pa.struct([pa.field("A", INT)]),
        pa.list_(struct(c=INT)),
        INT,
    ],
)
def test_what_readers_would_not_understand_is_not_stored(found: pa.DataType) -> None:
    assert is_stored_by(struct(a=INT), struct(a=INT, b=TEXT))
    assert not is_stored_by(found, struct(a=INT, b=TEXT))


def test_lists_and_maps_of_several_versions_stand_one_behind_the_other() -> None:
    older, newer = struct(l=pa.list_(INT), m=pa.map_(TEXT, INT)), struct(m=pa.map_(TEXT, BIGINT), l=pa.list_(BIGINT), n=TEXT)
    rows: list[Any] = [{"l": [1, None], "m": [("a", 1)]}, None, {"l": None, "m": None}, {"l": [], "m": []}]
    wide = [{"l": [2**40], "m": [("b", 2**40)], "n": "x"}]
    made = concatenated([pa.array(rows, older), pa.array(wide, newer)])
    made.validate(full=True)
    assert made.to_pylist() == [None if row is None else row | {"n": None} for row in rows] + wide


def with_hidden_parts(type_: pa.DataType) -> pa.Array:
    """Lists or maps of two parts each, of which the second is NULL, with a slice's remains before and behind."""
    offsets = pa.array([0, 2, 4, 6, 8, 10], INT)
    numbers, mask = pa.array(range(10), INT), pa.array([False, False, True, False, False])
    if pa.types.is_map(type_):
        made = pa.MapArray.from_arrays(offsets, numbers.cast(TEXT), numbers, type=type_, mask=mask)
    else:
        made = pa.ListArray.from_arrays(offsets, numbers, type=type_, mask=mask)
    return made.slice(1, 3)


@pytest.mark.parametrize(
    ("type_", "wide", "ddl", "wider_ddl", "expected"),
    [
        (pa.list_(INT), pa.list_(BIGINT), "array<int>", "array<bigint>", [[2, 3], None, [6, 7]]),
        (
            pa.map_(TEXT, INT),
            pa.map_(TEXT, BIGINT),
            "map<string, int>",
            "map<string, bigint>",
            [[("2", 2), ("3", 3)], None, [("6", 6), ("7", 7)]],
        ),
    ],
    ids=["list", "map"],
)
def test_what_lies_under_a_null_stays_hidden(
    type_: pa.DataType, wide: pa.DataType, ddl: str, wider_ddl: str, expected: Any
) -> None:
    lists = with_hidden_parts(type_)
    flat = FlattenedParts(lists)
    assert np.asarray(flat.owners).tolist() == [0, 0, 2, 2]
    assert flat.offsets.to_pylist() == [0, 2, 2, 4]
    assert flat.of(lists.items if pa.types.is_map(type_) else lists.values).to_pylist() == [2, 3, 6, 7]
    assert aligned(lists, wide).to_pylist() == expected
    schema = evolve(first_schema(fields_of(f"f {ddl}")), fields_of(f"f {wider_ddl}"))
    shown = shown_value(pa.StructArray.from_arrays([lists], names=["f"]), schema)
    shown.validate(full=True)
    assert [row["f"] for row in shown.to_pylist()] == expected


def test_a_double_is_not_shown_as_a_float_that_it_does_not_fit() -> None:
    schema = first_schema(fields_of("f float"))
    fits = [0.5, float("nan"), float("inf"), None]
    shown = shown_value(pa.array([{"f": one} for one in fits], struct(f=pa.float64())), schema)
    assert str([row["f"] for row in shown.to_pylist()]) == str(fits)
    with pytest.raises(ValueError, match="a double does not fit a float"):
        shown_value(pa.array([{"f": 0.1}], struct(f=pa.float64())), schema)
