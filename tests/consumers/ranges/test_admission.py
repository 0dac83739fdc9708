from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.ranges.admission import OffsetRun, RowSizes, admitted, held_back, in_whole_groups, packed
from penstock.log.format.growth import Growth

NOTHING_KNOWN = RowSizes({}, row_bytes=100)
AVAILABLE = st.dictionaries(
    st.integers(0, 40), st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)).map(lambda at: (at[0], at[0] + at[1])), max_size=12
)


def test_without_limits_all_that_is_there_is_taken() -> None:
    assert admitted({0: (5, 9), 1: (0, 0)}, rows_max=None, bytes_max=None, sizes=NOTHING_KNOWN) == {0: 9, 1: 0}


def test_a_limit_is_shared_evenly_and_what_a_quiet_queue_leaves_goes_to_the_busy_ones() -> None:
    ends = admitted({0: (0, 1000), 1: (0, 3), 2: (100, 1000)}, rows_max=43, bytes_max=None, sizes=NOTHING_KNOWN)
    assert ends == {0: 20, 1: 3, 2: 120}


def test_what_cannot_be_divided_goes_to_the_queue_that_is_furthest_behind() -> None:
    assert admitted({0: (0, 10), 1: (0, 50), 2: (0, 20)}, rows_max=1, bytes_max=None, sizes=NOTHING_KNOWN) == {0: 0, 1: 1, 2: 0}


def test_bytes_limit_by_what_the_files_of_the_table_say() -> None:
    sizes = RowSizes({0: [OffsetRun(0, 100, 10_000), OffsetRun(100, 200, 100_000)]}, row_bytes=1000)
    assert sizes.bytes_of(0, 50, 110) == 50 * 100 + 10 * 1000
    assert sizes.bytes_of(0, 190, 210) == 10 * 1000 + 10 * 1000
    assert admitted({0: (50, 300)}, rows_max=None, bytes_max=20_000, sizes=sizes) == {0: 115}
    assert admitted({0: (50, 300)}, rows_max=60, bytes_max=20_000, sizes=sizes) == {0: 110}


def test_a_row_larger_than_the_limit_is_taken_alone() -> None:
    assert admitted({0: (7, 9), 1: (3, 8)}, rows_max=None, bytes_max=10, sizes=NOTHING_KNOWN) == {0: 7, 1: 4}


def test_at_most_one_row_group_is_divided_and_the_queue_furthest_behind_gets_its_own_whole() -> None:
    available, groups = {0: (0, 200), 1: (0, 300), 2: (0, 20)}, {0: (60, 120), 1: (60, 120)}
    ends = admitted(available, rows_max=220, bytes_max=None, sizes=NOTHING_KNOWN)
    assert ends == {0: 100, 1: 100, 2: 20}
    moved = in_whole_groups(available, ends, groups, rows_max=220, bytes_max=None, sizes=NOTHING_KNOWN)
    assert moved == {0: 80, 1: 120, 2: 20}
    moved = in_whole_groups(available, ends, groups, rows_max=None, bytes_max=22_000, sizes=NOTHING_KNOWN)
    assert moved == {0: 80, 1: 120, 2: 20}


def test_a_queue_that_begins_in_the_row_group_keeps_its_share() -> None:
    available, groups = {0: (10, 200), 1: (0, 200), 2: (0, 200)}, {0: (5, 65), 1: (0, 60), 2: (30, 90)}
    ends = {0: 50, 1: 40, 2: 40}
    moved = in_whole_groups(available, ends, groups, rows_max=120, bytes_max=None, sizes=NOTHING_KNOWN)
    assert moved == {0: 50, 1: 40, 2: 40}


