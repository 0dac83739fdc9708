"""What the schedule does with runs that are far behind the others."""

from __future__ import annotations

from collections import Counter, deque
from typing import Literal

import pytest

from penstock.consumers.feed.rows import group_hash
from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure, LaneRun
from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.log import MessageView
from tests.consumers.test_schedule import message
from tests.thorough import thoroughly


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_run_far_behind_that_is_done_but_has_not_ended_yet_is_left_alone(order: str) -> None:
    """Its last success is told before its end, and the schedule may look between the two."""
    cell = QueueCell().taken_by("w")
    schedule = PushSchedule(GroupSettings(delivery_order=order), cell, limits=QueueLimits(window=20, threads=20))  # type: ignore[arg-type]
    rows: list[MessageView] = [message(offset, f"g{offset}") for offset in range(20)]
    schedule.load(rows, OffsetSet(), 20)
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    slow, *others = step.runs
    slow.done = 1
    schedule.report(slow)
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    slow.ended = True
    schedule.report(slow)
    for run in others:
        run.done, run.ended = 1, True
        schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    assert (cell.settled.floor, dict(cell.markers), dict(cell.tries)) == (20, {}, {})


def begun(schedule: PushSchedule, cell: QueueCell, count: int) -> tuple[LaneRun, QueueCell]:
    """A run of so many messages that a thread has, and none of them yet."""
    schedule.load([message(offset, "g") for offset in range(count)], OffsetSet(), count)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    assert run.claim()
    run.left = deque(run.messages)
    return run, step.apply(cell)


def test_a_run_far_behind_of_which_all_was_taken_back_before_it_began_is_left_alone() -> None:
    cell = QueueCell().taken_by("w")
    schedule = PushSchedule(GroupSettings(delivery_order="CONCURRENT"), cell, limits=QueueLimits(window=20))
    run, cell = begun(schedule, cell, 20)
    assert [one.size for one in schedule.spread(0.0)[0]] == [20]
    assert (run.size, schedule.in_memory) == (0, 20)
    cell = schedule.plan(0, cell).apply(cell)
    run.ended = True
    for one in list(schedule.running):
        one.done, one.ended = one.size, True
        schedule.report(one)
    cell = schedule.plan(0, cell).apply(cell)
    assert (cell.settled.floor, dict(cell.tries), schedule.in_memory, schedule.running) == (20, {}, 0, {})


def test_what_is_behind_a_failure_whose_end_is_not_told_yet_is_counted_with_its_run() -> None:
    """Its thread says why it failed before it says that it ended; the worker counts what is in flight by the run's size at its end."""
    cell = QueueCell().taken_by("w")
    schedule = PushSchedule(GroupSettings(delivery_order="CONCURRENT"), cell, limits=QueueLimits())
    run, cell = begun(schedule, cell, 10)
    run.left.popleft()
    run.failure = Failure("no")
    schedule.report(run)
    step = schedule.plan(0, cell)
    assert run.size + step.taken_back == 10
    run.ended = True
    schedule.report(run)
    step = schedule.plan(0, step.apply(cell))
    assert [one.messages.offsets for one in step.runs_now] == [list(range(1, 10))], "they wait for no write"
    assert [one.message.offset for one in step.failed] == [0]


