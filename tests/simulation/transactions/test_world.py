"""The world of transactions itself: who stands still has its time when it goes on, and who never comes to an end is noticed."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.plans import HOUR_S
from tests.simulation.simulated import Stuck
from tests.simulation.small import small_log
from tests.simulation.transactions.machine import Life
from tests.simulation.transactions.plot import Plot
from tests.simulation.transactions.world import Transacting

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

QUIET_S = 4 * HOUR_S
PLOT = Plot(senders=1, transactions=1, topics=1, finishers=1, forgets=0.0, unsure=0.0, faults_end_s=60.0, quiet_s=QUIET_S)


class _Sleepy(Transacting):
    """A machine is suspended shortly before faults end, for longer than anything may take after that."""

    async def _strike(self, *_: object) -> None:
        await asyncio.sleep(50.0)
        sleeper = next(machine for machine in self.machines if machine.name == "s0").process
        assert sleeper is not None
        sleeper.suspend(3 * QUIET_S)


def test_who_is_suspended_for_longer_than_the_quiet_time_comes_to_its_end_when_it_wakes() -> None:
    world = _Sleepy(0, PLOT)
    with small_log():
        assert world.run() == []
    assert world.counts["suspend"] == 1


def test_who_does_not_come_to_an_end_is_noticed() -> None:
    world = Transacting(0, PLOT)

    async def works_on(life: Life) -> None:
        await asyncio.Event().wait()

    async def script() -> None:
        world.start("s", works_on)

    with small_log(), pytest.raises(Stuck, match="T10 s does not come to an end"):
        world.play(script)
