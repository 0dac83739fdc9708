"""Messages that a cell tracks by themselves, one decision at a time; and those that were handed out by handle."""

from __future__ import annotations

import pytest

from penstock.consumers.limits import QueueLimits
from penstock.consumers.schedule.receive import ReceivedMessages, ReceiveSchedule
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.consumers.schedule.step import Step
from penstock.consumers.schedule.tracked_messages import TrackedMessages
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from tests.consumers.test_schedule import message


def waiting(due_ms: int) -> Tries:
    return Tries(MessageState.WAITING, 1, 1, due_ms)


def test_what_is_due_is_read_though_there_is_no_room_for_what_is_due_soon() -> None:
    tries = {0: waiting(100), 1: waiting(101), 2: waiting(99)}
    assert TrackedMessages(QueueCell(tries=tries), retained=0).missing(100) == [0, 2]
    assert TrackedMessages(QueueCell(tries=tries), retained=3).missing(100) == [0, 1, 2]


def test_what_is_due_at_a_time_is_counted_at_it() -> None:
    tracked = TrackedMessages(QueueCell(tries={0: waiting(100), 1: waiting(101)}), retained=10)
    assert [tracked.count_due(at_ms) for at_ms in (99, 100, 101)] == [0, 1, 2]


def test_messages_that_an_owner_before_handed_out_are_waited_for() -> None:
    tracked = TrackedMessages(QueueCell(tries={3: Tries(MessageState.OUT, 1, 0, 1_000)}), retained=10)
    assert tracked.next_expiry_ms() == [1_000]
    assert TrackedMessages(QueueCell(tries={3: waiting(5)}), retained=10).next_expiry_ms() == []


def test_others_change_only_what_was_handed_out() -> None:
    cell = QueueCell(tries={1: Tries(MessageState.OUT, 1, 0, 1_000), 2: waiting(0)})
    tracked = TrackedMessages(cell, retained=10)
    tracked.reread([message(2, None)])
    assert [one.offset for one in tracked.take_due(0, Step())] == [2]
    tracked.adopt(QueueCell(tries={2: waiting(0)}))  # that it runs is not stored yet
    assert {offset: tries.state for offset, tries in tracked.tries.items()} == {2: MessageState.RUNNING}


@pytest.mark.parametrize("retained", [0, 1, 2])
def test_as_many_as_there_is_room_for_stay_in_memory_until_they_are_due(retained: int) -> None:
    waits, out, step = TrackedMessages(QueueCell(), retained=retained), ReceivedMessages(QueueCell(), retained=retained), Step()
    for offset in range(2):
        waits.wait(message(offset, None), waiting(10), step)
        out.hand_out_fresh([message(offset, None)], ReceiveRequest(1, 10), step)
    assert (len(waits.messages), len(out.messages)) == (retained, retained)
    assert len(waits.missing(10)) == 2 - retained


def test_retention_settles_what_nobody_runs_or_has_and_no_more() -> None:
    tries = {1: waiting(9), 2: waiting(0), 3: Tries(MessageState.OUT, 1, 0, 9), 4: Tries(MessageState.SUSPECT, 1, 0, 0, 1)}
    later = {8: waiting(9), 9: Tries(MessageState.SUSPECT, 1, 0, 0, 1)}
    tracked = TrackedMessages(QueueCell(tries={**tries, **later}), retained=10)
    tracked.reread([message(2, None)])
    tracked.take_due(0, Step())
    step = Step()
    tracked.let_go(8, step)
    assert (sorted(step.settled), tracked.suspects) == ([1, 4], [9])
    assert sorted(tracked.tries) == [2, 3, 8, 9]
    tracked.let_go(9, step)
    assert (sorted(step.settled), tracked.suspects) == ([1, 4, 8], [9])


@pytest.mark.parametrize(("order", "policy"), [("CONCURRENT", "continue"), ("ORDERLY", "continue"), ("ORDERLY", "park")])
@pytest.mark.parametrize(("strikes", "hopeless"), [(2, False), (3, True), (4, True)])
def test_receive_gives_up_what_ended_its_process_as_often_as_it_may_fail(
    order: str, policy: str, strikes: int, hopeless: bool
) -> None:
    settings = GroupSettings(delivery_order=DeliveryOrder(order), dead_letter_policy=DeadLetterPolicy(policy), max_attempts=3)
    cell = QueueCell(tries={2: Tries(MessageState.SUSPECT, 3, strikes, 0, 1)}).taken_by("w")
    ready = ReceiveSchedule(settings, cell, limits=QueueLimits())
    ready.load([], OffsetSet(), ready.next_load)
    ready.reread([message(2, "a")], 2, 3)
    step, _ = ready.plan(0)
    parks = hopeless and policy == "park"
    assert [one.offset for one in step.parked] == ([2] if parks else [])
    assert [one.message.offset for one in step.letters] == ([2] if hopeless and not parks else [])
