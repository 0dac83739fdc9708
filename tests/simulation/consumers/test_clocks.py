"""Clocks that step while a process only consumes: what waits is due when it was due, by the store's time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import GroupPlan
from tests.simulation.consumers.stage import FAILURE, SUCCESS, Stage
from tests.simulation.process import SimProcess

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SLACK_S = 0.2
"""For the requests around a retry."""


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("order", list(DeliveryOrder))
def test_a_clock_that_is_set_while_a_retry_waits_neither_delays_nor_hastens_it(
    order: DeliveryOrder, step_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(GroupPlan(order=order, retry_s=5.0))

    async def behave(_: SimProcess, __: MessageView) -> ConsumeResult:
        return FAILURE if stage.started(0) == 1 else SUCCESS

    async def script() -> None:
        await stage.send("a")
        stage.start()
        await stage.until("failed", lambda: stage.ended() == 1)
        began_s = stage.now_s
        await asyncio.sleep(1)
        stage.process().step_clock(step_ms)
        await stage.until("run again", lambda: stage.started(0) == 2)
        assert stage.now_s - began_s == pytest.approx(5.0, abs=SLACK_S)
        await stage.until("done", lambda: stage.is_settled(1))

    with caplog.at_level(logging.WARNING, "penstock.log"):
        stage.play(script, behave=behave)
    said = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    by = "ahead by 3600.0 s" if step_ms > 0 else "back by 3600.0 s"
    assert said == [
        f"this machine's clock was set {by}; due times and store timestamps do not follow: nothing is early or late for it"
    ]


def test_a_retry_is_due_as_it_was_on_a_machine_whose_clock_is_another() -> None:
    """Who fails and who takes over both have clocks that are minutes off, in either direction."""
    stage = Stage(GroupPlan(retry_s=20.0), machines=2)

    async def behave(_: SimProcess, __: MessageView) -> ConsumeResult:
        return FAILURE if stage.started(0) == 1 else SUCCESS

    async def started(number: int, offset_ms: int) -> None:
        stage.start(number)
        await stage.until("a process", lambda: stage.machine(number).process is not None)
        stage.process(number).step_clock(offset_ms)

    async def script() -> None:
        await stage.send("a")
        await started(0, 4 * MINUTE_MS)
        await stage.until("failed", lambda: stage.ended() == 1)
        began_s = stage.now_s
        await started(1, -4 * MINUTE_MS)
        await stage.until("joined", lambda: bool(stage.machine(1).consumers))
        stage.machine(0)._stopping = True
        stage.process(0).crash()
        await stage.until("run again", lambda: stage.started(0) == 2)
        assert stage.now_s - began_s == pytest.approx(20.0, abs=SLACK_S)
        await stage.until("done", lambda: stage.is_settled(1))

    stage.play(script, behave=behave)
