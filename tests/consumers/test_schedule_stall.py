"""What the schedule does with runs that are far behind the others."""

from __future__ import annotations

import pytest

from penstock.consumers.limits import Limits
from penstock.consumers.schedule import Schedule
from penstock.coordinator.cell import QueueCell
from penstock.coordinator.groups import GroupSettings
from penstock.log import MessageView
from tests.consumers.test_schedule import message


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_run_far_behind_that_is_done_but_has_not_ended_yet_is_left_alone(order: str) -> None:
    """Its last success is told before its end, and the schedule may look between the two."""
    cell = QueueCell().taken_by("w")
    schedule = Schedule(GroupSettings(delivery_order=order), cell, limits=Limits(window=20))  # type: ignore[arg-type]
    rows: list[MessageView] = [message(offset, f"g{offset}") for offset in range(20)]
    schedule.load(rows, type(cell.granted)(), 20)
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
