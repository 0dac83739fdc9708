"""What the schedule does with failures, suspects and runs that are behind, at the edges of what it has room for."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from msgspec import structs

from penstock.consumers.feed.rows import group_hash
from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure, Lane, LaneRun
from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from tests.consumers.test_schedule import message

A = group_hash("a", "")
ORDERLY = GroupSettings(delivery_order=DeliveryOrder.ORDERLY)
CONCURRENT = GroupSettings(delivery_order=DeliveryOrder.CONCURRENT, max_attempts=3)


def begun(run: LaneRun, count: int) -> None:
    """As a thread does that takes it, and comes to so many of its messages."""
    assert run.claim()
    run.left = deque(run.messages[count:])


def test_a_handler_is_late_once_it_ran_longer_than_it_may() -> None:
    run = LaneRun(Lane(1), [message(0, "a")])
    run.since_s = 5.0
    assert [run.is_late(before_s) for before_s in (4.0, 5.0, 6.0)] == [False, False, True]


@pytest.mark.parametrize(("now_ms", "urgent"), [(99, False), (100, True), (101, True)])
def test_a_step_is_urgent_from_when_something_is_due(now_ms: int, urgent: bool) -> None:
    cell = QueueCell(tries={0: Tries(MessageState.WAITING, 1, 1, 100)}).taken_by("w")
    assert PushSchedule(CONCURRENT, cell, limits=QueueLimits()).is_urgent(now_ms, cell) is urgent


@pytest.mark.parametrize("policy", list(DeadLetterPolicy))
def test_a_last_failure_that_parks_needs_no_room_of_dead_letters(policy: DeadLetterPolicy) -> None:
    settings = GroupSettings(delivery_order=DeliveryOrder.ORDERLY, dead_letter_policy=policy, max_attempts=1)
    cell = QueueCell(dead_letters=DeadLetters(3, (1, 2))).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=QueueLimits(letters=2))
    schedule.load([message(0, "a")], OffsetSet(), 1)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    run.failure, run.ended = Failure("no"), True
    schedule.report(run)
    step = schedule.plan(0, step.apply(cell))
    parks = policy is DeadLetterPolicy.PARK
    assert ([one.offset for one in step.parked], step.letters, run in schedule.running) == ([0] if parks else [], [], not parks)


@pytest.mark.parametrize("timed_out", [False, True])
def test_of_a_failure_without_room_only_what_failed_is_left_to_the_next_owner(timed_out: bool) -> None:
    """The one before it succeeded; what a handler says that was given up counts no more."""
    limits = QueueLimits(tracked=8, run_messages=4, waiting=None)
    tries = {offset: Tries(MessageState.WAITING, 1, 1, 10**9) for offset in range(limits.full)}
    cell = QueueCell(settled=SettledOffsets(100), tries=tries).taken_by("w")
    schedule = PushSchedule(CONCURRENT, cell, limits=limits)
    schedule.load([message(offset, None) for offset in range(100, 104)], OffsetSet(), 104)
    step = schedule.plan(0, cell)
    cell, (run,) = step.apply(cell), step.runs
    begun(run, 2)
    run.done = 1
    if timed_out:
        run.time_out("too slow")
        run.done = 2
    else:
        run.failure = Failure("no")
    run.ended = True
    schedule.report(run)
    step = schedule.plan(0, cell, QueueMode.DRAIN)
    assert step.settled == [100]
    assert {offset: one.state for offset, one in step.tries.items() if offset >= 100} == {101: MessageState.SUSPECT}
    assert schedule.plan(0, step.apply(cell), QueueMode.DRAIN).given_back in ([], [102, 103])


@pytest.mark.parametrize(("batch_of", "size"), [("group", 2), ("queue", 4)])
def test_a_batch_that_failed_without_a_message_to_blame_is_tried_by_halves(batch_of: str, size: int) -> None:
    cell, limits = QueueCell().taken_by("w"), QueueLimits(batch_of=batch_of, run_messages=4)  # type: ignore[arg-type]
    schedule = PushSchedule(ORDERLY, cell, limits=limits)
    schedule.load([message(offset, "a") for offset in range(4)], OffsetSet(), 4)
    step = schedule.plan(0, cell)
    cell, (run,) = step.apply(cell), step.runs
    run.failure, run.ended = Failure("no", blamed=batch_of == "queue"), True
    schedule.report(run)
    first = schedule.plan(0, cell)
    then = schedule.plan(schedule.next_due_ms(cell) or 0, first.apply(cell))
    assert [one.size for one in (*first.runs, *then.runs)] == [size]


@pytest.mark.parametrize(("strikes", "given_up"), [(2, False), (3, True), (4, True)])
def test_a_message_is_given_up_when_it_ended_its_process_as_often_as_it_may_fail(strikes: int, given_up: bool) -> None:
    cell = QueueCell(tries={0: Tries(MessageState.SUSPECT, 3, strikes, 0, 1)}).taken_by("w")
    schedule = PushSchedule(CONCURRENT, cell, limits=QueueLimits())
    schedule.reread([message(0, None)], 0, 1)
    assert [one.message.offset for one in schedule.plan(0, cell).letters] == ([0] if given_up else [])


@pytest.mark.parametrize(("room", "letters", "solo"), [(0, [], False), (1, [0], True), (2, [0], True)])
def test_suspects_run_alone_as_long_as_there_is_room_for_what_is_given_up(room: int, letters: list[int], solo: bool) -> None:
    tries = {0: Tries(MessageState.SUSPECT, 3, 3, 0, 1), 1: Tries(MessageState.SUSPECT, 1, 1, 0, 1)}
    cell = QueueCell(settled=SettledOffsets(2), tries=tries).taken_by("w")
    schedule = PushSchedule(CONCURRENT, cell, limits=QueueLimits(letters=room))
    schedule.reread([message(0, None), message(1, None)], 0, 2)
    step = schedule.plan(0, cell)
    assert [one.message.offset for one in step.letters] == letters
    assert schedule.wants_solo(0) is solo


@pytest.mark.parametrize("mode", [QueueMode.USUAL, QueueMode.SOLO])
def test_a_suspect_waits_for_the_one_before_it_in_its_message_group_that_waits_for_room(mode: QueueMode) -> None:
    suspect = Tries(MessageState.SUSPECT, 1, 0, 0, 1)
    full = DeadLetters(3, (7,))
    cell = QueueCell(settled=SettledOffsets(2), tries={0: suspect, 1: suspect}, dead_letters=full).taken_by("w")
    schedule = PushSchedule(replace(ORDERLY, max_attempts=1), cell, limits=QueueLimits(letters=1))
    schedule.reread([message(0, "a"), message(1, "a")], 0, 2)
    step = schedule.plan(0, cell, QueueMode.SOLO)
    (run,) = step.runs
    run.failure, run.ended = Failure("no"), True
    schedule.report(run)
    cell = step.apply(cell)
    step = schedule.plan(0, cell, mode)
    assert (step.runs, step.runs_now, schedule.wants_solo(0)) == ([], [], False)
    step = schedule.plan(0, structs.replace(step.apply(cell), dead_letters=DeadLetters(3)), mode)
    assert [one.message.offset for one in step.letters] == [0]


# --- Runs that are behind -------------------------------------------------------------------------------------------------------


def behind(settings: GroupSettings, *, spare: int = 100) -> tuple[PushSchedule, QueueCell, list[LaneRun]]:
    """Twenty messages of groups of their own, in a window of so many, with room for so many more that wait."""
    limits = QueueLimits(window=20, tracked=16, few_lanes=1, run_messages=1, waiting=None)
    waits = {offset: Tries(MessageState.WAITING, 1, 1, 10**9) for offset in range(max(0, limits.full - spare))}
    markers = {offset: Marker(offset, offset + 1, one) for offset, one in waits.items()}
    orderly = settings.delivery_order is DeliveryOrder.ORDERLY
    cell = QueueCell(settled=SettledOffsets(100), tries={} if orderly else waits, markers=markers if orderly else {}).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=limits)
    schedule.load([message(offset, f"g{offset}") for offset in range(100, 120)], OffsetSet(), 120)
    step = schedule.plan(0, cell)
    return schedule, step.apply(cell), [*step.runs_now, *step.runs]


@pytest.mark.parametrize("settings", [ORDERLY, CONCURRENT])
@pytest.mark.parametrize("spare", [0, 1, 3, 100])
def test_what_holds_the_floor_is_listed_up_to_the_middle_of_the_window_if_there_is_room(
    settings: GroupSettings, spare: int
) -> None:
    schedule, cell, runs = behind(settings, spare=spare)
    assert len(runs) == 20
    step = schedule.plan(0, cell)
    moved = sorted([*step.tries, *(marker.head for marker in step.markers.values() if marker is not None)])
    room = spare if spare == 0 or settings is ORDERLY else 10  # what runs is no message that waits
    assert moved == list(range(100, 110))[:room]


def test_what_is_started_in_a_step_is_not_behind_in_it() -> None:
    schedule, cell, (first, *_) = behind(ORDERLY)
    step = schedule.plan(0, cell, QueueMode.QUIET)
    assert not step.markers
    assert first in schedule.running


# --- Failures, and the end, of runs with messages that were not begun -----------------------------------------------------------


def running_on(
    cell: QueueCell, limits: QueueLimits, settings: GroupSettings = CONCURRENT
) -> tuple[PushSchedule, QueueCell, LaneRun]:
    """Four messages in one run, the first of which was begun."""
    schedule = PushSchedule(settings, cell, limits=limits)
    schedule.load([message(offset, None) for offset in range(100, 104)], OffsetSet(), 104)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    begun(run, 1)
    return schedule, step.apply(cell), run


@pytest.mark.parametrize("timed_out", [False, True])
def test_what_is_behind_a_failure_without_room_runs_on(timed_out: bool) -> None:
    limits = QueueLimits(tracked=8, run_messages=4, waiting=None)
    tries = {offset: Tries(MessageState.WAITING, 1, 1, 10**9) for offset in range(limits.full)}
    schedule, cell, run = running_on(QueueCell(settled=SettledOffsets(100), tries=tries).taken_by("w"), limits)
    if timed_out:
        run.time_out("too slow")
    else:
        run.failure, run.ended = Failure("no"), True
    schedule.report(run)
    step = schedule.plan(0, cell)
    assert (run in schedule.running, step.failed) == (True, [])
    assert [offset for one in (*step.runs_now, *step.runs) for offset in one.messages.offsets] == [101, 102, 103]


def test_nothing_is_given_back_while_a_handler_runs() -> None:
    schedule, cell, run = running_on(QueueCell(settled=SettledOffsets(100)).taken_by("w"), QueueLimits(run_messages=4))
    schedule.split(run)
    step = schedule.plan(0, cell, QueueMode.DRAIN)
    assert (step.is_empty, run.cancelled) == (True, True)
    run.done, run.ended = 1, True
    schedule.report(run)
    step = schedule.plan(0, cell, QueueMode.DRAIN)
    assert (step.settled, step.given_back) == ([100], [101, 102, 103])


def test_a_suspect_of_a_group_that_tries_without_end_is_not_given_up() -> None:
    cell = QueueCell(settled=SettledOffsets(1), tries={0: Tries(MessageState.SUSPECT, 1, 5, 0, 1)}).taken_by("w")
    schedule = PushSchedule(replace(CONCURRENT, max_attempts=None), cell, limits=QueueLimits())
    schedule.reread([message(0, None)], 0, 1)
    step = schedule.plan(0, cell, QueueMode.SOLO)
    assert (step.letters, [run.messages.offsets for run in step.runs]) == ([], [[0]])


@pytest.mark.parametrize(("done", "room"), [(0, False), (1, True)])
def test_strikes_of_a_head_that_is_done_are_not_those_of_the_message_behind_it(done: int, room: bool) -> None:
    """The second message of a blocked group failed for the first time, so it needs no room of dead letters."""
    settings = replace(ORDERLY, max_attempts=2)
    marker = Marker(5, 7, Tries(MessageState.WAITING, 1, 1))
    cell = QueueCell(settled=SettledOffsets(7), markers={A: marker}, dead_letters=DeadLetters(3, (1, 2))).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=QueueLimits(letters=2))
    schedule.blocked.reread_from(0, 7)
    schedule.reread([message(5, "a"), message(6, "a")], 5, 7)
    step = schedule.plan(0, cell)
    cell, (run,) = step.apply(cell), step.runs
    run.done, run.failure, run.ended = done, Failure("no"), True
    schedule.report(run)
    step = schedule.plan(0, cell)
    assert ([one.message.offset for one in step.failed], run in schedule.running) == ([6] if room else [], not room)
