from __future__ import annotations

import pytest

from penstock.cdc.events.target_types import parse_target_type
from penstock.log.schema.widening import holds, widest


@pytest.mark.parametrize(
    ("one", "other", "wide"),
    [
        ("int", "int", "int"),
        ("smallint", "bigint", "bigint"),
        ("float", "double", "double"),
        ("decimal(5,1)", "decimal(7,2)", "decimal(7,2)"),
        ("decimal(5,1)", "decimal(5,2)", "decimal(6,2)"),
        ("decimal(36,0)", "decimal(5,2)", "decimal(38,2)"),
        ("decimal(38,0)", "decimal(38,1)", "string"),
        ("int", "decimal(10,0)", "decimal(10,0)"),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("int", "double", "string"),
        ("date", "timestamp", "string"),
        ("timestamp", "timestamp_ntz", "string"),
        ("int", "string", "string"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<decimal(5,1)>", "array<decimal(5,2)>", "array<decimal(6,2)>"),
        ("array<array<int>>", "array<array<string>>", "array<array<string>>"),
        ("array<int>", "array<array<int>>", "array<string>"),
        ("array<int>", "int", "string"),
    ],
)
def test_the_narrowest_type_that_holds_both(one: str, other: str, wide: str) -> None:
    first, second = parse_target_type(one), parse_target_type(other)
    assert widest(first, second) == widest(second, first) == parse_target_type(wide)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("int", "bigint"), ("decimal(5,2)", "decimal(5,1)"), ("decimal(9,0)", "int"), ("string", "int"), ("double", "int"), ("bigint", "decimal(5,0)")],
)  # fmt: skip
def test_what_does_not_hold_all_values(wide: str, narrow: str) -> None:
    assert not holds(parse_target_type(wide), parse_target_type(narrow))
