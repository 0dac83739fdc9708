"""C11, isolation: while one message group fails, the others of its queue come to their handlers as soon as they would without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from statistics import quantiles
from typing import Any

import pytest

from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder
from penstock.coordinator.queues.cell import QueueCell
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.records import Started
from tests.simulation.consumers.stage import FAILURE, SUCCESS, Stage
from tests.simulation.patches import Patch, attribute
from tests.simulation.process import SimProcess
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = thoroughly(300, 100)
GROUPS = 10
PLANS = {
    "retried": GroupPlan(max_attempts=None, retry_s=0.5),
    "buried": GroupPlan(max_attempts=2, retry_s=0.1),
    "parked": GroupPlan(max_attempts=2, retry_s=0.1, policy=DeadLetterPolicy.PARK),
    "concurrent": GroupPlan(max_attempts=None, retry_s=0.5, order=DeliveryOrder.CONCURRENT),
}


def p99_s(plan: GroupPlan, *, poisonous: bool, patch: Patch = nullcontext) -> float:
    """From the producer's receipt to the first start of the messages of all groups but one, in which each fails for a while if that is
    ``poisonous``.
    """
    stage = Stage(plan)
    known_s: dict[int, float] = {}
    healed = False

    async def behave(_: SimProcess, message: MessageView) -> object:
        await asyncio.sleep(0.002)
        return FAILURE if poisonous and not healed and message.message_group == "0" else SUCCESS

    async def script() -> None:
        nonlocal healed
        stage.start()
        await stage.until("taken", lambda: bool(stage.cell().owner))
        for n in range(MESSAGES):
            await stage.send(f"{n}", group=str(n % GROUPS))
            known_s[n] = stage.now_s
            await asyncio.sleep(0.05)
        healed = True

    with patch():
        world = stage.play(script, behave=behave)
    started_s: dict[int, float] = {}
    for record in world.history.records:
        if isinstance(record, Started):
            for token in record.tokens:
                assert token.topic == TOPIC
                started_s.setdefault(token.offset, record.at_s)
    innocent = [n for n in range(MESSAGES) if n % GROUPS]
    return quantiles([max(0.001, started_s[n] - known_s[n]) for n in innocent], n=100)[-1]


@pytest.mark.parametrize("name", thoroughly(list(PLANS), ["parked"]))
def test_a_poison_group_delays_no_other(name: str) -> None:
    without = p99_s(PLANS[name], poisonous=False)
    beside = p99_s(PLANS[name], poisonous=True)
    assert beside <= 2 * without, f"p99 {1000 * beside:.0f} ms beside it, {1000 * without:.0f} ms without"


def _waiting_for_blocked(original: Callable[[PushSchedule, QueueCell], int]) -> Callable[[PushSchedule, QueueCell], int]:
    """As if a queue stood still while one of its groups does."""

    def room(self: PushSchedule, cell: QueueCell) -> int:
        return 0 if self.blocked else original(self, cell)

    return room


def test_a_queue_that_stands_still_with_one_group_is_noticed() -> None:
    patch: Any = attribute(PushSchedule, "room", _waiting_for_blocked)
    calm = p99_s(PLANS["retried"], poisonous=False, patch=patch)
    assert p99_s(PLANS["retried"], poisonous=True, patch=patch) > 2 * calm
