"""Handlers so quick that all message groups share one lane, and that grants and successes share a write."""

from __future__ import annotations

import math

import penstock
from penstock.consumers import MemoryMetrics
from penstock.consumers.limits import QueueLimits
from penstock.consumers.schedule.pace import HandlerPace
from penstock.consumers.statistics import CELL_WRITES
from tests.consumers.heard import Heard, fill, until_settled
from tests.consumers.test_shared_lanes import Queue, begin, end, offsets


def quick(groups: str, *, took_s: float, threads: int = 4) -> Queue:
    queue = Queue(groups, shared_lanes=threads)
    queue.schedule.pace.note(100, 100 * took_s)
    return queue


def test_nothing_is_expected_before_something_was_seen_and_the_last_counts_most() -> None:
    pace = HandlerPace()
    assert pace.expected_s(1) == math.inf
    pace.note(1_000, 1.0)
    assert pace.expected_s(5) == 0.005
    for _ in range(10):
        pace.note(1_000, 0.0)
    assert 0 < pace.expected_s(5) < 0.0001


def test_few_groups_share_a_lane_while_handlers_are_quick() -> None:
    queue = quick("abcabc", took_s=0.0001)
    queue.load(6)
    _, runs = queue.plan()
    assert offsets(runs) == [[*range(6)]]


def test_few_groups_have_lanes_of_their_own_where_all_would_take_long() -> None:
    queue = quick("abcabc", took_s=0.001)
    queue.load(6)
    _, runs = queue.plan()
    assert offsets(runs) == [[0, 3], [1, 4], [2, 5]]


def test_a_lane_is_shared_no_more_once_handlers_are_slow_and_it_has_nothing() -> None:
    queue = quick("abcabc" + "abc" + "abc", took_s=0.0001)
    queue.load(6)
    _, (run,) = queue.plan()
    queue.schedule.pace.note(10_000, 1_000.0)
    queue.load(9)
    assert queue.plan() == ([], []), "something of these groups is in the lane"
    end(queue.schedule, run)
    (rest,), _ = queue.plan()
    assert rest.messages.offsets == [6, 7, 8]
    end(queue.schedule, rest)
    queue.plan()
    queue.load(12)
    _, runs = queue.plan()
    assert offsets(runs) == [[9], [10], [11]]


def test_many_groups_share_more_lanes_again_once_nothing_is_in_the_one() -> None:
    queue = quick("abcdefgh" * 2, took_s=0.0001, threads=2)
    queue.load(8)
    _, (run,) = queue.plan()
    queue.schedule.pace.note(10_000, 1_000.0)
    end(queue.schedule, run)
    queue.plan()
    queue.load(16)
    _, runs = queue.plan()
    assert sorted(offset for run in runs for offset in run.messages.offsets) == [*range(8, 16)]
    assert len(runs) == 2


def test_who_was_expected_to_be_quick_and_is_not_holds_nobody_up() -> None:
    """However short each of its handlers is."""
    queue = quick("abcabc", took_s=0.0001, threads=QueueLimits().shared_lanes)
    queue.load(6)
    _, (run,) = queue.plan()
    begin(run, 3)
    run.began_s, run.since_s = 0.0, 0.9
    assert queue.schedule.spread(0.0) == ([], 0)
    runs, taken_back = queue.schedule.spread(0.5)
    assert (offsets(runs), taken_back) == ([[3], [4]], 3)


def test_done_messages_make_room_before_they_are_settled() -> None:
    queue = quick("abcabc", took_s=0.0001)
    queue.load(4)
    _, (run,) = queue.plan()
    assert queue.schedule.held == 4
    begin(run, 3)
    assert queue.schedule.held == 4, "nobody was told"
    queue.schedule.report(run)
    assert (queue.schedule.held, queue.schedule.in_memory) == (2, 4)
    queue.load(6)
    assert queue.schedule.held == 4
    queue.plan()
    assert (queue.schedule.held, queue.schedule.in_memory) == (4, 4)


def test_a_write_settles_the_last_fetch_and_grants_the_next(lake: penstock.Lake) -> None:
    """With memory for one fetch; until then each took two writes."""
    fill(lake, "abcd" * 100)
    metrics, heard = MemoryMetrics(), Heard()
    with lake.push_consumer("orders", group="billing", listener=heard, cache_messages=10, metrics=metrics):
        heard.until_done(400)
        until_settled(lake)
    writes = metrics.value(CELL_WRITES, topic="orders", consumer_group="billing")
    assert writes is not None
    assert writes < 60, "of 40 fetches"
