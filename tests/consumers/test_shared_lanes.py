"""Lanes that many message groups share: nobody in them waits for a slow or failed message of another group."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from typing import Any, Literal

import pytest

import penstock
from penstock import ConsumeResult
from penstock.consumers.handlers.executor import Executor, TaskExecutor, ThreadExecutor
from penstock.consumers.limits import QueueLimits
from penstock.consumers.schedule.lanes import Failure, LaneRun, OpenLane
from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.log import MessageView
from penstock.log.runtime.runtime import SystemClock
from tests.consumers.heard import SUCCESS, Heard, consuming, fill, until_settled
from tests.consumers.test_schedule import message
from tests.lakes import TIMEOUT_S

GROUPS = "abcdefgh"


class Queue:
    """A queue whose groups share one lane, and its messages, of these groups."""

    def __init__(self, groups: str, *, batch_of: Literal["group"] | None = None, **limits: Any) -> None:
        self.cell = QueueCell().taken_by("w")
        self.log = [message(offset, group) for offset, group in enumerate(groups)]
        limits = {"shared_lanes": 1, **limits}
        self.schedule = PushSchedule(
            GroupSettings(delivery_order="ORDERLY"),
            self.cell,
            limits=QueueLimits(batch_of=batch_of, **limits),
        )

    def load(self, limit: int) -> None:
        start = self.schedule.next_load
        self.schedule.load(self.log[start:limit], OffsetSet(), limit)

    def plan(self, *, apart: bool = False) -> tuple[list[LaneRun], list[LaneRun]]:
        """The runs that start at once, and after the write."""
        self.schedule.apart = apart
        step = self.schedule.plan(0, self.cell)
        self.cell = step.apply(self.cell)
        return step.runs_now, step.runs


def begin(run: LaneRun, count: int) -> None:
    """So many of its messages are begun, all but the last done."""
    assert run.claim()
    run.left, run.since_s = deque(run.messages), 0
    for _ in range(count):
        run.left.popleft()
    run.done = count - 1


def offsets(runs: list[LaneRun]) -> list[list[int]]:
    return [run.messages.offsets for run in runs]


def end(schedule: PushSchedule, run: LaneRun) -> None:
    run.done, run.ended = run.size, True
    schedule.report(run)


def test_many_groups_share_lanes_and_few_do_not() -> None:
    queue = Queue("abcabc" + "de", shared_lanes=2)
    queue.load(4)
    _, runs = queue.plan()
    assert offsets(runs) == [[0, 3], [1], [2]]
    queue = Queue("abcabcde", shared_lanes=2)
    queue.load(8)
    _, runs = queue.plan()
    assert len(runs) == 2
    assert sorted(offset for run in runs for offset in run.messages.offsets) == [*range(8)]
    by_group = [{one.message_group for one in run.messages} for run in runs]
    assert not by_group[0] & by_group[1]


def test_groups_behind_a_slow_message_get_lanes_of_their_own_until_they_have_nothing_left() -> None:
    queue = Queue("abcab" + "abcd" + "abc")
    queue.load(5)
    _, (slow,) = queue.plan()
    begin(slow, 1)
    queue.load(9)
    assert queue.plan() == ([], []), "what comes meanwhile is behind the run"
    assert queue.schedule.spread(0.0) == ([], 0), "it is not slow yet"
    runs, taken_back = queue.schedule.spread(1.0)
    assert (offsets(runs), taken_back) == ([[1, 4], [2]], 4)
    assert queue.schedule.is_held
    _, more = queue.plan()
    assert offsets(more) == [[8]], "the others go behind those of their group"
    for run in runs:
        end(queue.schedule, run)
    now, _ = queue.plan()
    assert offsets(now) == [[6], [7]]
    for run in (*now, *more):
        end(queue.schedule, run)
    assert queue.plan() == ([], [])
    queue.load(12)
    assert queue.plan() == ([], []), "the lane is theirs again"
    end(queue.schedule, slow)
    now, _ = queue.plan()
    assert offsets(now) == [[3, 5, 9, 10, 11]]


def test_what_is_granted_behind_a_run_starts_at_its_end_if_it_is_durable() -> None:
    queue = Queue("abcabcabc")
    queue.load(3)
    _, (run,) = queue.plan()
    begin(run, 3)
    queue.load(6)
    queue.plan()
    queue.load(9)
    queue.plan()  # its write goes on
    end(queue.schedule, run)
    (more,) = queue.schedule.go_on([run])
    assert more.messages.offsets == [3, 4, 5]
    assert queue.schedule.go_on([run]) == [], "it was through before"
    assert queue.plan() == ([], [])
    assert queue.cell.settled.floor == 3
    end(queue.schedule, more)
    assert queue.schedule.go_on([more]) != []


def test_a_failed_message_leaves_the_lane_to_the_others_at_once() -> None:
    queue = Queue("abcabc")
    queue.load(6)
    _, (run,) = queue.plan()
    begin(run, 2)
    run.failure, run.ended = Failure("no"), True
    queue.schedule.report(run)
    now, later = queue.plan()
    assert (offsets(now), later) == ([[2, 3, 5]], [])
    (marker,) = queue.cell.markers.values()
    assert (marker.head, queue.schedule.in_memory, queue.schedule.blocked.retained) == (1, 3, 2)


def test_a_run_that_waits_for_a_thread_half_a_window_behind_is_taken_apart() -> None:
    queue = Queue("abcabc" + "h" * 20, window=20, run_messages=2, few_lanes=1)
    queue.load(6)
    _, (run,) = queue.plan()
    queue.load(20)
    queue.plan()
    step = queue.schedule.plan(0, queue.cell)
    assert (run.ended, step.taken_back) == (True, 2)
    assert not run.claim(), "its thread finds that it was taken back"
    assert step.runs[0].messages.offsets == [0, 3], "alone with its group"


def test_while_an_older_handler_may_run_no_groups_share_a_lane() -> None:
    queue = Queue("abcabcabc")
    queue.load(3)
    _, (run,) = queue.plan()
    queue.load(6)
    queue.plan()
    end(queue.schedule, run)
    now, _ = queue.plan(apart=True)
    assert offsets(now) == [[3], [4], [5]]
    queue.load(9)
    assert queue.plan(apart=True) == ([], [])
    for run in now:
        end(queue.schedule, run)
    now, _ = queue.plan()
    assert offsets(now) == [[6], [7], [8]]


# --- Lists of a group -----------------------------------------------------------------------------------------------------------


class Owner:
    until_s = math.inf

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def moved(self, *runs: LaneRun) -> None:
        if any(run.ended for run in runs):
            self.over.set()


def of_lists(listen: Any, *, tasks: bool) -> LaneRun:
    """A run in lists of two messages at most, as an executor leaves it."""
    run = LaneRun(OpenLane(0, batches=True, shared=True), [message(at, group) for at, group in enumerate("abaacb")], list_max=2)

    async def listen_async(messages: list[MessageView]) -> object:
        return listen(messages)

    async def main() -> None:
        owner = Owner()
        executor: Executor
        if tasks:
            executor = TaskExecutor(listen_async, batches=True, tasks=1, clock=SystemClock())
        else:
            executor = ThreadExecutor(listen, batches=True, threads=1, clock=SystemClock(), name="test")
        executor.start(owner, [run])
        await owner.over.wait()
        await executor.close()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    return run


@pytest.mark.parametrize("tasks", [False, True])
def test_each_group_of_a_run_gets_its_lists(tasks: bool) -> None:
    given: list[list[int]] = []

    def listen(messages: list[MessageView]) -> ConsumeResult:
        given.append([one.offset for one in messages])
        return ConsumeResult.SUCCESS

    run = of_lists(listen, tasks=tasks)
    assert given == [[0, 2], [3], [1, 5], [4]]
    assert (run.done, run.failure, len(run.took_s)) == (6, None, 4)


@pytest.mark.parametrize("tasks", [False, True])
def test_a_failed_list_ends_its_run(tasks: bool) -> None:
    def listen(messages: list[MessageView]) -> object:
        return SUCCESS if messages[0].message_group == "a" else penstock.BatchResult(1)

    run = of_lists(listen, tasks=tasks)
    assert (run.done, [one.offset for one in run.delivered()], len(run.took_s)) == (4, [5], 3)
    assert run.failure is not None


def test_a_list_that_failed_at_an_unknown_message_is_halved_and_the_other_lists_go_on() -> None:
    queue = Queue("ababacd", batch_of="group")
    queue.load(7)
    _, (run,) = queue.plan()
    assert run.claim()
    lists = run.lists()
    assert [[one.offset for one in given] for given in lists if isinstance(given, list)] == [[0, 2, 4], [1, 3], [5], [6]]
    run.failure, run.ended = Failure("no", blamed=False), True
    queue.schedule.report(run)
    step = queue.schedule.plan(0, queue.cell)
    assert [(one.message.offset, one.batch) for one in step.failed] == [(0, 3)]
    assert offsets(step.runs_now) == [[1, 3, 5, 6]]
    queue.cell = step.apply(queue.cell)
    assert offsets(step.runs) == [[0]], "half of it, rounded down"
    (marker,) = queue.cell.markers.values()
    assert (marker.head, marker.limit) == (0, 5)


# --- The consumer ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_a_handler_that_hangs_holds_up_nothing_but_its_group(lake: penstock.Lake, threads: int) -> None:
    fill(lake, GROUPS * 3)
    gate = threading.Event()
    slow = {b"a0"} if threads > 1 else set()

    def answer(one: MessageView) -> object:
        if one.body in slow:
            gate.wait(TIMEOUT_S)
        return SUCCESS

    try:
        with consuming(lake, heard := Heard(answer), threads=threads):
            heard.until_done(3 * len(GROUPS) - (3 if slow else 0))
            gate.set()
            until_settled(lake)
    finally:
        gate.set()
    for group in GROUPS:
        assert heard.offsets(group) == sorted(heard.offsets(group))
    assert len(heard.begun) == 3 * len(GROUPS), "each once"
