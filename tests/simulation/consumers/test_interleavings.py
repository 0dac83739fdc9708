"""Interleavings that break a careless consumer, one by one, moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.stage import GROUP, SUCCESS, Stage
from tests.simulation.process import SimProcess

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]


async def _at_once(_: SimProcess, __: MessageView) -> ConsumeResult:
    return SUCCESS


def test_a_queue_that_was_consumed_to_its_end_is_read_again_after_a_reset() -> None:
    """Its owner waits for the next message, and nobody sends one."""
    stage = Stage()

    async def script() -> None:
        await stage.send("a", "b", "c")
        stage.start()
        await stage.until("done", lambda: stage.is_settled(3))
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, 1))
        await stage.until("done again", lambda: stage.cell().generation == 1 and stage.is_settled(3))

    stage.play(script, behave=_at_once)
    assert [stage.started(offset) for offset in range(3)] == [1, 2, 2]


def test_a_reset_waits_for_the_handler_that_still_runs() -> None:
    """In this process nothing of its message group starts before it has returned; other groups do."""
    stage = Stage()

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        if message.body == b"slow" and stage.started(0) == 1:
            await asyncio.sleep(8)
        return SUCCESS

    async def script() -> None:
        await stage.send("slow", "after", group="g")
        await stage.send("other", group="h")
        stage.start()
        await stage.until("started", lambda: stage.started(0) == 1)
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "earliest"))
        await stage.until("the other one again", lambda: stage.started(2) == 2, within_s=5)
        assert stage.started(0) == 1
        await stage.until("done", lambda: stage.is_settled(3))

    stage.play(script, behave=behave)
    assert stage.started(0) == 2


def test_a_handler_that_is_done_as_its_process_goes_on_counts() -> None:
    """The process stood still for longer than a handler may take, and nobody gave the handler up."""
    stage = Stage(timeout_s=1.0)

    async def behave(_: SimProcess, __: MessageView) -> ConsumeResult:
        await asyncio.sleep(0.5)
        return SUCCESS

    async def script() -> None:
        await stage.send("a")
        stage.start()
        await stage.until("started", lambda: stage.started(0) == 1)
        stage.process().pause(4.2)
        await stage.until("done", lambda: stage.is_settled(1))

    stage.play(script, behave=behave)
    assert stage.started(0) == 1


@pytest.mark.parametrize("queue_batches", [False, True])
def test_a_new_session_waits_for_the_handlers_of_the_one_before(queue_batches: bool) -> None:
    """The process stood still beyond its lease, was fenced, and takes its queue anew while the old handler goes on."""
    plan = GroupPlan(batch="queue" if queue_batches else None)
    stage = Stage(plan, timeout_s=100.0)

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        if message.body == b"slow" and stage.started(0) == 1:
            await asyncio.sleep(40)
        return SUCCESS

    async def script() -> None:
        await stage.send("slow", group="g")
        await stage.send("b", group="h")
        await stage.send("c", group="g")
        stage.start()
        await stage.until("started", lambda: stage.started(0) == 1)
        before = stage.cell().owner
        stage.process().pause(12)
        await stage.until("taken anew", lambda: stage.cell().owner not in ("", before), within_s=30)
        await stage.until("done", lambda: stage.is_settled(3), within_s=60)

    stage.play(script, behave=behave)
    assert stage.started(0) == 2


def test_an_owner_whose_lease_is_over_and_who_does_not_know_it_stands_still() -> None:
    """Its machine slept, so timers are late: what it cannot start any more it must not try to start again and again."""
    stage = Stage(GroupPlan(threads=1))

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(1)
        return SUCCESS

    async def script() -> None:
        for n in range(6):
            await stage.send(f"{n}", group=f"g{n}")
        stage.start()
        await stage.until("started", lambda: stage.started(0) == 1)
        gate = stage.hold(0, "put", "workers/")
        await gate.reached()
        stage.process().suspend(10)
        await asyncio.sleep(10.5)
        gate.release()
        await stage.until("done", lambda: stage.is_settled(6), within_s=60)

    world = stage.play(script, behave=behave)
    assert world.kernel.loop.steps < 30_000


def test_a_queue_that_is_lost_while_its_grant_is_on_its_way_leaves_nothing_in_flight() -> None:
    """The run was taken back, and then its write failed: it ended once, or this process would not know any more when it is at rest."""
    stage = Stage()

    async def script() -> None:
        stage.start()
        await stage.until("taken", lambda: bool(stage.cell().owner))
        gate = stage.hold(0, "put", "queues/")
        await stage.send("a", "b")
        await gate.reached()
        stage.process().pause(12)
        await asyncio.sleep(12.5)
        gate.release()
        await stage.until("done", lambda: stage.is_settled(2), within_s=60)

    stage.play(script, behave=_at_once)


def test_a_group_that_went_on_is_read_on() -> None:
    """Its later messages were passed by and not kept; nothing else happens in the queue that would wake its owner."""
    stage = Stage(GroupPlan(window=10, cache_messages=4), timeout_s=60.0)

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        if message.body == b"slow":
            await asyncio.sleep(5)
        return SUCCESS

    async def script() -> None:
        await stage.send("slow", group="g")
        for n in range(30):
            await stage.send(f"{n}", group="g" if n % 3 == 0 else "h")
        stage.start()
        await stage.until("done", lambda: stage.is_settled(31), within_s=30)

    stage.play(script, behave=behave)


def test_a_queue_goes_on_although_another_one_s_solo_began_and_ended_within_one_write_of_it() -> None:
    """What it holds back for the sake of a suspect that runs alone it starts when that has ended, whatever it was doing meanwhile."""
    stage = Stage(GroupPlan(batch="queue", batch_messages=4), queues=2)

    async def behave(process: SimProcess, message: MessageView) -> ConsumeResult:
        if message.body == b"suspect" and stage.started(0) == 1:
            process.crash()
            await process.halt()
        if message.body == b"slow" and stage.started(0, queue=1) == 1:
            await asyncio.sleep(2)
            raise ValueError("somewhere")
        return SUCCESS

    async def script() -> None:
        await stage.send("suspect", queue=0)
        stage.start()
        first = await _process_after(stage, None)
        await _process_after(stage, first)
        take = stage.hold(0, "put", "queues/billing/orders/0")
        await take.reached()
        await stage.send_together("slow", "b", "c", "d", group=None, queue=1)
        await stage.until("the batch runs", lambda: stage.started(0, queue=1) == 1)
        write = stage.hold(0, "put", "queues/billing/orders/1")
        take.release()
        await write.reached()
        worker = stage.machine().consumers[GROUP]._membership._coordination.worker
        assert worker.quiet, "the suspect waits for the batch to end"
        await stage.until("the suspect is done", lambda: stage.is_settled(1) and not worker.quiet)
        write.release()
        await stage.until("done", lambda: stage.is_settled(4, queue=1), within_s=10)

    stage.play(script, behave=behave)


async def _process_after(stage: Stage, before: SimProcess | None) -> SimProcess:
    """The process that runs on the machine next."""
    await stage.until("started", lambda: stage.machine().process not in (before, None))
    return stage.process()
