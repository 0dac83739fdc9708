"""What keeps an owner's loop from turning without end while something cannot run yet."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.consumers.limits import Limits, Mode
from penstock.consumers.schedule import Schedule
from penstock.coordinator.cell import QueueCell, State, Tries
from penstock.coordinator.groups import DeliveryOrder, GroupSettings
from penstock.log.messages import MessageView

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def test_nobody_is_made_to_wait_for_a_suspect_that_is_not_in_memory() -> None:
    cell = QueueCell().with_tries(0, Tries(State.SUSPECT, 1, 0, 0, 1))
    schedule = Schedule(GroupSettings(), cell, limits=Limits())

    assert not schedule.wants_solo(0), "there is nothing to run alone yet: the owner's loop would turn without end"
    assert schedule.missing(0) == [0]

    message = MessageView("orders", 0, 0, "m0", "g", None, (), {}, b"", EPOCH, EPOCH, None, "p")
    schedule.recalled([message], 0, 0)
    assert schedule.wants_solo(0)
    step = schedule.plan(0, cell, Mode.SOLO)
    assert [[one.offset for one in run.messages] for run in step.runs] == [[0]]


def test_what_is_due_and_cannot_run_yet_wakes_nobody() -> None:
    """It is being read, or suspects run first: whoever woke its owner for it would do so without end."""
    cell = QueueCell().with_tries(0, Tries(State.WAITING, 1, 1, 1_000)).with_tries(1, Tries(State.WAITING, 1, 1, 5_000))
    schedule = Schedule(GroupSettings(delivery_order=DeliveryOrder.CONCURRENT), cell, limits=Limits())
    assert schedule.next_due_ms() == 1_000

    assert schedule.plan(1_000, cell).is_empty
    assert schedule.next_due_ms() == 5_000
    assert schedule.missing(1_000) == [0]

    message = MessageView("orders", 0, 0, "m0", "g", None, (), {}, b"", EPOCH, EPOCH, None, "p")
    schedule.recalled([message], 0, 0)
    step = schedule.plan(1_001, cell)
    assert [[one.offset for one in run.messages] for run in step.runs] == [[0]]
    assert schedule.missing(1_001) == []
