"""What operators are told of workers, and how long that takes."""

from __future__ import annotations

import asyncio
import math

import pytest

from penstock import aio
from penstock.coordinator import LakeMaintenance
from penstock.coordinator.cells.keys import worker_key, worker_of
from penstock.coordinator.workers.lease import Heartbeat, encode_heartbeat
from penstock.coordinator.workers.liveness import WorkerState, forget_fenced, watch_workers, workers
from penstock.coordinator.workers.session import LeaseLost
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from tests.coordinator.stage import Stage, keep_looking
from tests.playing import played_on


@pytest.mark.parametrize("lease_s", [1.0, 5.0])
@played_on(Stage)
async def test_who_lives_and_who_does_not(stage: Stage, lease_s: float) -> None:
    alive, killed, left, operator = (stage.process(name) for name in ("alive", "killed", "left", "operator"))
    members = [await one.run(stage.worker(one, lease_s=lease_s).join("billing")) for one in (alive, killed)]
    leaver = stage.worker(left, lease_s=lease_s)
    gone = await left.run(leaver.join("billing"))
    await asyncio.sleep(3 * lease_s)
    killed.crash()
    await left.run(leaver.close())
    names = [member.id.partition("/")[0] for member in (*members, gone)]
    cells = stage.cells(operator)
    assert sorted(await operator.run(workers(cells))) == sorted(names[:2])  # who leaves in order takes its heartbeat along
    began_s = stage.now_s
    alive_now, killed_now, gone_now = await operator.run(watch_workers(cells, operator.runtime, names))
    assert (alive_now.state, killed_now.state, gone_now.state) == (WorkerState.LIVES, WorkerState.EXPIRED, WorkerState.LEFT)
    assert (alive_now.may_live, killed_now.may_live, gone_now.may_live) == (True, False, False)
    assert alive_now.heartbeat is not None
    assert [one.group for one in alive_now.heartbeat.members] == ["billing"]
    assert lease_s * 1.25 <= stage.now_s - began_s <= lease_s * 1.25 + 0.5
    watch = stage.watch(operator)
    await operator.run(watch.look([members[1].id]))
    await asyncio.sleep(2 * lease_s)
    assert await operator.run(watch.fence(members[1].id))
    (fenced,) = await operator.run(watch_workers(cells, operator.runtime, [names[1]]))
    assert fenced.state is WorkerState.FENCED


@played_on(Stage)
async def test_watching_ends_when_it_is_told_to(stage: Stage) -> None:
    alive, killed, operator = (stage.process(name) for name in ("alive", "killed", "operator"))
    members = [await one.run(stage.worker(one).join("billing")) for one in (alive, killed)]
    names = [member.id.partition("/")[0] for member in members]
    killed.crash()
    cells, began_s = stage.cells(operator), stage.now_s
    found = await operator.run(watch_workers(cells, operator.runtime, names, patience_s=0.0))
    assert [one.state for one in found] == [WorkerState.SILENT] * 2
    assert stage.now_s - began_s < 0.1
    found = await operator.run(watch_workers(cells, operator.runtime, names, patience_s=3.0))
    assert [one.state for one in found] == [WorkerState.LIVES, WorkerState.SILENT]
    assert stage.now_s - began_s < 3.5
    began_s = stage.now_s
    await operator.run(watch_workers(cells, operator.runtime, names, enough=lambda one: one.state is WorkerState.LIVES))
    assert stage.now_s - began_s < 5 / 3 + 0.5


@played_on(Stage)
async def test_what_a_killed_worker_left_is_removed_a_day_after_it_was_fenced(stage: Stage) -> None:
    alive, killed, paused, watcher, keeper = (stage.process(name) for name in ("alive", "killed", "paused", "watcher", "keeper"))
    living, dead, asleep = [await one.run(stage.worker(one).join("billing")) for one in (alive, killed, paused)]
    killed.crash()
    paused.pause(25 * 3600)
    watch, cells = stage.watch(watcher), stage.cells(keeper)
    for member in (dead, asleep):
        await watcher.run(keep_looking(watch, member.id))

    async def left() -> set[str]:
        await keeper.run(forget_fenced(cells, keeper.runtime))
        return set(await keeper.run(workers(cells)))

    assert await left() == {worker_of(member.id) for member in (living, dead, asleep)}
    await asyncio.sleep(24 * 3600 - 60)
    assert len(await left()) == 3
    await asyncio.sleep(120)
    assert await left() == {worker_of(living.id)}
    fresh = stage.watch(watcher)
    await watcher.run(fresh.look([dead.id, asleep.id, living.id]))
    assert [fresh.is_dead(member.id) for member in (dead, asleep, living)] == [True, True, False]
    await asleep.ended.wait()
    assert isinstance(asleep.error, LeaseLost)
    assert await left() == {worker_of(living.id)}, "it comes back under no id that was fenced"


async def test_who_maintains_removes_them() -> None:
    store = MemoryStore()
    async with aio.connect(store=store, maintenance=False) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        cells = lake.coordination.cells
        for name, fenced_ms in (("old", 1), ("new", lake.runtime.clock.wall_ms())):
            heartbeat = Heartbeat(worker=name, lease_ms=5000, fenced=True, fenced_ms=fenced_ms)
            await cells.write(worker_key(name), encode_heartbeat(heartbeat), on=None, deadline_s=math.inf)
        upkeep = LakeMaintenance(lake, cells, lake.coordination.groups)
        await upkeep.once("orders")
        assert await workers(cells) == ["new"]
