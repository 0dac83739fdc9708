"""Why a message failed is told of its last attempt or not at all, whoever dies or orders what in between."""

from __future__ import annotations

import asyncio

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.stage import GROUP, SUCCESS, Stage
from tests.simulation.process import SimProcess

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

LINE = (GROUP, TOPIC, 0)
PARKS = GroupPlan(order=DeliveryOrder.ORDERLY, policy=DeadLetterPolicy.PARK, max_attempts=1)


async def failing(process: SimProcess, message: MessageView) -> ConsumeResult:
    if message.body.startswith(b"bad"):
        raise ValueError(f"{message.body.decode()} at {message.delivery_attempt} in {process.name}")
    return SUCCESS


def told(stage: Stage) -> list[str]:
    return [one.text.removeprefix("ValueError: ").partition(" in ")[0] for one in stage.world.witness.told(LINE)]


async def kill(stage: Stage, number: int) -> None:
    """For good."""
    stage.machine(number)._stopping = True
    stage.process(number).crash()


def test_a_crash_between_the_cell_and_the_reason_loses_the_reason_and_shows_no_earlier_one() -> None:
    stage = Stage(GroupPlan(retry_s=20.0), machines=2)

    async def script() -> None:
        await stage.send("bad 0")
        stage.start(0)
        await stage.until("told", lambda: told(stage) == ["bad 0 at 1"])
        gate = stage.hold(0, "put", "failures/")
        await stage.until("failed again", lambda: any(one.tries.strikes == 2 for one in stage.cell().markers.values()))
        await gate.reached()
        assert told(stage) == [], "the reason of the first attempt is not that of the second"
        await kill(stage, 0)
        stage.start(1)
        await stage.until("taken", lambda: stage.cell().epoch == 2)
        assert told(stage) == []
        await stage.until("given up", lambda: stage.is_settled(1))
        gate.release()

    stage.play(script, behave=failing)
    (letter,) = stage.world.history.letters[GROUP]
    assert letter.body == b"bad 0"


def test_a_dead_owners_late_reason_does_not_replace_a_later_one() -> None:
    stage = Stage(GroupPlan(retry_s=20.0, max_attempts=None), machines=2)

    async def script() -> None:
        await stage.send("bad 0")
        stage.start(0)
        await stage.until("started", lambda: stage.machine(0).process is not None)
        gate = stage.hold(0, "put", "failures/")
        await gate.reached()
        await kill(stage, 0)
        stage.start(1)
        await stage.until("told", lambda: told(stage) == ["bad 0 at 2"])
        gate.release()
        await asyncio.sleep(1.0)
        assert told(stage) == ["bad 0 at 2"]
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "latest"))

    stage.play(script, behave=failing)


def test_after_a_reset_no_reason_of_before_is_told() -> None:
    stage = Stage(GroupPlan(retry_s=5.0, max_attempts=None))

    async def script() -> None:
        await stage.send("bad 0")
        stage.start(0)
        await stage.until("told", lambda: told(stage) == ["bad 0 at 1"])
        gate = stage.hold(0, "put", "failures/")
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "earliest"))
        await stage.until("reset", lambda: stage.cell().generation > 0 and bool(stage.cell().markers))
        await gate.reached()
        assert told(stage) == [], "offset and attempt are the same as before the reset"
        gate.release()
        await stage.until("told", lambda: told(stage) != [])
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "latest"))

    stage.play(script, behave=failing)


@pytest.mark.parametrize("heir", [False, True])
def test_a_parked_message_that_an_operator_skips_keeps_its_reason_in_the_dead_letter(heir: bool) -> None:
    stage = Stage(PARKS, machines=2)

    async def script() -> None:
        await stage.send("bad 0", "good 1")
        stage.start(0)
        await stage.until("told", lambda: told(stage) == ["bad 0 at 1"])
        if heir:
            await kill(stage, 0)
            stage.start(1)
            await stage.until("taken", lambda: stage.cell().epoch == 2)
        await stage.operate(lambda operators: operators.skip(GROUP))
        await stage.until("done", lambda: stage.is_settled(2))

    stage.play(script, behave=failing)
    (letter,) = stage.world.history.letters[GROUP]
    assert letter.reason.startswith("ValueError: bad 0 at 1 in ")
    assert letter.reason.endswith("; an operator skipped it")


def test_who_ran_a_message_when_its_worker_died_is_told() -> None:
    stage = Stage(GroupPlan(retry_s=60.0), machines=2)

    async def hanging(process: SimProcess, message: MessageView) -> ConsumeResult:
        if process is stage.machine(0).process:
            await asyncio.sleep(1_000)
        raise ValueError("bad")

    async def script() -> None:
        await stage.send("bad 0")
        stage.start(0)
        await stage.until("granted", lambda: len(stage.cell().granted) == 1)
        owner = stage.cell().owner
        await kill(stage, 0)
        stage.start(1)
        await stage.until("told", lambda: [one.error for one in stage.world.witness.told(LINE)] == ["WorkerDied"])
        (death,) = stage.world.witness.told(LINE)
        assert (death.worker, death.attempt) == (owner, 1)
        await stage.until("failed", lambda: [one.attempt for one in stage.world.witness.told(LINE)] == [2])
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "latest"))

    stage.play(script, behave=hanging)
