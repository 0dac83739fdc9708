"""Message groups whose hashes meet: they are one group, whose messages run in order and are held up together, and none is lost."""

from __future__ import annotations

import pytest

from penstock.consumers.feed import rows
from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.schedule.receive import ReceiveSchedule
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from tests.consumers.test_schedule import message

GROUPS = ["victim", "attacker", "victim", "attacker", "victim"]


@pytest.fixture(autouse=True)
def _one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "group_hash", lambda group, _: 0 if group is None else 7)


def test_a_failure_of_one_blocks_both_in_one_marker() -> None:
    cell = QueueCell().taken_by("w")
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    schedule.load([message(offset, group) for offset, group in enumerate(GROUPS)], OffsetSet(), 5)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    assert run.messages.offsets == [0, 1, 2, 3, 4], "in the order of the queue"
    cell = step.apply(cell)
    run.done, run.failure, run.ended = 1, Failure("raised"), True
    schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    assert cell.markers == {7: Marker(1, 2, Tries(MessageState.WAITING, 1, 1, 1_000))}
    schedule.load([message(5, "victim"), message(6, None)], OffsetSet(), 7)
    step = schedule.plan(10, cell)
    assert [one.messages.offsets for one in step.runs] == [[6]]
    assert step.listed == [5]


def test_a_simple_consumer_hands_the_suspects_of_both_out_as_one_lane() -> None:
    cell = QueueCell().with_granted(OffsetSet.of_offsets([0, 1])).taken_by("w")
    ready = ReceiveSchedule(GroupSettings(), cell, limits=QueueLimits())
    ready.reread([message(0, "victim"), message(1, "attacker")], 0, 0)
    step, given = ready.plan(0, [ReceiveRequest(1, 50_000), ReceiveRequest(1, 50_000)])
    cell = step.apply(cell)
    assert [[one.offset for one in some] for some in given] == [[0], []]
    assert cell.markers[7].head == 0
    assert cell.tries == {}
    assert ready.blocked.retained == 2


@pytest.mark.parametrize("state", [MessageState.SUSPECT, MessageState.WAITING, MessageState.PARKED])
def test_a_suspect_before_the_head_of_a_marker_goes_behind_it(state: MessageState) -> None:
    """As two lanes of one hash leave them."""
    before = QueueCell(
        settled=SettledOffsets(9), markers={7: Marker(5, 7, Tries(state, 3, 2))}, tries={2: Tries(MessageState.SUSPECT, 1, 0, 0, 1)}
    )
    cell = before.taken_by("w")
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    schedule.reread([message(2, "attacker")], 0, 0)
    cell = schedule.plan(0, cell, QueueMode.SOLO if schedule.wants_solo(0) else QueueMode.USUAL).apply(cell)
    marker = cell.markers[7]
    assert (marker.head, marker.limit, marker.tries.state, marker.tries.attempts, marker.tries.strikes) == (2, 7, state, 3, 0)
    assert cell.tries == {}
    if state is not MessageState.PARKED:
        assert schedule.blocked.reread_from(0, schedule.next_fresh) == 2


def test_a_suspect_before_the_head_waits_for_a_run_of_its_group() -> None:
    markers = {7: Marker(5, 6, Tries(MessageState.WAITING))}
    cell = QueueCell(settled=SettledOffsets(9), markers=markers, tries={2: Tries(MessageState.SUSPECT, 1, 0, 0, 4)}).taken_by("w")
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    schedule.blocked.reread_from(0, schedule.next_fresh)
    schedule.reread([message(5, "victim")], 5, 9)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    cell = step.apply(cell)
    schedule.reread([message(2, "attacker")], 0, 0)
    step = schedule.plan(0, cell)
    assert step.runs == []
    cell = step.apply(cell)
    run.done, run.ended = 1, True
    schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    assert (cell.markers[7].head, dict(cell.tries)) == (2, {})
