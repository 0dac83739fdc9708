"""The pure decisions of table upkeep: what to merge, what has expired, what a Bloom filter admits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import InvalidArgument
from penstock.log.table.compactor import SPAN_MS, plan
from penstock.log.table.delta.actions import RemoveFile
from penstock.log.table.delta.lookup import Lookup, block_admits
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.snapshot import Snapshot, apply
from penstock.log.table.retention import RetentionPolicy, expired_files

DAY_MS = 86_400_000


def files(*sizes: int, every_ms: int = DAY_MS) -> tuple[TableFile, ...]:
    """Files of ten rows each."""
    return tuple(
        TableFile(f"f{n}", 0, n * 10, n * 10 + 10, 10, size, n * every_ms, n * every_ms + 5) for n, size in enumerate(sizes)
    )


def fresh(*sizes: int) -> tuple[TableFile, ...]:
    """Files as a publisher makes them: one every three seconds."""
    return files(*sizes, every_ms=3000)


def test_small_neighbours_are_merged_and_large_ones_left() -> None:
    small = fresh(*[1000] * 8)
    assert list(plan(small)) == list(small)
    assert list(plan(small[:7])) == []
    assert list(plan(fresh(*[1000] * 7, 10**9, *[1000] * 7))) == []
    mixed = fresh(10**9, *[1000] * 9, 10**9)
    assert list(plan(mixed)) == list(mixed[1:10])


def test_a_merged_file_is_not_written_again_for_a_few_small_ones() -> None:
    merged = 500_000
    assert list(plan(fresh(merged, *[1000] * 7))) == []
    taken = plan(fresh(merged, *[1000] * 8))
    assert [file.size_bytes for file in taken] == [1000] * 8
    assert len(plan(fresh(*[merged] * 8))) == 8


def test_halves_of_the_target_are_merged_at_once() -> None:
    assert len(plan(fresh(40, 40, 40), target_bytes=100)) == 2
    assert len(plan(fresh(50, 50), target_bytes=100)) == 2
    assert len(plan(fresh(25, 25), target_bytes=100)) == 2
    assert len(plan(fresh(25, 24), target_bytes=100)) == 0


def test_a_merged_file_covers_hours_not_days() -> None:
    assert list(plan(files(*[1000] * 30))) == []
    assert len(plan(files(*[1000] * 30, every_ms=3600 * 1000), fan_in=5)) == 6


@given(st.lists(st.integers(1, 200), max_size=40), st.integers(50, 400), st.integers(2, 9))
def test_a_plan_is_a_run_of_neighbours_within_the_target(sizes: list[int], target: int, fan_in: int) -> None:
    given_files = fresh(*sizes)
    run = list(plan(given_files, target_bytes=target, fan_in=fan_in))
    if run:
        start = given_files.index(run[0])
        assert run == list(given_files[start : start + len(run)])
        assert len(run) > 1
        assert sum(file.size_bytes for file in run) <= target


def test_a_large_file_or_a_long_silence_ends_a_run_that_is_worth_it() -> None:
    assert len(plan(fresh(40, 40, 51, 1, 1, 1, 1), target_bytes=100, fan_in=4)) == 2
    early, late = fresh(*[1000] * 8), [replace(file, store_last_ms=SPAN_MS + 1) for file in fresh(*[1000] * 8)]
    assert list(plan([*early, *late])) == list(early)
    at_the_limit = replace(early[-1], store_last_ms=SPAN_MS)
    assert len(plan([*early[:-1], at_the_limit])) == 8


def test_files_expire_when_their_newest_row_is_too_old() -> None:
    policy = RetentionPolicy(timedelta(days=3), None)
    assert len(expired_files(files(1, 1, 1), policy, now_ms=3 * DAY_MS + 5)) == 0
    assert len(expired_files(files(1, 1, 1), policy, now_ms=3 * DAY_MS + 6)) == 1
    assert len(expired_files(files(1, 1, 1), policy, now_ms=99 * DAY_MS)) == 3
    assert len(expired_files(files(1, 1, 1), RetentionPolicy(None, None), now_ms=99 * DAY_MS)) == 0


def test_a_file_does_not_expire_sooner_than_it_was_made() -> None:
    late = [replace(file, modified_ms=5 * DAY_MS) for file in files(1)]
    policy = RetentionPolicy(timedelta(days=3), None)
    assert len(expired_files(late, policy, now_ms=8 * DAY_MS)) == 0
    assert len(expired_files(late, policy, now_ms=8 * DAY_MS + 1)) == 1
    guarded = RetentionPolicy(timedelta(days=3), 0)
    assert len(expired_files([*late, *files(1)], guarded, now_ms=19 * DAY_MS - 1, guard=0)) == 0
    assert len(expired_files([*late, *files(1)], guarded, now_ms=19 * DAY_MS, guard=0)) == 2


def test_files_expire_beyond_the_size_but_never_the_newest() -> None:
    policy = RetentionPolicy(None, 100)
    assert len(expired_files(files(50, 50), policy, now_ms=0)) == 0
    assert len(expired_files(files(50, 50, 1), policy, now_ms=0)) == 1
    assert len(expired_files(files(500, 500), policy, now_ms=0)) == 1


def test_the_guard_stops_retention_for_two_weeks() -> None:
    policy = RetentionPolicy(timedelta(days=3), 1)
    assert len(expired_files(files(1, 1, 1), policy, now_ms=13 * DAY_MS, guard=15)) == 1
    assert len(expired_files(files(1, 1, 1), policy, now_ms=13 * DAY_MS, guard=20)) == 2
    assert len(expired_files(files(1, 1, 1), policy, now_ms=13 * DAY_MS, guard=0)) == 0
    assert len(expired_files(files(1, 1, 1), policy, now_ms=99 * DAY_MS, guard=0)) == 3


@given(st.lists(st.integers(1, 100), max_size=12), st.integers(0, 20), st.integers(1, 400), st.integers(0, 150))
def test_what_expires_is_a_prefix_that_respects_size_and_guard(sizes: list[int], now_days: int, size: int, guard: int) -> None:
    given_files = files(*sizes)
    gone = expired_files(given_files, RetentionPolicy(timedelta(days=3), size), now_ms=now_days * DAY_MS, guard=guard)
    assert list(gone) == list(given_files[: len(gone)])
    assert all(file.limit_offset <= guard or file.store_last_ms <= (now_days - 14) * DAY_MS for file in gone)
    for file in gone:
        rest = given_files[given_files.index(file) :]
        assert file.store_last_ms < (now_days - 3) * DAY_MS or sum(f.size_bytes for f in rest) > size


def test_a_block_admits_what_was_put_into_it_only() -> None:
    assert not block_admits(bytes(32), 0x1234567890ABCDEF)
    assert block_admits(b"\xff" * 32, 0x1234567890ABCDEF)
    words = np.zeros(8, dtype="<u4")
    words[3] = 0xFFFFFFFF
    assert not block_admits(words.tobytes(), 0x1234567890ABCDEF)


def test_a_lookup_asks_for_something() -> None:
    with pytest.raises(InvalidArgument, match="nothing to look up"):
        Lookup()


def test_lost_ranges_are_those_of_the_queue_in_order() -> None:
    txns = {"penstock/queue/1/lost/7": 9, "penstock/queue/11/lost/1": 2, "penstock/queue/1/lost/0": 3, "penstock/queue/1/end": 12}
    snapshot = Snapshot("table", txns=txns)
    assert snapshot.lost(1) == [(0, 3), (7, 9)]
    assert (snapshot.end(1), snapshot.end(2), snapshot.start(1), snapshot.published) == (12, 0, 0, -1)


def test_a_queue_whose_files_are_all_taken_out_has_none() -> None:
    one, other = files(1, 1)
    before = apply(Snapshot("table"), [(0, [one, replace(other, queue=1, path="g")])])
    assert set(before.files) == {0, 1}
    assert before.exists
    assert not Snapshot("table").exists
    after = apply(before, [(1, [RemoveFile(one.path, 5)])])
    assert after.files == {1: before.files[1]}
    assert after.removed == {one.path: 5}
    assert apply(after, [(2, [one])]).removed == {}
    assert after.forget_removes(5).removed == after.removed
    assert after.forget_removes(6).removed == {}
