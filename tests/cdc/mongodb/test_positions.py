"""The numbers of a change stream's events: above those before, below those behind, and told by envelopes as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.capture.positions import is_between
from penstock.cdc.cuts.places import captures_between, place_of
from penstock.cdc.events.debezium import position_of
from penstock.cdc.mongodb.positions import (
    EPOCH_S,
    ClusterTime,
    before,
    between,
    envelope_position,
    read_at,
    sequence_of,
    time_of,
    time_of_token,
)
from penstock.log.errors import LimitExceeded

TIMES = st.builds(ClusterTime, st.integers(EPOCH_S, EPOCH_S + (1 << 31) - 1), st.integers(1, (1 << 18) - 1))
INDEXES = st.integers(0, 16_000)


@given(TIMES, INDEXES, TIMES, INDEXES)
def test_numbers_are_in_the_order_of_the_stream(time: ClusterTime, index: int, later: ClusterTime, at: int) -> None:
    (time, index), (later, at) = sorted(((time, index), (later, at)))
    assert sequence_of(time, index) <= sequence_of(later, at) < 1 << 63
    assert (sequence_of(time, index) == sequence_of(later, at)) == ((time, index) == (later, at))


@given(TIMES, INDEXES, st.integers(0, 1000))
def test_a_place_is_behind_its_time_and_before_the_next(time: ClusterTime, index: int, snapshot: int) -> None:
    place = between(time, snapshot)
    assert sequence_of(time, index) < place
    assert is_between(place)
    assert not is_between(sequence_of(time, index))
    assert between(before(time), snapshot) < sequence_of(time, 0)
    assert time_of(place) == time
    assert place_of("mongodb/penstock", place) == f"{time.sec}:{time.ord}"
    assert place_of("mongodb/penstock", sequence_of(time, index)) is None


def test_a_transaction_of_more_changes_runs_into_times_that_mongodb_leaves_free() -> None:
    time = ClusterTime(EPOCH_S + 9, 3)
    numbers = [sequence_of(time, index) for index in range(50_000)]
    assert numbers == sorted({*numbers})
    assert not any(map(is_between, numbers))
    assert numbers[-1] < between(time, 7, last=numbers[-1]) < sequence_of(ClusterTime(EPOCH_S + 9, 3 + 50_000), 0)


@given(TIMES, INDEXES)
def test_what_was_read_with_a_time_s_changes_stands_above_them(time: ClusterTime, index: int) -> None:
    assert sequence_of(time, index) < read_at(time, emptied=True) < read_at(time) < between(time, 0)


@given(TIMES, INDEXES)
def test_a_sync_makes_the_number_again(time: ClusterTime, index: int) -> None:
    number = sequence_of(time, index)
    commit, order = envelope_position(number)
    assert position_of({"sequence": f'["{commit}"]'}, {"total_order": order}) == number


def test_documents_that_were_read_wait_for_a_place_that_has_caught_up() -> None:
    time = ClusterTime(EPOCH_S + 9, 3)
    rows = {"mongodb/penstock/rows": (1 << 40) + 5}  # of the second snapshot
    assert captures_between({"mongodb/penstock": between(time, 0), **rows}) is None
    assert captures_between({"mongodb/penstock": between(time, 1), **rows}) is not None


@pytest.mark.parametrize(
    ("token", "time"),
    [
        ("826B09C807000000062B022C0100296E5A1004", ClusterTime(0x6B09C807, 6)),
        ("826B09C1B0000000 1C", None),
        ("806B09C807000000062B02", None),
        ("82", None),
        ("", None),
    ],
)
def test_the_time_of_a_token(token: str, time: ClusterTime | None) -> None:
    assert time_of_token(token) == time


@pytest.mark.parametrize("time", [ClusterTime(EPOCH_S - 1, 0), ClusterTime(EPOCH_S + (1 << 31), 0), ClusterTime(EPOCH_S, 1 << 18)])
def test_a_time_that_does_not_fit(time: ClusterTime) -> None:
    with pytest.raises(LimitExceeded, match="does not fit"):
        sequence_of(time, 0)
