"""What fails, dies or hangs, and what becomes of the innocents around it: one story at a time, moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Never

import pytest

from penstock.consumers.handlers.results import ConsumeResult, RetryAfter
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder
from penstock.coordinator.operators.operators import Operators
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.records import Started
from tests.simulation.consumers.stage import FAILURE, GROUP, SUCCESS, Stage
from tests.simulation.faults import Fault, ScriptedFaults, Where
from tests.simulation.process import Crashed, SimProcess
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]


async def _killing(process: SimProcess, message: MessageView) -> ConsumeResult:
    if message.body.startswith(b"poison"):
        process.crash()
        await process.halt()
    await asyncio.sleep(0.5)
    return SUCCESS


@pytest.mark.parametrize("order", list(DeliveryOrder))
def test_a_message_that_kills_its_process_is_the_only_one_that_dies(order: DeliveryOrder) -> None:
    """Innocents of other queues are in flight each time; they are run again, and get no strike."""
    stage = Stage(GroupPlan(order=order, max_attempts=2), queues=3, machines=2)

    async def script() -> None:
        for queue in range(3):
            await stage.send(*(f"{queue}/{n}" for n in range(6)), group=f"g{queue}", queue=queue)
        await stage.send("poison", group="p", queue=1)
        for queue in range(3):
            await stage.send(*(f"{queue}/{n}" for n in range(6, 12)), group=f"g{queue}", queue=queue)
        stage.start()
        await stage.until("done", lambda: all(stage.is_settled(12 + (queue == 1), queue) for queue in range(3)), within_s=200)

    world = stage.play(script, behave=_killing)
    assert [letter.body for letter in world.history.letters[GROUP]] == [b"poison"]


@pytest.mark.parametrize("batch", ["group", "queue"])
def test_a_batch_that_raises_without_saying_where_is_halved(batch: str) -> None:
    """Only the message at fault is given up, and nothing that was settled runs again."""
    stage = Stage(GroupPlan(batch=batch, batch_messages=16, max_attempts=2, retry_s=0.1))  # type: ignore[arg-type]

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        if message.body == b"5":
            raise ValueError("somewhere")
        return SUCCESS

    async def script() -> None:
        await stage.send(*(f"{n}" for n in range(16)))
        stage.start()
        await stage.until("done", lambda: stage.is_settled(16))

    world = stage.play(script, behave=behave)
    assert [letter.body for letter in world.history.letters[GROUP]] == [b"5"]


def test_a_handler_of_minutes_does_not_hold_the_others() -> None:
    """The window is many times full while it runs: its message group gets a marker, and the floor goes on."""
    stage = Stage(GroupPlan(window=20, cache_messages=40), timeout_s=600.0)

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(100 if message.body == b"slow" else 0.01)
        return SUCCESS

    async def script() -> None:
        await stage.send("slow", group="slow")
        stage.start()
        for n in range(120):
            await stage.send(f"{n}", group=f"g{n % 5}" if n % 10 else "slow")
        await stage.until("the others are done", lambda: stage.cell().settled.floor == 121, within_s=20)
        assert 0 in [marker.head for marker in stage.cell().markers.values()]
        await stage.until("done", lambda: stage.is_settled(121), within_s=120)

    stage.play(script, behave=behave)
    assert stage.started(0) == 1


def test_a_consumer_whose_loop_died_in_a_living_process_loses_its_queues() -> None:
    stage = Stage(machines=2, queues=2)

    async def never() -> Never:
        await asyncio.Event().wait()
        raise AssertionError

    async def at_once(_: SimProcess, __: MessageView) -> ConsumeResult:
        return SUCCESS

    async def script() -> None:
        stage.start()
        await stage.until("both work", lambda: all(stage.cell(queue).owner for queue in range(2)), within_s=30)
        await stage.until("even", lambda: stage.cell(0).owner != stage.cell(1).owner, within_s=30)
        stuck = stage.machine(0).consumers[GROUP]
        member = stuck._membership.member.id
        stuck._membership.round = never  # type: ignore[method-assign]
        await stage.until("taken", lambda: member not in (stage.cell(0).owner, stage.cell(1).owner), within_s=30)
        for queue in range(2):
            await stage.send("a", queue=queue)
        await stage.until("done", lambda: all(stage.is_settled(1, queue) for queue in range(2)))
        stage.process(0).crash()

    stage.play(script, behave=at_once)


def test_an_owner_that_died_while_idle_is_replaced() -> None:
    """Its lease is a minute long then, and that is how long it takes."""
    stage = Stage(machines=2, queues=1)

    async def at_once(_: SimProcess, __: MessageView) -> ConsumeResult:
        return SUCCESS

    async def script() -> None:
        stage.start()
        await stage.send("a")
        await stage.until("done", lambda: stage.is_settled(1))
        await asyncio.sleep(900)
        owner = stage.cell().owner
        number = next(n for n in range(2) if stage.machine(n).consumers[GROUP]._membership.member.id == owner)
        stage.machine(number).process.crash()  # type: ignore[union-attr]
        await stage.send("b")
        assert await stage.until("done", lambda: stage.is_settled(2), within_s=120) < 1.25 * 60 + 5

    stage.play(script, behave=at_once)


def test_a_retry_in_two_hours_outlives_deploys() -> None:
    stage = Stage(machines=2, queues=1, lease_s=30.0)

    async def behave(_: SimProcess, message: MessageView) -> object:
        if message.body == b"later" and stage.started(0) == 1:
            return RetryAfter(timedelta(hours=2))
        return SUCCESS

    async def script() -> None:
        await stage.send("later", "behind", group="g")
        await stage.send("other", group="h")
        stage.start()
        await stage.until("waits", lambda: bool(stage.cell().markers))
        for _ in range(deploys := thoroughly(12, 3)):
            for machine in stage.machines:
                await machine.deploy()
            await asyncio.sleep(300)
        assert stage.started(0) == 1
        await asyncio.sleep(2 * 3600 - 300 * deploys)
        await stage.until("done", lambda: stage.is_settled(3), within_s=60)

    stage.play(script, behave=behave)
    assert [stage.started(offset) for offset in range(3)] == [2, 1, 1]


def test_an_order_for_sixteen_queues_is_one_order() -> None:
    """Its operator crashed as it was written: every queue carries it out."""
    stage = Stage(machines=2, queues=16)

    async def at_once(_: SimProcess, __: MessageView) -> ConsumeResult:
        return SUCCESS

    async def script() -> None:
        for queue in range(16):
            await stage.send("a", "b", queue=queue)
        stage.start()
        await stage.until("done", lambda: all(stage.is_settled(2, queue) for queue in range(16)))
        crash = Where(process="operator", verb="put", key=lambda key: key.startswith("groups/"))
        stage.world.table.plan = ScriptedFaults([(crash, Fault.CRASH_AFTER)])
        with pytest.raises(Crashed):
            await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, 1))
        await stage.until("reset", lambda: all(stage.cell(queue).generation == 1 for queue in range(16)), within_s=30)
        await stage.until("done again", lambda: all(stage.is_settled(2, queue) for queue in range(16)))

    stage.play(script, behave=at_once)
    assert [stage.started(1, queue) for queue in range(16)] == [2] * 16


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.LATE_APPLY, Fault.OWN_CONFLICT, Fault.DUPLICATE])
@pytest.mark.parametrize("order", ["release", "skip"])
def test_a_command_whose_write_is_in_doubt_is_carried_out_once(order: str, fault: Fault) -> None:
    """The owner's cell write that carries it out is lost, late, doubled, or seems refused; and new messages of the group arrive."""
    stage = Stage(GroupPlan(policy=DeadLetterPolicy.PARK, max_attempts=1))

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        return FAILURE if message.body == b"bad" and stage.started(0) == 1 else SUCCESS

    def ordered(operators: Operators) -> Awaitable[object]:
        return operators.release(GROUP) if order == "release" else operators.skip(GROUP)

    async def script() -> None:
        await stage.send("bad", "behind")
        stage.start()
        await stage.until("parked", lambda: any(marker.tries.state.name == "PARKED" for marker in stage.cell().markers.values()))
        where = Where(process=stage.process().name, verb="put", key=lambda key: key.startswith("queues/"))
        stage.world.table.plan = ScriptedFaults([(where, fault)])
        await stage.operate(ordered)
        await stage.send("new")
        await stage.until("done", lambda: stage.is_settled(3), within_s=120)

    world = stage.play(script, behave=behave)
    assert [letter.body for letter in world.history.letters[GROUP]] == ([] if order == "release" else [b"bad"])
    assert stage.started(0) == (2 if order == "release" else 1)