@given(AVAILABLE, st.integers(1, 10**6), st.none() | st.integers(1, 10**8), st.integers(1, 10**5))
def test_whole_row_groups_stay_within_the_limits(
    available: dict[int, tuple[int, int]], rows_max: int, bytes_max: int | None, group_rows: int
) -> None:
    limits = {"rows_max": rows_max, "bytes_max": bytes_max}
    ends = admitted(available, **limits, sizes=NOTHING_KNOWN)
    groups = {queue: (end // group_rows * group_rows, (end // group_rows + 1) * group_rows) for queue, end in ends.items()}
    moved = in_whole_groups(available, ends, groups, **limits, sizes=NOTHING_KNOWN)
    assert all(start <= moved[queue] <= limit for queue, (start, limit) in available.items())
    assert all(moved[queue] > start for queue, (start, _) in available.items() if ends[queue] > start)
    before, after = (sum(at[queue] - start for queue, (start, _) in available.items()) for at in (ends, moved))
    assert after <= before if bytes_max is None else after <= rows_max and (before <= 1 or after * 100 <= bytes_max)
    divided = [
        queue
        for queue, (start, limit) in available.items()
        if start < groups[queue][0] < moved[queue] < min(limit, groups[queue][1])
    ]
    assert len(divided) <= 1


@given(AVAILABLE, st.none() | st.integers(1, 10**6), st.none() | st.integers(1, 10**8))
def test_limits_hold_and_every_trigger_moves(
    available: dict[int, tuple[int, int]], rows_max: int | None, bytes_max: int | None
) -> None:
    ends = admitted(available, rows_max=rows_max, bytes_max=bytes_max, sizes=NOTHING_KNOWN)
    taken = {queue: ends[queue] - start for queue, (start, _) in available.items()}
    assert all(0 <= taken[queue] <= limit - start for queue, (start, limit) in available.items())
    there = sum(limit - start for start, limit in available.values())
    assert sum(taken.values()) <= (there if rows_max is None else rows_max)
    if bytes_max is not None and sum(taken.values()) > 1:
        assert sum(taken.values()) * 100 <= bytes_max
    if bytes_max is None:
        assert sum(taken.values()) == min(there, there if rows_max is None else rows_max)
    assert (sum(taken.values()) > 0) == (there > 0)


@given(AVAILABLE, st.integers(1, 8))
def test_queues_are_packed_whole_and_about_evenly(ranges: dict[int, tuple[int, int]], tasks_max: int) -> None:
    tasks = packed(ranges, tasks_max=tasks_max, sizes=NOTHING_KNOWN)
    with_rows = {queue: at for queue, at in ranges.items() if at[1] > at[0]}
    assert len(tasks) == min(tasks_max, len(with_rows))
    assert {queue: at for task in tasks for queue, at in task.items()} == with_rows
    weights = [sum(limit - start for start, limit in task.values()) for task in tasks]
    largest = max((limit - start for start, limit in with_rows.values()), default=0)
    assert max(weights, default=0) - min(weights, default=0) <= largest


GROWN = (Growth(5, 2, (3, 7)), Growth(9, 3, (4, 8, 0, 2)))
"""From 2 to 4 to 8 queues."""


def test_a_new_queue_waits_for_all_its_former_queues() -> None:
    stored = {0: 9, 1: 9, 2: 5, 3: 5, 4: 5, 5: 5, 6: 5, 7: 5}

    def taken(starts: dict[int, int]) -> set[int]:
        available = {queue: (starts.get(queue, 0), limit) for queue, limit in stored.items()}
        return {queue for queue, (start, limit) in held_back(available, GROWN).items() if limit > start}

    assert taken({}) == {0, 1}
    assert taken({0: 3}) == {0, 1, 2, 6}, "queue 6 has a mark of 0 in queue 2, which waits for queue 0"
    assert taken({0: 4}) == {0, 1, 2, 4, 6}
    assert taken({0: 9, 1: 7}) == {1, 2, 3, 4, 6}
    assert taken({0: 9, 1: 8, 3: 2}) == {1, 2, 3, 4, 5, 6, 7}
    assert held_back({6: (0, 5)}, GROWN) == {6: (0, 5)}, "a read of this queue alone"
    assert held_back({0: (1, 2)}, ()) == {0: (1, 2)}
