"""Who is believed dead, when, and at what cost in reads."""

from __future__ import annotations

import asyncio

import pytest

from penstock.coordinator.workers.lease import IDLE_AFTER_S, LEASE_IDLE_S, MARGIN
from tests.coordinator.stage import Stage, keep_looking
from tests.playing import played_on
from tests.simulation.faults import Fault, Where
from tests.simulation.loop import Deadlock


@pytest.mark.parametrize("lease_s", [0.5, 1.0, 5.0, 15.0])
@pytest.mark.parametrize("rate", [0.95, 1.0, 1.05])
@pytest.mark.parametrize("after_s", [0.0, 0.3, 0.71])
def test_a_killed_worker_is_fenced_in_time(lease_s: float, rate: float, after_s: float) -> None:
    """A quarter more than the lease and half a second, whenever it was killed, and though clocks run at other rates."""
    stage = Stage(f"{lease_s}/{rate}/{after_s}")

    async def script() -> None:
        victim, observer = stage.process("victim", rate=1 / rate), stage.process("observer", rate=rate)
        member = await victim.run(stage.worker(victim, lease_s=lease_s).join("billing"))
        looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
        await asyncio.sleep(lease_s * (5 + after_s))
        assert not looking.done()
        victim.crash()
        killed_s = stage.now_s
        await looking
        # A slow clock of the observer's counts longer; what is left of the second is for taking the queues.
        assert stage.now_s - killed_s <= lease_s * (1 + MARGIN) / rate + 0.6
        assert stage.now_s - killed_s >= lease_s * (1 + MARGIN) / rate - lease_s / 3 * rate - 0.1

    stage.play(script)


@pytest.mark.parametrize("rate", [0.95, 1.0, 1.05])
@pytest.mark.parametrize("lease_s", [1.0, 5.0, 15.0])
@played_on(Stage)
async def test_watching_costs_little(stage: Stage, lease_s: float, rate: float) -> None:
    victim, observer = stage.process("victim", rate=1 / rate), stage.process("observer", rate=rate)
    member = await victim.run(stage.worker(victim, lease_s=lease_s).join("billing"))
    looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
    await asyncio.sleep(100 * lease_s)
    assert not looking.done()
    beats = stage.count("put", victim)
    assert stage.count("get", observer) / beats < 4


@played_on(Stage)
async def test_an_owner_that_died_while_idle_is_replaced_after_its_long_lease(stage: Stage) -> None:
    victim, observer = stage.process("victim"), stage.process("observer")
    member = await victim.run(stage.worker(victim).join("billing"))
    looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
    await asyncio.sleep(IDLE_AFTER_S + 100)
    before = stage.count("get", observer)
    await asyncio.sleep(600)
    assert stage.count("get", observer) - before <= 100
    victim.crash()
    killed_s = stage.now_s
    await looking
    assert LEASE_IDLE_S * (1 + MARGIN) - 20 - 1 <= stage.now_s - killed_s <= LEASE_IDLE_S * (1 + MARGIN) + LEASE_IDLE_S / 9 + 1


@played_on(Stage)
async def test_who_beats_again_is_not_fenced(stage: Stage) -> None:
    """The observer slept, and finds a heartbeat that stood still for long by its clock: the fence fails, as there is a newer one."""
    worker_process, observer = stage.process("w"), stage.process("observer")
    member = await worker_process.run(stage.worker(worker_process).join("billing"))
    watch = stage.watch(observer)
    await observer.run(watch.look([member.id]))
    await asyncio.sleep(60)
    assert watch.is_dead(member.id)
    assert await observer.run(watch.fence(member.id)) is False
    assert not watch.is_dead(member.id)
    assert member.may_start()


@played_on(Stage)
async def test_of_two_that_fence_both_learn_that_it_is_done(stage: Stage) -> None:
    victim = stage.process("victim")
    observers = [stage.process("a"), stage.process("b")]
    member = await victim.run(stage.worker(victim).join("billing"))
    watches = [stage.watch(observer) for observer in observers]
    for watch, observer in zip(watches, observers, strict=True):
        await observer.run(watch.look([member.id]))
    victim.crash()
    await asyncio.sleep(60)
    fencing = [observer.spawn(watch.fence(member.id)) for watch, observer in zip(watches, observers, strict=True)]
    assert await asyncio.gather(*fencing) == [True, True]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.UNDECIDED, Fault.OWN_CONFLICT])
