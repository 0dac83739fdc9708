"""How old a message is, by looks at the end of its queue."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.operators.store_times import PART_MAX, StoreTimeMark, StoreTimes

SECOND = 1_000
LOOK = 30 * SECOND
NOTHING = StoreTimes(LOOK)


def looked(*looks: tuple[int, int, int], times: StoreTimes = NOTHING) -> StoreTimes:
    """After looks that found an end of the queue, the store time of the last entry, and the time."""
    for offset, stored_ms, now_ms in looks:
        times = times.with_mark(StoreTimeMark(offset, stored_ms, now_ms))
    return times


def test_one_look_tells_nothing_of_what_was_there() -> None:
    times = looked((100, 5 * SECOND, 9 * SECOND))
    assert times.stored_ms(99, 10 * SECOND) is None
    assert NOTHING.stored_ms(0, 10 * SECOND) is None


def test_what_came_between_two_looks_came_evenly() -> None:
    times = looked((100, 0, 60 * SECOND), (110, 90 * SECOND, 90 * SECOND))
    now_ms = 95 * SECOND
    assert [times.stored_ms(offset, now_ms) for offset in (100, 104, 109)] == [63 * SECOND, 75 * SECOND, 90 * SECOND]
    assert times.stored_ms(99, now_ms) is None  # nobody was there
    assert times.stored_ms(110, now_ms) is None  # not there yet


def test_a_quiet_queue_gives_the_next_message_its_time() -> None:
    """The end stood at one place for long, so the time of the last look counts, not that of the first."""
    quiet = looked(*((100, 0, minute * 60 * SECOND) for minute in range(60)))
    assert len(quiet.marks) == 1
    times = looked((101, 3_541 * SECOND, 3_570 * SECOND), times=quiet)
    assert times.stored_ms(100, 3_570 * SECOND) == 3_541 * SECOND


def test_a_long_gap_is_no_answer_until_a_message_is_read() -> None:
    times = looked((100, 0, 0), (200, 3_600 * SECOND, 3_600 * SECOND))
    now_ms = 3_600 * SECOND
    assert times.stored_ms(150, now_ms) is None
    read = times.with_message(150, 1_800 * SECOND)
    assert read.stored_ms(150, now_ms) == 1_800 * SECOND
    assert read.stored_ms(151, now_ms) is None
    # A tenth of its age: it does not matter any more.
    assert read.stored_ms(151, 30_000 * SECOND) is not None


@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=600))
def test_an_estimate_is_as_near_as_is_said(seed: int, looks: int) -> None:
    """Messages at random times, looks at random times, some messages read: whatever is told is right, also once marks were dropped."""
    rng = random.Random(seed)
    end_ms = 2_000 * LOOK
    stored = sorted(rng.randrange(end_ms) for _ in range(300))
    times = NOTHING
    for now_ms in sorted(rng.randrange(end_ms) for _ in range(looks)):
        end = sum(at <= now_ms for at in stored)
        times = times.with_mark(StoreTimeMark(end, stored[end - 1] if end else 0, now_ms)).thinned(0, now_ms)
    for _ in range(20):
        offset = rng.randrange(len(stored))
        times = times.with_message(offset, stored[offset])
    for offset, at in enumerate(stored):
        told = times.stored_ms(offset, end_ms)
        if told is not None:
            assert abs(told - at) <= max(LOOK, PART_MAX * (end_ms - min(at, told))) + 1


def test_marks_of_days_are_few_and_every_age_is_known() -> None:
    times, now_ms = NOTHING, 0
    for look in range(3 * 24 * 120):
        now_ms = look * LOOK
        times = times.with_mark(StoreTimeMark(10 * look, now_ms, now_ms)).thinned(0, now_ms)
        assert len(times.marks) <= 258
    unknown = [offset for offset in range(0, 10 * (3 * 24 * 120 - 1), 997) if times.stored_ms(offset, now_ms) is None]
    assert not unknown


@pytest.mark.parametrize(("earliest", "left"), [(0, [0, 10, 20, 30]), (10, [10, 20, 30]), (15, [10, 20, 30]), (30, [30])])
def test_what_retention_took_is_forgotten(earliest: int, left: list[int]) -> None:
    times = looked(*((offset, offset, offset) for offset in (0, 10, 20, 30)))
    assert [mark.offset for mark in times.thinned(earliest, 40).marks] == left
