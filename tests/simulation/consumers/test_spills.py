"""Messages that wait outside of their queue's cell: stories that chance meets too seldom, each with the guard that it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.consumers.handlers.results import RetryAfter
from penstock.consumers.queues import spill_task
from penstock.consumers.queues.spill_task import SpillTask
from penstock.coordinator.cells.keys import QUEUES
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.coordinator.queues import spills
from penstock.coordinator.registry import spill_objects
from penstock.coordinator.registry.spill_objects import ORPHAN_AGE_MS, WAITING, collect_spills
from penstock.log.message.message import MessageView
from penstock.log.stores.protocol import Put
from tests.simulation.consumers import spill_patches
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.stage import SUCCESS, Stage
from tests.simulation.patches import Patch, attribute, everywhere
from tests.simulation.process import SimProcess
from tests.simulation.simulated import Stuck
from tests.simulation.small import small_log

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

COUNT = 12
PLAN = GroupPlan(order=DeliveryOrder.CONCURRENT, max_attempts=9, waiting=2)


def failing(wait_s: float) -> Callable[[SimProcess, MessageView], Awaitable[object]]:
    """Each message fails once, and succeeds that long afterwards."""

    async def behave(_: SimProcess, message: MessageView) -> object:
        return RetryAfter(timedelta(seconds=wait_s + int(message.body))) if message.delivery_attempt == 1 else SUCCESS

    return behave


async def spilled(stage: Stage) -> None:
    await stage.send_together(*(f"{n}" for n in range(COUNT)), group=None)
    stage.start()
    await stage.until("they wait outside", lambda: stage.bare().count_spilled >= COUNT - 3)


def objects(stage: Stage) -> dict[str, Any]:
    """Those of the store, to be tampered with."""
    return {key: one for key, one in stage.world.store.memory._objects.items() if key.startswith(WAITING)}


def age(stage: Stage) -> None:
    """Make all of them as old as an orphan is."""
    for key, one in objects(stage).items():
        older = replace(one, last_modified_ms=one.last_modified_ms - ORPHAN_AGE_MS - 1)
        stage.world.store.memory._objects[key] = older


async def collect(stage: Stage) -> None:
    process = stage.world.kernel.process("collector")
    lake, coordination = stage.world.lake(process), stage.world.coordination(process)
    await process.run(collect_spills(lake.store, coordination.cells, coordination.groups, TOPIC))


def played(stage: Stage, script: Callable[[], Any], behave: Any, guard: Patch | None) -> None:
    """With every guard it goes right, without this one it does not."""
    with guard() if guard else nullcontext():
        if guard is None:
            stage.play(script, behave=behave)
            return
        with pytest.raises((AssertionError, Stuck)):
            stage.play(script, behave=behave)


FORGOTTEN = attribute(SpillTask, "_read", spill_patches.forgotten_when_unreadable)


@pytest.mark.parametrize("guard", [None, FORGOTTEN], ids=["all guards", "what cannot be read is let go"])
def test_what_waits_in_an_object_that_is_gone_waits_until_it_is_restored(
    guard: Patch | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Its messages are neither lost nor run at random; the others run; and an operator is told what to do."""
    stage = Stage(PLAN, quiet_s=900.0)

    async def script() -> None:
        await spilled(stage)
        taken = objects(stage)
        waiting = stage.bare().count_spilled
        stage.world.witness.spilled.taken_away |= taken.keys()
        for key in taken:
            await stage.world.store.memory.delete(key)
        stage.process().crash()  # what it has in memory would do
        await asyncio.sleep(120)
        await stage.send("later", group="other")
        await stage.until("later messages are done", lambda: stage.cell().settled.floor == COUNT + 1)
        assert stage.bare().count_spilled == waiting
        for key, one in taken.items():
            await stage.world.store.memory.put(key, one.data, mode=Put.CREATE)
        await stage.until("done", lambda: stage.is_settled(COUNT + 1), within_s=120)

    async def behave(process: SimProcess, message: MessageView) -> object:
        return SUCCESS if message.body == b"later" else await failing(20)(process, message)

    with caplog.at_level(logging.ERROR):
        played(stage, script, behave, guard)
    if guard is None:
        assert "are not run again" in caplog.text
        assert "restore the object" in caplog.text