@pytest.mark.parametrize("batch_of", [None, "group", "queue"])
@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
@pytest.mark.parametrize("drained", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_far_more_failures_than_the_cell_has_room_for_wait_in_the_window(
    order: str, batch_of: Literal["group", "queue"] | None, drained: bool
) -> None:
    """As when what all handlers need is down: each message fails at its first two attempts, at a time of its own."""
    cell, now_ms, settings = QueueCell().taken_by("w"), 1_790_000_000_000, GroupSettings(delivery_order=order)  # type: ignore[arg-type]
    limits = QueueLimits(tracked=thoroughly(200, 150), batch_of=batch_of, run_messages=16 if batch_of else 64)
    rows = [message((1 << 30) + offset, f"g{offset}") for offset in range(5 * limits.tracked)]
    cell = cell.reset_to(rows[0].offset, 1)
    schedule = PushSchedule(settings, cell, limits=limits)
    schedule.load(rows, OffsetSet(), rows[-1].offset + 1)
    running: list[LaneRun] = []
    failed: Counter[int] = Counter()
    for turn in range(6_000):
        now_ms += 7
        if drained and turn == limits.tracked * 3 // 2:
            for run in running:
                run.ended = True
                schedule.report(run)
            running.clear()
            cell = schedule.plan(now_ms, cell, QueueMode.DRAIN).apply(cell)
            cell = schedule.plan(now_ms, cell, QueueMode.DRAIN).apply(cell).released().taken_by("v")
            schedule = PushSchedule(settings, cell, limits=limits)
        if missing := schedule.missing(now_ms):
            schedule.reread([rows[offset - rows[0].offset] for offset in missing], missing[0], missing[0])
        if (start := schedule.blocked.reread_from(now_ms, schedule.next_fresh)) is not None:
            schedule.reread(rows[start - rows[0].offset :], start, schedule.next_fresh)
        if schedule.next_load <= rows[-1].offset and schedule.room(cell):
            schedule.load(rows[schedule.next_load - rows[0].offset :], OffsetSet(), rows[-1].offset + 1)
        step = schedule.plan(now_ms, cell)
        cell = step.apply(cell)
        assert len(cell.markers) + len(set(cell.tries.values())) <= limits.tracked * 5 // 4
        running += [*step.runs_now, *step.runs]
        for run in running[:3]:
            while not run.ended:
                head = run.messages[run.done]
                if failed[head.offset] < 2:
                    failed[head.offset] += 1
                    run.failure = Failure("it is down")
                else:
                    run.done += 1
                run.ended = run.failure is not None or run.done == len(run.messages)
            schedule.report(run)
        del running[:3]
        if cell.settled.floor == rows[-1].offset + 1 and not cell.markers and not cell.tries:
            return
    pytest.fail(f"it does not come to an end: {cell.settled.floor - rows[0].offset}, {len(cell.markers)}, {len(cell.tries)}")


def test_fetching_pauses_while_too_many_dead_letters_are_to_be_written() -> None:
    cell, limits = QueueCell().taken_by("w").with_dead_letters(range(5)), QueueLimits(tracked=5)
    schedule = PushSchedule(GroupSettings(), cell, limits=limits)
    assert schedule.room(cell) == 0
    assert schedule.room(cell.with_dead_letters_written(1)) > 0


@pytest.mark.parametrize("behind", ["blocked", "filtered"])
def test_a_step_that_settles_or_lists_a_whole_window_leaves_room_for_the_next(behind: str) -> None:
    """Nothing runs afterwards and nothing is due, so nobody would plan once more."""
    cell = QueueCell().taken_by("w")
    if behind == "blocked":
        later = Tries(MessageState.WAITING, 1, 1, 1_000_000)
        cell = cell.with_granted(OffsetSet(0, 1)).with_markers({group_hash("g", ""): Marker(0, 1, later)}, OffsetSet(0, 1))
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits(window=20))
    first, limit = schedule.next_load, schedule.next_load + schedule.room(cell)
    if behind == "blocked":
        schedule.load([message(offset, "g") for offset in range(first, limit)], OffsetSet(), limit)
    else:
        schedule.load([], OffsetSet.of([(first, limit)]), limit)
    assert schedule.room(cell) == 0
    step = schedule.plan(0, cell)
    assert not schedule.running
    assert not schedule.is_urgent(0, cell)
    assert schedule.room(step.apply(cell)) == 20


def test_what_a_step_counts_once_more_runs_when_that_is_durable() -> None:
    """A batch failed without saying where, so its messages have one attempt more; a retry that ended beside it may not begin them sooner."""
    cell = QueueCell().with_tries(0, Tries(MessageState.WAITING, 1, 1)).taken_by("w")
    limits = QueueLimits(window=20, batch_of="queue", run_messages=4)
    schedule = PushSchedule(GroupSettings(delivery_order="CONCURRENT"), cell, limits=limits)
    schedule.load([message(offset, "g") for offset in range(schedule.next_load, schedule.next_load + 4)], OffsetSet(), 5)
    schedule.reread([message(0, "g")], 0, 0)
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    batch, again = sorted([*step.runs_now, *step.runs], key=lambda run: run.size, reverse=True)
    assert (batch.messages.offsets, again.messages.offsets) == ([1, 2, 3, 4], [0])
    batch.failure, batch.ended, again.done, again.ended = Failure("it raised", blamed=False), True, 1, True
    schedule.report(batch)
    schedule.report(again)
    step = schedule.plan(0, cell)
    assert [one.messages.offsets for one in step.runs_now] == []
    assert [one.messages.offsets for one in step.runs] == [[1, 2, 3, 4]]
