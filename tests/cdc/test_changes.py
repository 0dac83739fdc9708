"""Net changes of one row, and what they do to the row that they meet."""

from __future__ import annotations

import pytest

from penstock.cdc.changes import ALWAYS, NEVER, Net, merged, put, remove, truncated
from penstock.cdc.types import KEEP

FIRST, LATER = (0, 0), (1, 0)


def made(values: tuple[object, ...], position: int | None, place: tuple[int, int] = FIRST, before: Net | None = None) -> Net:
    found = put(before, values, position, place)
    assert found is not None
    return found


def gone(before: Net | None, position: int | None) -> Net:
    found = remove(before, 1, position, LATER)
    assert found is not None
    return found


@pytest.mark.parametrize(("first", "last", "level"), [(5, 7, 7), (None, 7, ALWAYS), (5, None, ALWAYS), (None, None, ALWAYS)])
def test_a_row_is_removed_unless_it_is_newer_than_all_that_is_known(first: int | None, last: int | None, level: int) -> None:
    """One event without a position counts whatever it meets, and so does what follows from it."""
    for before in (made(("a",), first), gone(None, first)):
        found = gone(before, last)
        assert (found.put, found.position, found.level) == (False, last, level)
    assert gone(None, last).level == (ALWAYS if last is None else last)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (made(("a", KEEP), None), made(("b", KEEP), None, LATER)),
        (made(("a", KEEP), 5), made(("b", KEEP), 5, LATER)),
        (made(("a", KEEP), 4), made(("b", KEEP), 5)),
    ],
)
def test_of_two_queues_the_later_one_s_column_counts(first: Net, last: Net) -> None:
    for found in (merged(first, last), merged(last, first)):
        assert (found.values, found.since) == (("b", KEEP), (last.level, NEVER))


def test_a_truncate_without_a_position_takes_from_a_row_only_what_its_event_does_not_say() -> None:
    found = truncated(made(("a", KEEP), 5), None, before_it=False)
    assert (found.put, found.values, found.since) == (True, ("a", None), (5, ALWAYS))
