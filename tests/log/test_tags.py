"""The tag filter against a plain model of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log import TagFilter
from penstock.log.errors import InvalidArgument

TAGS = st.lists(st.none() | st.sampled_from(["a", "b", "A", "a b", "", "ü"]), max_size=20)


@given(TAGS, st.lists(st.sampled_from(["a", "b", "A", "a b", "ü", "c"]), min_size=1, max_size=4), st.sampled_from(["||", " || "]))
def test_rows_pass_whose_tag_is_named_exactly(tags: list[str | None], wanted: list[str], separator: str) -> None:
    rows = pa.table({"tag": pa.array(tags, pa.string()), "n": range(len(tags))})
    passed = TagFilter.parse(separator.join(wanted)).apply(rows)
    assert passed["n"].to_pylist() == [n for n, tag in enumerate(tags) if tag in wanted]


@pytest.mark.parametrize("everything", [None, "", "*", " * "])
def test_all_pass_without_a_filter(everything: str | None) -> None:
    rows = pa.table({"tag": pa.array([None, "a"])})
    assert TagFilter.parse(everything).apply(rows) is rows


@pytest.mark.parametrize("bad", ["a |", "| a", "a ||", "|| a", "a || || b", "a | b", "a ||| b"])
def test_what_is_no_filter_is_refused(bad: str) -> None:
    with pytest.raises(InvalidArgument, match="bad tag filter"):
        TagFilter.parse(bad)


@pytest.mark.parametrize(
    "condition",
    ["amount > 3", "amount BETWEEN 1 AND 3", "kind = 'paid'", "kind='paid' and a=1", "kind IS NOT NULL", "paid || a >= b"],
)
def test_a_condition_on_properties_is_not_taken_for_a_tag(condition: str) -> None:
    with pytest.raises(InvalidArgument, match=r"where tags are expected.*separated by '\|\|'.*write SQL92: before it"):
        TagFilter.parse(condition)


@pytest.mark.parametrize("tag", ["in transit", "type=paid", "a>b", "this is fine", "null", "between you and me", "<paid>"])
def test_tags_may_be_odd(tag: str) -> None:
    assert TagFilter.parse(tag).tags == frozenset({tag})
