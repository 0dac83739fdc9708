"""Net changes of one row, and what they do to the row that they meet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.cdc.changes import (
    ALWAYS,
    NEVER,
    FormerRow,
    NetChange,
    TargetRow,
    filled,
    finished,
    merged,
    move,
    put,
    remove,
    truncated,
)
from penstock.cdc.events.conversion import KEEP

FIRST, LATER = (0, 0), (1, 0)


def made(
    values: tuple[object, ...], position: int | None, place: tuple[int, int] = FIRST, before: NetChange | None = None
) -> NetChange:
    found = put(before, values, position, place)
    assert found is not None
    return found


def gone(before: NetChange | None, position: int | None) -> NetChange:
    found = remove(before, 1, position, LATER)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("first", "last", "applies_up_to"), [(5, 7, 7), (None, 7, ALWAYS), (5, None, ALWAYS), (None, None, ALWAYS)]
)
def test_a_row_is_removed_unless_it_is_newer_than_all_that_is_known(
    first: int | None, last: int | None, applies_up_to: int
) -> None:
    """One event without a position counts whatever it meets, and so does what follows from it."""
    for before in (made(("a",), first), gone(None, first)):
        found = gone(before, last)
        assert (found.put, found.position, found.applies_up_to) == (False, last, applies_up_to)
        assert made(("b",), last, LATER, before) == NetChange(True, ("b",), None, last, applies_up_to, LATER)
        assert made((KEEP,), last, LATER, before).applies_up_to == applies_up_to
    assert gone(None, last).applies_up_to == (ALWAYS if last is None else last)


def test_what_lies_below_the_row_s_last_event_is_passed_over_and_what_lies_at_it_is_not() -> None:
    for before in (made(("a", KEEP), 5), gone(None, 5)):
        for values in (("b", "c"), ("b", KEEP)):
            assert put(before, values, 4, LATER) is None
            assert put(before, values, 5, LATER) is not None
            assert move(None, (1,), before, values, 4, LATER) is None
            assert move(None, (1,), before, values, 5, LATER) is not None
        assert remove(before, 2, 4, LATER) is None
        assert remove(before, 2, 5, LATER) is not None


def test_only_a_row_of_which_a_column_is_missing_has_positions_by_column() -> None:
    """Where every row is whole, the target is merged without a look at each column."""
    assert made(("a", "b"), 5).column_positions is None
    assert made(("a", KEEP), 5).column_positions == (5, NEVER)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (made(("a", KEEP), None), made(("b", KEEP), None, LATER)),
        (made(("a", KEEP), 5), made(("b", KEEP), 5, LATER)),
        (made(("a", KEEP), 4), made(("b", KEEP), 5)),
    ],
)
def test_of_two_queues_the_later_one_s_column_counts(first: NetChange, last: NetChange) -> None:
    for found in (merged(first, last), merged(last, first)):
        assert (found.values, found.column_positions) == (("b", KEEP), (last.applies_up_to, NEVER))


def test_a_truncate_without_a_position_takes_from_a_row_only_what_its_event_does_not_say() -> None:
    found = truncated(made(("a", KEEP), 5), None, before_it=False)
    assert (found.put, found.values, found.column_positions) == (True, ("a", None), (5, ALWAYS))


@pytest.mark.parametrize(("row", "truncate", "is_there"), [(4, 5, False), (5, 5, True), (6, 5, True)])
@pytest.mark.parametrize("before_it", [True, False])
def test_a_truncate_removes_what_is_below_it_in_whatever_order_they_came(
    row: int, truncate: int, is_there: bool, before_it: bool
) -> None:
    assert truncated(made(("a",), row), truncate, before_it=before_it).put is is_there


@pytest.mark.parametrize(
    ("row", "truncate", "applies_up_to"), [(None, 5, ALWAYS), (4, 5, 5), (5, None, ALWAYS), (None, None, ALWAYS), (None, 0, ALWAYS)]
)
def test_what_a_truncate_removed_counts_from_the_higher_of_both_on(
    row: int | None, truncate: int | None, applies_up_to: int
) -> None:
    found = truncated(made(("a",), row), truncate, before_it=True)
    assert (found.put, found.applies_up_to) == (False, applies_up_to)


def test_a_row_newer_than_the_truncate_has_what_it_lacked_from_nobody() -> None:
    """Of the row that it meets, and of the one that it had another key before, what is older is gone; what is newer counts."""
    here = replace(made(("a", KEEP, KEEP), 7), column_positions=(7, NEVER, 6))
    found = truncated(here, 6, before_it=False)
    assert (found.values, found.column_positions) == (("a", None, KEEP), (7, 6, 6))
    old = replace(made(("a", "b", KEEP), 7), column_positions=(7, 3, NEVER), moved=FormerRow((1,), 7, FIRST))
    found = truncated(old, 6, before_it=False)
    assert (found.values, found.column_positions, found.moved) == (("a", None, KEEP), (7, 6, 6), old.moved)
    assert truncated(old, None, before_it=False).moved is None


@pytest.mark.parametrize(
    ("first", "last", "applies_up_to"),
    [(5, 4, None), (5, 5, 5), (5, 6, 6), (None, 6, ALWAYS), (5, None, ALWAYS), (None, None, ALWAYS)],
)
@pytest.mark.parametrize("value", ["b", KEEP])
def test_an_upsert_counts_unless_its_row_is_newer(
    first: int | None, last: int | None, applies_up_to: int | None, value: object
) -> None:
    before = made(("a", "x"), first)
    assert before.column_positions is None, "all of it was said"
    found = put(before, (value, "y"), last, LATER)
    assert (None if found is None else found.applies_up_to) == applies_up_to
    if found is not None and value is KEEP:
        assert (found.values, found.column_positions) == (("a", "y"), (before.applies_up_to, applies_up_to))


@pytest.mark.parametrize(("first", "last", "applies_up_to"), [(5, 7, 7), (None, 7, ALWAYS), (5, None, ALWAYS)])
def test_of_two_queues_one_event_without_a_position_counts_whatever_it_meets(
    first: int | None, last: int | None, applies_up_to: int
) -> None:
    assert merged(made(("a",), first), made(("b",), last, LATER)).applies_up_to == applies_up_to


def test_a_row_that_says_all_of_itself_takes_nothing_along() -> None:
    origin = made(("a", "b"), 4)
    for values in (("c", "d"), ("c", KEEP)):
        found = move(origin, (1,), None, values, 5, LATER)
        assert found is not None
        assert (found.values, found.column_positions, found.moved) == (("c", "d" if values[1] == "d" else "b"), None, None)


@pytest.mark.parametrize(("position", "value"), [(4, "b"), (5, "b"), (6, KEEP)])
def test_a_row_takes_along_what_the_target_has_of_it_unless_that_is_newer(position: int, value: object) -> None:
    found = move(None, (1,), None, ("a", KEEP), 5, FIRST)
    assert found is not None
    nets = {(2,): found}
    finished(nets, None, {(1,): TargetRow(("old", "b"), position)})
    assert (nets[2,].values, nets[2,].moved) == (("a", value), None)


@pytest.mark.parametrize(("place", "value"), [(FIRST, "of another queue"), (LATER, KEEP)])
def test_a_row_takes_along_what_another_queue_told_of_it(place: tuple[int, int], value: object) -> None:
    found = move(None, (1,), None, ("a", KEEP), 5, FIRST)
    assert found is not None
    there = remove(made(("old", "of another queue"), 4, LATER), 2, 5, place)
    assert there is not None
    nets = {(1,): there, (2,): found}
    finished(nets, None, {})
    assert nets[2,].values == ("a", value)


def test_a_truncate_leaves_a_column_that_was_said_at_its_own_position() -> None:
    for said, values in ((5, ("a", None)), (4, (None, None))):
        net = replace(made(("b", KEEP), 9), values=("a", KEEP), column_positions=(said, NEVER))
        assert truncated(net, 5, before_it=False).values == values


def test_a_row_s_removal_after_another_queue_s_event_knows_the_row_and_counts_whatever_it_meets_if_that_did() -> None:
    for position, applies_up_to in ((4, 5), (None, ALWAYS)):
        removed = NetChange(False, (KEEP, "b"), None, 5, 5, LATER)
        assert merged(made(("a", "c"), position), removed) == NetChange(False, ("a", "b"), None, 5, applies_up_to, LATER)


FROM = FormerRow((1,), 5, LATER)


@pytest.mark.parametrize(
    ("origin", "before", "values", "wanted"),
    [
        # Nobody knows the origin: its columns are looked up.
        (None, None, ("a", KEEP), NetChange(True, ("a", KEEP), (5, NEVER), 5, 5, LATER, FROM)),
        # The origin is known: nothing is left to be looked up.
        (made(("b", "c"), 4), None, ("a", KEEP), NetChange(True, ("a", "c"), None, 5, 5, LATER)),
        (made(("b", "c"), 5), None, ("a", KEEP), NetChange(True, ("a", "c"), None, 5, 5, LATER)),
        # The origin is known in part.
        (made(("b", KEEP), 4), None, ("a", KEEP), NetChange(True, ("a", KEEP), (5, NEVER), 5, 5, LATER, FROM)),
        # The event says all.
        (made(("b", "c"), 4), None, ("a", "d"), NetChange(True, ("a", "d"), None, 5, 5, LATER)),
        # A repetition: the origin is gone, or is another row by now.
        (gone(None, 4), None, ("a", KEEP), NetChange(True, ("a", KEEP), (5, NEVER), 5, 5, LATER)),
        (made(("b", "c"), 6), None, ("a", KEEP), NetChange(True, ("a", KEEP), (5, NEVER), 5, 5, LATER)),
        # It meets an event without a position.
        (None, made(("b", "c"), None), ("a", KEEP), NetChange(True, ("a", KEEP), (ALWAYS, NEVER), 5, ALWAYS, LATER, FROM)),
    ],
)
def test_a_row_that_moves_takes_along_what_its_event_does_not_say(
    origin: NetChange | None, before: NetChange | None, values: tuple[object, ...], wanted: NetChange
) -> None:
    assert move(origin, (1,), before, values, 5, LATER) == wanted


@pytest.mark.parametrize(
    ("origin", "there", "found"),
    [
        (None, None, None),
        (None, TargetRow(("old", "of target"), 5), ("old", "of target")),
        (None, TargetRow(("old", "of target"), 6), None),
        # Removed by the move itself: what was known of it counts before the target.
        (NetChange(False, ("b", KEEP), None, 5, 5, LATER), TargetRow(("old", "of target"), 4), ("b", "of target")),
        (NetChange(False, ("b", KEEP), None, 5, 5, LATER), None, ("b", None)),
        (NetChange(False, (KEEP, KEEP), None, 5, 5, LATER), None, None),
        # Of another event.
        (NetChange(False, ("b", "c"), None, 6, 6, (1, 1)), None, None),
        (NetChange(True, ("b", "c"), None, 5, 5, LATER), None, None),
    ],
)
def test_a_row_that_moved_is_filled_from_what_its_event_removed_and_from_the_target(
    origin: NetChange | None, there: TargetRow | None, found: tuple[object, ...] | None
) -> None:
    net = NetChange(True, (KEEP, KEEP), (NEVER, NEVER), 5, 5, LATER, FROM)
    nets = {(2,): net} if origin is None else {(1,): origin, (2,): net}
    finished(nets, None, {} if there is None else {(1,): there})
    assert nets[2,] == filled(net, found)
