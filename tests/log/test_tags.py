"""The tag filter against a plain model of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.groups.record import GroupSettings
from penstock.log import TagFilter
from penstock.log.errors import InvalidArgument
from penstock.log.filter.filters import parse_filter, parse_stated

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


@pytest.mark.parametrize(
    "condition", ["price>10", "a=1", "paid || a!=-1", "a<=.5", "value.price>=10.5", "a=(1)", "region in('north')", "sql92: price>'"]
)
def test_a_condition_without_blanks_is_not_taken_for_a_tag_when_it_is_stated(condition: str) -> None:
    """A tag that looks so is chosen by a condition. A group that has it as a tag filter keeps that."""
    with pytest.raises(InvalidArgument):
        parse_stated(condition)


def test_a_condition_is_one_by_its_prefix_in_capitals_or_not() -> None:
    assert parse_filter(" sql92: TAGS = 'a=1'") == parse_filter("SQL92: TAGS = 'a=1'")
    assert parse_filter("a=1") == TagFilter(frozenset({"a=1"}))
    assert parse_stated("SQL92: TAGS = '*'") == parse_filter("SQL92: TAGS = '*'")
    assert parse_stated("type=paid") == TagFilter(frozenset({"type=paid"}))


def test_a_group_that_has_an_odd_tag_keeps_it_and_no_other_is_given_one() -> None:
    assert GroupSettings(filters={"orders": "a=1"}).filter_of("orders") == "a=1"
    with pytest.raises(InvalidArgument, match="where tags are expected"):
        GroupSettings.stating({"filters": {"orders": "a=1"}})


@pytest.mark.parametrize("tag", ["in transit", "type=paid", "a>b", "this is fine", "null", "between you and me", "<paid>"])
def test_tags_may_be_odd(tag: str) -> None:
    assert TagFilter.parse(tag).tags == frozenset({tag})
