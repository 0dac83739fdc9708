"""Blocked message groups and tracked messages at the edges of what they know, keep and wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from penstock.consumers.feed.rows import GroupHashes, group_hash
from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.blocked_groups import BlockedGroups
from penstock.consumers.schedule.lanes import Failure, Lane, LaneRun
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.schedule.receive import ReceiveSchedule
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.consumers.schedule.step import Step
from penstock.consumers.schedule.tracked_messages import TrackedMessages
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.log.errors import InternalError
from penstock.log.message.message import MessageView
from tests.consumers.test_schedule import message

A, B = group_hash("a", ""), group_hash("b", "")
ORDERLY = GroupSettings(delivery_order=DeliveryOrder.ORDERLY)
CONCURRENT = GroupSettings(delivery_order=DeliveryOrder.CONCURRENT)


def blocked(markers: dict[int, Marker], *, retained: int = 1_000, window: int = 100) -> BlockedGroups:
    cell = QueueCell(settled=SettledOffsets(window), markers=markers).taken_by("w")
    return BlockedGroups(QueueCell(settled=cell.settled, markers=markers), QueueLimits(retained=retained), GroupHashes())


def waiting(head: int, *, due_ms: int = 0) -> Marker:
    return Marker(head, head + 1, Tries(MessageState.WAITING, 1, 1, due_ms))


def hand_out(some: BlockedGroups, one: MessageView, step: Step) -> None:
    """Until 1 s, as a receive does whose earlier messages are out."""
    want = ReceiveRequest(1, 1_000)
    if some.hand_out_alone([group_hash(one.message_group, "")], [one], want, step):
        some.hand_out_behind(one, want, step)


# --- What is in memory ----------------------------------------------------------------------------------------------------------


def test_no_more_is_read_again_than_there_is_room_for() -> None:
    some = blocked({A: waiting(0)}, retained=2)
    assert some.reread_from(0, 100) == 0
    some.reread([message(offset, "a") for offset in range(5)], 0, 5, 100)
    assert some.retained == 2
    (lane,) = some.due(0, Step(), 100)
    assert [one.offset for one in lane.ready] == [0, 1]
    assert lane.known_to == 2, "it is read on from there"


@pytest.mark.parametrize(("retained", "kept"), [(1, True), (0, False)])
def test_what_was_given_out_and_comes_back_is_read_again_only_if_there_was_no_room(retained: int, kept: bool) -> None:
    some, step = blocked({}, retained=retained), Step()
    hand_out(some, message(5, "a"), step)
    assert some.retained == retained
    back = QueueCell(settled=SettledOffsets(6), markers={A: Marker(5, 6, Tries(MessageState.WAITING, 1, 1))})
    some.adopt(back)
    assert some.reread_from(0, 6) == (None if kept else 5)
    assert some.ready(0) == retained


def test_with_another_filter_what_the_former_one_left_out_of_a_blocked_group_is_read_again() -> None:
    some = blocked({A: waiting(3)})
    assert some.reread_from(0, 20) == 3
    some.reread([], 3, 10, 20)
    assert some.reread_from(0, 20) == 10
    some.filtered_anew()
    assert some.reread_from(0, 20) == 3


def test_with_another_filter_what_is_given_out_is_not_read_again() -> None:
    some = blocked({})
    hand_out(some, message(5, "a"), Step())
    some.pass_by(message(7, "a"), Step())
    some.filtered_anew()
    some.adopt(QueueCell(settled=SettledOffsets(8), markers={A: Marker(6, 6, Tries(MessageState.WAITING))}))
    assert some.reread_from(0, 8) == 6


# --- Who goes on ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strikes", "given_up"), [(2, False), (3, True), (4, True)])
def test_a_group_is_given_up_when_its_head_ended_its_process_as_often_as_it_may_fail(strikes: int, given_up: bool) -> None:
    some = blocked({A: Marker(0, 1, Tries(MessageState.SUSPECT, strikes, strikes, 0, 1))})
    some.reread_from(0, 10)
    some.reread([message(0, "a")], 0, 10, 10)
    assert [lane.hash for lane in some.hopeless(3)] == ([A] if given_up else [])


def test_retention_moves_idle_groups_on_and_no_others() -> None:
    out = Marker(4, 5, Tries(MessageState.OUT, 1, 0, 1_000))
    some, step = blocked({A: waiting(3), B: waiting(9), group_hash("c", ""): out, group_hash("d", ""): waiting(6)}), Step()
    some.reread_from(0, 100)
    some.reread([message(6, "d")], 6, 7, 100)
    some.expired(8, step)
    assert {key: marker.head for key, marker in step.markers.items() if marker is not None} == {A: 8}


def test_a_group_that_has_caught_up_leaves_and_is_due_no_more() -> None:
    some, step = blocked({A: waiting(3, due_ms=100)}), Step()
    some.expired(8, step)  # due at once now; the time of before is out of date
    assert some.due(1, step, 9) == [], "an offset is left that is not known to be another's"
    assert A in some
    some.expired(9, step)
    assert some.due(1, step, 9) == []
    assert (A in some, step.markers[A], some.next_due_ms()) == (False, None, [])


# --- Its books ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_of", [None, "group"])
def test_who_is_given_batches_is_given_them_of_groups_that_were_blocked_before(batch_of: Literal["group"] | None) -> None:
    some, step = BlockedGroups(QueueCell(markers={A: waiting(0)}), QueueLimits(batch_of=batch_of), GroupHashes()), Step()
    some.reread_from(0, 2)
    some.reread([message(0, "a"), message(1, "a")], 0, 2, 2)
    some.run_due(0, step, 2)
    assert [run.is_batch for run in step.runs] == [batch_of is not None]


def test_what_comes_after_all_was_read_again_is_kept() -> None:
    some = blocked({A: waiting(0)})
    some.reread_from(0, 5)
    some.reread([message(0, "a")], 0, 5, 5)
    some.pass_by(message(5, "a"), Step())
    assert (some.retained, some.reread_from(0, 6)) == (2, None)


def test_a_fresh_message_that_there_is_no_room_for_is_read_again() -> None:
    some = blocked({A: waiting(0)}, retained=1)
    some.reread_from(0, 5)
    some.reread([message(0, "a")], 0, 5, 5)
    some.pass_by(message(5, "a"), Step())
    (lane,) = some.due(0, Step(), 6)
    assert (some.retained, lane.known_to) == (1, 5)


def test_a_group_is_blocked_once() -> None:
    some = blocked({A: waiting(0)})
    with pytest.raises(InternalError, match="blocked already"):
        some.add(Lane(A), waiting(3))


def test_what_is_given_out_still_is_kept_until_it_comes_back() -> None:
    some, step = blocked({}), Step()
    for offset in (5, 7):
        hand_out(some, message(offset, "a"), step)
    assert some.next_expiry_ms() == [1_000]
    some.adopt(QueueCell(settled=SettledOffsets(8), markers={A: Marker(7, 8, Tries(MessageState.OUT, 1, 0, 2_000))}))
    assert (some.next_expiry_ms(), some.ready(0)) == ([2_000], 0)
    some.adopt(QueueCell(settled=SettledOffsets(8), markers={A: Marker(7, 8, Tries(MessageState.WAITING, 1, 1))}))
    assert (some.next_expiry_ms(), some.reread_from(0, 8), some.ready(0)) == ([], None, 1)


def test_a_group_that_an_owner_before_gave_out_is_waited_for() -> None:
    out = Marker(4, 5, Tries(MessageState.OUT, 1, 0, 1_000))
    assert [blocked(markers).next_expiry_ms() for markers in ({A: out}, {A: out, B: waiting(9)}, {B: waiting(9)})] == [
        [1_000],
        [1_000],
        [],
    ]


def test_together_are_given_out_the_first_of_each_group_that_is_free() -> None:
    some, step, c = blocked({B: waiting(0)}, retained=1), Step(), group_hash("c", "")
    five = [message(offset, group) for offset, group in enumerate("bacac", 5)]
    assert some.hand_out_alone([B, A, c, A, c], five, ReceiveRequest(5, 1_000), step) == [0, 3, 4]
    out = Tries(MessageState.OUT, 1, 0, 1_000)
    assert step.markers == {A: Marker(6, 7, out), c: Marker(7, 8, out)}
    assert (step.behind, some.retained, len(some)) == ([6, 7], 1, 3)
    assert [some.goes_on(A), some.has_caught_up(A, 10), some.holds_back(10)] == [True, True, False]
    some.hand_out_behind(five[3], ReceiveRequest(5, 1_000), step)
    assert step.markers[A] == Marker(6, 9, out)
    some.adopt(QueueCell(markers={A: Marker(6, 9, out)}), {A, c})
    assert (A in some, c in some, some.next_expiry_ms()) == (True, False, [1_000])


@pytest.mark.parametrize(("later", "holds"), [("a", True), ("b", False)])
def test_a_group_holds_back_what_is_behind_what_was_given_out_of_it(later: str, holds: bool) -> None:
    some = blocked({B: waiting(0)})
    hand_out(some, message(5, "a"), Step())
    some.pass_by(message(7, later), Step())
    assert some.holds_back(8) is holds


def test_a_suspect_before_the_head_of_a_run_waits_for_its_end_and_others_go_behind_the_marker() -> None:
    some = blocked({A: waiting(5)})
    some.reread_from(0, 8)
    some.reread([message(5, "a")], 5, 8, 8)
    some.run_due(0, Step(), 8)
    assert [some.is_behind(message(offset, "a")) for offset in (4, 5, 6)] == [False, True, True]
    assert [some.holds(message(offset, "a")) for offset in (4, 5, 6)] == [True, False, False]


@pytest.mark.parametrize(("offset", "kept"), [(4, 0), (5, 1), (6, 1)])
def test_only_a_suspect_from_before_the_head_has_its_group_read_again(offset: int, kept: int) -> None:
    some = blocked({A: waiting(5)})
    some.reread_from(0, 8)
    some.reread([message(5, "a")], 5, 8, 8)
    some.take_over(message(offset, "a"), Tries(MessageState.SUSPECT, 1, 0, 0, 1), Step())
    assert some.retained == kept


def test_retention_up_to_a_head_changes_nothing() -> None:
    some, step = blocked({A: waiting(8)}), Step()
    some.expired(8, step)
    assert step.markers == {}


def test_a_group_of_which_all_that_was_delivered_is_done_has_no_attempts() -> None:
    some, step = blocked({A: waiting(0)}), Step()
    some.reread_from(0, 5)
    some.reread([message(0, "a"), message(3, "a")], 0, 5, 5)
    some.run_due(0, step, 5)
    (run,) = step.runs
    assert (run.size, run.lane.marker and run.lane.marker.tries.attempts) == (1, 2)
    run.taken = run.done = 1
    run.lane.run = None
    assert isinstance(run.lane, Lane)
    some.moved(run.lane, run, 1, True, step)
    assert step.markers[A] == Marker(1, 1, Tries(MessageState.WAITING, 0))


# --- Messages tracked by themselves ---------------------------------------------------------------------------------------------


def test_what_is_due_within_a_minute_is_read_before() -> None:
    tries = {offset: Tries(MessageState.WAITING, 1, 1, due_ms) for offset, due_ms in enumerate((60_000, 60_001))}
    assert TrackedMessages(QueueCell(tries=tries), retained=10).missing(0) == [0]


def ended(schedule: PushSchedule, runs: Sequence[LaneRun]) -> None:
    for run in runs:
        run.done, run.ended = run.size, True
        schedule.report(run)


def test_when_all_is_done_a_long_group_gets_the_turns_of_the_few() -> None:
    """Message groups that are done count no more among those that wait for their turn."""
    cell, limits = QueueCell().taken_by("w"), QueueLimits(run_messages=2, few_lanes=3)
    schedule = PushSchedule(ORDERLY, cell, limits=limits)
    schedule.load([message(offset, f"g{offset}") for offset in range(5)], OffsetSet(), 5)
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    ended(schedule, step.runs)
    cell = schedule.plan(0, cell).apply(cell)
    schedule.load([message(offset, "long") for offset in range(5, 15)], OffsetSet(), 15)
    assert [run.size for run in schedule.plan(0, cell).runs] == [6]


@pytest.mark.parametrize("policy", list(DeadLetterPolicy))
def test_parking_takes_no_room_of_dead_letters(policy: DeadLetterPolicy) -> None:
    settings = GroupSettings(delivery_order=DeliveryOrder.ORDERLY, dead_letter_policy=policy, max_attempts=3)
    marker = Marker(5, 6, Tries(MessageState.SUSPECT, 3, 3, 0, 1))
    cell = QueueCell(settled=SettledOffsets(6), markers={A: marker}, dead_letters=DeadLetters(3, (1, 2))).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=QueueLimits(letters=2))
    assert schedule.blocked.reread_from(0, 6) == 5
    schedule.reread([message(5, "a")], 5, 6)
    step = schedule.plan(0, cell)
    parks = policy is DeadLetterPolicy.PARK
    assert ([one.offset for one in step.parked], step.letters) == ([5] if parks else [], [])
    assert schedule.wants_solo(0) is False


# --- A cell that is full --------------------------------------------------------------------------------------------------------


def full_of_failures(spare: int) -> tuple[PushSchedule, QueueCell, list[LaneRun]]:
    """A cell in which so many more messages may wait, and four messages that run side by side."""
    limits = QueueLimits(tracked=8, run_messages=1, waiting=None)
    tries = {offset: Tries(MessageState.WAITING, 1, 1, 10**9) for offset in range(limits.full - spare)}
    cell = QueueCell(settled=SettledOffsets(100), tries=tries).taken_by("w")
    schedule = PushSchedule(CONCURRENT, cell, limits=limits)
    schedule.load([message(offset, None) for offset in range(100, 104)], OffsetSet(), 104)
    step = schedule.plan(0, cell)
    assert len(step.runs) == 4
    return schedule, step.apply(cell), step.runs


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_full_cell_takes_successes_and_as_many_failures_as_there_is_room_for(spare: int) -> None:
    schedule, cell, (first, second, third, _) = full_of_failures(spare)
    ended(schedule, [first])
    for run in (second, third):
        run.failure, run.ended = Failure("no"), True
        schedule.report(run)
    step = schedule.plan(0, cell)
    assert (step.settled, first in schedule.running) == ([100], False)
    assert len(step.failed) == min(spare, 2)
    assert (second in schedule.running, third in schedule.running) == (spare == 0, spare <= 1), "the others stay as if they ran"


def test_failures_that_a_full_cell_has_no_room_for_are_left_to_the_next_owner() -> None:
    schedule, cell, runs = full_of_failures(0)
    for run in runs:
        run.failure, run.ended = Failure("no"), True
        schedule.report(run)
    step = schedule.plan(0, cell, QueueMode.DRAIN)
    assert step.failed == []
    left = step.apply(cell).released().taken_by("v")
    assert {offset: left.tries[offset].state for offset in range(100, 104)} == dict.fromkeys(range(100, 104), MessageState.SUSPECT)


def test_a_last_failure_without_room_for_its_dead_letter_waits_behind_its_marker_when_the_owner_leaves() -> None:
    settings = GroupSettings(delivery_order=DeliveryOrder.ORDERLY, max_attempts=2)
    cell = QueueCell(settled=SettledOffsets(6), markers={A: waiting(5)}, dead_letters=DeadLetters(3, (1, 2))).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=QueueLimits(letters=2))
    schedule.blocked.reread_from(0, 6)
    schedule.reread([message(5, "a")], 5, 6)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    cell = step.apply(cell)
    run.failure, run.ended = Failure("no"), True
    schedule.report(run)
    step = schedule.plan(0, cell, QueueMode.DRAIN)
    assert (step.letters, step.tries) == ([], {})
    marker = step.apply(cell).markers[A]
    assert (marker.head, marker.tries.state, marker.tries.attempts, marker.tries.strikes) == (5, MessageState.WAITING, 2, 1)


@pytest.mark.parametrize("failure", [Failure("no", rejected=True), None])
def test_a_group_that_has_caught_up_when_its_owner_leaves_keeps_no_marker(failure: Failure | None) -> None:
    cell = QueueCell(settled=SettledOffsets(6), markers={A: waiting(5)}).taken_by("w")
    schedule = PushSchedule(ORDERLY, cell, limits=QueueLimits())
    schedule.blocked.reread_from(0, 6)
    schedule.reread([message(5, "a")], 5, 6)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    cell = step.apply(cell)
    run.failure, run.ended, run.done = failure, True, int(failure is None)
    schedule.report(run)
    cell = schedule.plan(0, cell, QueueMode.DRAIN).apply(cell)
    assert cell.markers == {}, "else its group has a lag that nobody works off before the queue is taken again"


# --- What `receive` gives -------------------------------------------------------------------------------------------------------


def test_nothing_is_available_before_all_suspects_are_read() -> None:
    cell = QueueCell(settled=SettledOffsets(4), tries={2: Tries(MessageState.SUSPECT, 1, 5, 0, 1)}).taken_by("w")
    ready = ReceiveSchedule(GroupSettings(delivery_order=DeliveryOrder.CONCURRENT, max_attempts=None), cell, limits=QueueLimits())
    ready.load([message(4, None)], OffsetSet(), 5)
    assert ready.available(0) == 0
    assert ready.missing(0) == [2]
    ready.reread([message(2, None)], 2, 3)
    assert ready.available(0) == 1
    step, ((again,),) = ready.plan(0, [ReceiveRequest(1, 1_000)])
    assert (again.offset, step.letters) == (2, []), "as often as it takes, without a bound"


def test_a_group_that_fell_due_while_somebody_asked_what_is_ready_is_told_of_all_the_same() -> None:
    cell = QueueCell(settled=SettledOffsets(5), markers={A: Marker(5, 5, Tries(MessageState.WAITING, 0, 0, 10))})
    some = BlockedGroups(cell, QueueLimits(), GroupHashes())
    assert some.ready(20) == 0
    some.reread_from(20, 5)
    assert some.fell_due, "nothing else wakes the owner, which is to drop the marker"
    some.reread_from(20, 5)
    assert not some.fell_due