AT_ONCE = attribute(spill_task, "UNNAMED_S", lambda _: 0.0)


@pytest.mark.parametrize("guard", [None, AT_ONCE], ids=["all guards", "an object goes as soon as it is named no more"])
def test_an_object_stays_for_a_table_that_loses_its_last_commits(guard: Patch | None) -> None:
    """The owner dies, and the next one is to find all that the cell of before names."""
    stage = Stage(PLAN)

    async def script() -> None:
        await spilled(stage)
        before = stage.world.witness.backup()
        await stage.until("it came back", lambda: not stage.bare().spills, within_s=120)
        await asyncio.sleep(10)
        stage.process().crash()
        stage.world.witness.put_back(before)
        await asyncio.sleep(120)
        assert stage.is_settled(COUNT)

    stage.world.behave = failing(70)
    with guard() if guard else nullcontext(), small_log(), pytest.raises(AssertionError) if guard else nullcontext():
        stage.world.kernel.run(scripted(stage, script))


async def scripted(stage: Stage, script: Callable[[], Any]) -> None:
    """Without the judge, which does not know of a table that is put back under its users."""
    await stage.world._as("founder", stage.world._found)
    await script()
    await stage.machine().stop()


async def _nothing_named(*_: object) -> set[str]:
    return set()


NO_AGE = attribute(spill_objects, "ORPHAN_AGE_MS", lambda _: -1)
UNASKED = everywhere(spill_objects._named, _nothing_named)


@pytest.mark.parametrize(
    "guard", [None, NO_AGE, UNASKED], ids=["all guards", "objects of any age are collected", "no cell is asked"]
)
def test_the_collector_spares_what_is_named_and_what_may_be_yet(guard: Patch | None) -> None:
    """It looks when an object is written and not named, and again when all are old."""
    stage = Stage(PLAN)

    async def script() -> None:
        await stage.send_together(*(f"{n}" for n in range(COUNT)), group=None)
        stage.start()
        written = stage.world.store.hold("after", verb="put", key=lambda key: key.startswith(WAITING))
        await written.reached()
        naming = stage.hold(0, "put", QUEUES)
        written.release()
        await naming.reached()
        await collect(stage)
        naming.release()
        await stage.until("they wait outside", lambda: stage.bare().count_spilled >= COUNT - 3)
        await stage.world.store.memory.put(f"{WAITING}{TOPIC}/billing/0/{'ab' * 16}.parquet", b"", mode=Put.CREATE)
        age(stage)
        await collect(stage)
        assert len(objects(stage)) == len(stage.bare().spills), "the orphan is gone, and nothing else"
        stage.process().crash()
        await stage.until("done", lambda: stage.is_settled(COUNT), within_s=120)

    played(stage, script, failing(20), guard)


ANY_GENERATION = everywhere(spills.with_returned, spill_patches.of_any_generation(spills.with_returned))


@pytest.mark.parametrize("guard", [None, ANY_GENERATION], ids=["all guards", "rows come back after a reset"])
def test_a_reset_overtakes_what_comes_back(guard: Patch | None) -> None:
    """The next owner reads an object, and before it has it all is reset."""
    stage = Stage(PLAN)

    async def script() -> None:
        await spilled(stage)
        before = stage.bare().generation
        reading = stage.world.store.hold("after", verb="get", key=lambda key: key.startswith(WAITING))
        stage.process().crash()
        await reading.reached()
        await stage.operate(lambda operators: operators.reset("billing", TOPIC, "latest", None))
        await stage.until("reset", lambda: stage.bare().generation > before)
        await asyncio.sleep(1)
        reading.release()
        await asyncio.sleep(1)
        assert (dict(stage.bare().tries), stage.bare().spills) == ({}, ())

    played(stage, script, failing(20), guard)
