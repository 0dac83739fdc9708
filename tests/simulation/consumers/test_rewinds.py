"""The judge of a bucket that is put back is judged: what it says of a message whose process was killed."""

from __future__ import annotations

from functools import partial

import pytest

from tests.simulation.consumers.plot import GroupPlan
from tests.simulation.consumers.rewinds import Rewinds
from tests.simulation.consumers.stage import STEADY_STORE, STEADY_TABLE, Stage
from tests.simulation.small import small_log

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]
BODY = "slow 0"


def killed(times: int) -> Rewinds:
    """A world with one message, whose process was killed so often while it ran alone."""
    stage = Stage(GroupPlan(max_attempts=2))
    world = stage.world = Rewinds(1, stage.world.plot, store_network=STEADY_STORE, table_network=STEADY_TABLE)
    stage.machines = world.machines

    def begun(before: int) -> bool:
        return stage.started(0) > before

    async def script() -> None:
        await world._as("founder", world._found)
        await stage.send(BODY)
        stage.start()
        for starts in range(times + 1):  # the first one does not run alone
            await stage.until("begun", partial(begun, starts))
            stage.process().crash()
        await world._as("looker", world._look)
        await world._all_settled(stage.now_s)
        await stage.machine().stop()
        await world._as("auditor", world._audit)

    with small_log():
        world.kernel.run(script())
    return world


def test_a_message_that_killed_its_last_attempt_may_be_a_dead_letter() -> None:
    world = killed(2)
    assert world._letters == {BODY.encode()}
    assert not list(world._judge())
    world._letters.clear()
    assert [wrong[:2] for wrong in world._judge()] == ["B1"], "it is lost"


def test_a_message_that_had_an_attempt_left_may_not() -> None:
    world = killed(1)
    assert not world._letters
    assert not list(world._judge())
    world._letters.add(BODY.encode())
    assert [wrong[:2] for wrong in world._judge()] == ["B3"]