def test_a_released_group_meets_new_messages_and_a_new_owner() -> None:
    """The release is carried out by an owner that dies at once, while messages of the group arrive all the time."""
    stage = Stage(GroupPlan(policy=DeadLetterPolicy.PARK, max_attempts=1, cache_messages=4), machines=2)

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(0.05)
        return FAILURE if message.body == b"bad" and stage.started(0) == 1 else SUCCESS

    async def script() -> None:
        await stage.send("bad", *(f"{n}" for n in range(10)))
        stage.start()
        await stage.until("parked", lambda: any(marker.tries.state.name == "PARKED" for marker in stage.cell().markers.values()))
        await stage.operate(lambda operators: operators.release(GROUP))
        await stage.until("carried out", lambda: stage.cell().commands == 1, within_s=30)
        owner = stage.cell().owner
        number = next(n for n in range(2) if stage.machine(n).consumers[GROUP]._membership.member.id == owner)
        stage.machine(number).process.crash()  # type: ignore[union-attr]
        for n in range(10, 30):
            await stage.send(f"{n}")
            await asyncio.sleep(0.4)
        await stage.until("done", lambda: stage.is_settled(31), within_s=60)

    stage.play(script, behave=behave)


def test_a_heartbeat_sent_before_the_fence_and_landing_after_it_revives_nobody() -> None:
    stage = Stage(machines=2)

    async def behave(process: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(0.2)
        return SUCCESS

    async def script() -> None:
        await stage.send(*(f"{n}" for n in range(5)))
        stage.start(0)
        await stage.until("started", lambda: stage.started(0) == 1)
        stage.start(1)
        await asyncio.sleep(2)
        gate = stage.hold(0, "put", "workers/")
        await gate.reached()
        stage.process(0).pause(20)
        await stage.until("taken", lambda: stage.cell().epoch == 2, within_s=20)
        gate.release()
        await stage.send(*(f"{n}" for n in range(5, 10)))
        await stage.until("done", lambda: stage.is_settled(10), within_s=60)

    world = stage.play(script, behave=behave)
    assert any(isinstance(record, Started) and record.process == "m1" for record in world.history.records)