def test_a_fence_in_doubt_is_made_sure_of(fault: Fault) -> None:
    stage = Stage(1, (Where(process="observer", verb="put"), fault))

    async def script() -> None:
        victim, observer = stage.process("victim"), stage.process("observer")
        member = await victim.run(stage.worker(victim).join("billing"))
        looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
        await asyncio.sleep(10)
        victim.crash()
        await looking
        found = await stage.heartbeat(member.id.partition("/")[0])
        assert found is not None
        assert found.fenced
        assert stage.script.done

    stage.play(script)


@played_on(Stage)
async def test_a_member_that_is_not_listed_is_over_and_its_worker_is_left_alone(stage: Stage) -> None:
    process, observer = stage.process("w"), stage.process("observer")
    worker = stage.worker(process)
    left, stays = [await process.run(worker.join("billing", ["orders"])) for _ in range(2)]
    watch = stage.watch(observer)
    await observer.run(watch.look([left.id, stays.id]))
    assert not watch.is_dead(left.id)
    assert watch.listed(left.id) == left.listed
    await process.run(left.leave())
    await asyncio.sleep(2)
    await observer.run(watch.look([left.id, stays.id]))
    assert [watch.is_dead(member.id) for member in (left, stays)] == [True, False]
    assert await observer.run(watch.fence(left.id))
    assert stays.may_start()
    assert stage.count("put", observer) == 0


@played_on(Stage)
async def test_a_member_that_joined_since_the_last_look_is_not_taken_for_one_that_is_over(stage: Stage) -> None:
    """Its heartbeat was read before it joined; that says nothing, so it is read again at once."""
    process, observer = stage.process("w"), stage.process("observer")
    worker = stage.worker(process)
    first = await process.run(worker.join("billing"))
    watch = stage.watch(observer)
    await observer.run(watch.look([first.id]))
    second = await process.run(worker.join("billing"))
    reads = stage.count("get", observer)
    await observer.run(watch.look([first.id, second.id]))
    assert stage.count("get", observer) == reads + 1
    assert not watch.is_dead(second.id)
    await observer.run(watch.look([first.id, second.id]))
    assert stage.count("get", observer) == reads + 1


@played_on(Stage)
async def test_who_is_gone_is_dead_and_costs_no_more_reads(stage: Stage) -> None:
    observer = stage.process("observer")
    watch = stage.watch(observer)
    assert not watch.is_dead("nobody/1")
    await observer.run(watch.look(["nobody/1"]))
    assert watch.is_dead("nobody/1")
    assert await observer.run(watch.fence("nobody/1"))
    for _ in range(5):
        await asyncio.sleep(10)
        await observer.run(watch.look(["nobody/1"]))
    assert stage.count("get", observer) == 1
    assert watch.due_s(["nobody/1"]) == float("inf")


def test_who_cannot_be_read_is_not_dead_for_that() -> None:
    stage = Stage(1, *((Where(process="observer", verb="get", occurrence=number), Fault.LOST_ANSWER) for number in range(1, 4)))

    async def script() -> None:
        process, observer = stage.process("w"), stage.process("observer")
        member = await process.run(stage.worker(process).join("billing"))
        looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
        await asyncio.sleep(60)
        assert not looking.done()
        assert len(stage.script.done) == 3

    stage.play(script)


@played_on(Stage)
async def test_a_worker_that_departs_is_over_at_the_next_look(stage: Stage) -> None:
    process, observer = stage.process("w"), stage.process("observer")
    member = await process.run(stage.worker(process).join("billing"))
    looking = observer.spawn(keep_looking(stage.watch(observer), member.id))
    await asyncio.sleep(20)
    await process.run(member.leave())
    left_s = stage.now_s
    await looking
    assert stage.now_s - left_s < 2


def test_nothing_is_left_running() -> None:
    """A worker that left writes nothing more, and nobody waits for anything."""
    stage = Stage()

    async def script() -> None:
        process = stage.process("w")
        member = await process.run(stage.worker(process).join("billing"))
        await process.run(member.leave())
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        stage.play(script)
