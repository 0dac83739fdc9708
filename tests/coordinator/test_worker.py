"""A worker's lease: who may start what, and when a session is over for good."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.limits import CELL_STORED_BYTES_MAX
from penstock.coordinator.workers.lease import encode_heartbeat
from penstock.coordinator.workers.worker import LeaseLost, SessionMember, Worker
from penstock.log.errors import ClosedError, LimitExceeded
from tests.coordinator.stage import Stage
from tests.playing import played_on
from tests.simulation.faults import Fault, Where
from tests.simulation.process import SimProcess

LEASE_S = 5.0


async def fence(stage: Stage, worker: str) -> None:
    """Fence a worker at once, as another does who takes it for dead."""
    standing = await stage.table.memory.get(worker_key(worker))
    assert standing is not None
    found = await stage.heartbeat(worker)
    assert found is not None
    data = b"f" * 16 + encode_heartbeat(type(found)(worker=worker, lease_ms=found.lease_ms, beat=found.beat, fenced=True))
    await stage.table.memory.put(worker_key(worker), data, expected=standing.version)


def test_who_joined_is_listed_and_may_start_until_it_leaves() -> None:
    stage = Stage()

    async def life(process: SimProcess, worker: Worker) -> SessionMember:
        member = await worker.join("billing", ["orders", "refunds"])
        found = await stage.heartbeat(worker.id)
        assert found is not None
        assert (found.members, found.label, found.fenced) == ((member.listed,), "blue", False)
        assert member.id == f"{worker.id}/1"
        assert len(worker.id) == 32
        await asyncio.sleep(100)
        assert member.may_start()
        return member

    async def script() -> None:
        process = stage.process("w")
        worker = stage.worker(process, label="blue")
        member = await process.run(life(process, worker))
        wrote = stage.count("put", process)
        assert wrote in range(59, 64)  # three a lease
        first = worker.id
        await process.run(member.leave())
        left = await stage.heartbeat(first)
        assert left is not None
        assert left.fenced
        await asyncio.sleep(1)
        assert await stage.heartbeat(first) is None
        assert (worker.id, member.may_start(), member.error) == ("", False, None)
        await asyncio.sleep(100)
        assert stage.count("put", process) == wrote + 1
        again = await process.run(worker.join("billing"))
        assert again.id.partition("/")[0] not in {first, ""}

    stage.play(script)


@played_on(Stage)
async def test_members_come_and_go_with_one_heartbeat_between_them(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)

    async def life() -> None:
        members = await asyncio.gather(*(worker.join("billing") for _ in range(50)))
        assert stage.count("put", process) <= 2
        assert len({member.id for member in members}) == 50
        await asyncio.gather(*(member.leave() for member in members[1:]))
        found = await stage.heartbeat(worker.id)
        assert found is not None
        assert found.members == (members[0].listed,)
        assert members[0].may_start()
        assert (await worker.join("audit")).id == f"{worker.id}/51"

    await process.run(life())


@played_on(Stage)
async def test_a_heartbeat_cannot_revive_a_fenced_worker(stage: Stage) -> None:
    """The fence comes while a renewal is on its way: the renewal is conditional on the version before, so it ends the session."""
    process = stage.process("w")
    worker = stage.worker(process)
    member = await process.run(worker.join("billing"))
    renewal = stage.table.hold("before", verb="put", key=lambda key: key.startswith("workers/"))
    await renewal.reached()
    await fence(stage, worker.id)
    renewal.release()
    fenced = worker.id
    await member.ended.wait()
    assert isinstance(member.error, LeaseLost)
    assert "taken for dead" in str(member.error)
    assert not member.may_start()
    found = await stage.heartbeat(fenced)
    assert found is not None
    assert found.fenced
    await asyncio.sleep(60)
    assert await stage.heartbeat(fenced) == found
    again = await process.run(worker.join("billing"))
    assert worker.id != fenced
    assert again.may_start()
    assert not member.may_start()


@pytest.mark.parametrize(
    "fault",
    [
        Fault.LOST_ANSWER,
        Fault.LOST_REQUEST,
        Fault.LATE_APPLY,
        Fault.DUPLICATE,
        Fault.UNAVAILABLE,
        Fault.UNDECIDED,
        Fault.OWN_CONFLICT,
        Fault.SLOW,
    ],
)
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_heartbeat_that_is_in_doubt_costs_no_lease(fault: Fault, occurrence: int) -> None:
    """Also the very first one, of which there is nothing yet to go on from."""
    stage = Stage(1, (Where(verb="put", occurrence=occurrence), fault))

    async def script() -> None:
        process = stage.process("w")
        worker = stage.worker(process)
        member = await process.run(worker.join("billing"))
        for _ in range(200):
            await asyncio.sleep(1)
            assert member.may_start()
            found = await stage.heartbeat(worker.id)
            assert found is not None
            assert not found.fenced
        assert stage.script.done

    stage.play(script)


@played_on(Stage)
async def test_a_lease_counts_from_the_request_not_from_the_answer(stage: Stage) -> None:
    """The answer comes late, and the next renewals get none at all: the worker stops a lease after it asked."""
    process = stage.process("w")
    worker = stage.worker(process)
    member = await process.run(worker.join("billing"))
    renewal = stage.table.hold("after", verb="put")
    called = await renewal.reached()
    sent_s = stage.now_s
    await asyncio.sleep(0.6)
    for _ in range(100):
        stage.table.hold("before", verb="put")
        stage.table.hold("before", verb="get")
    renewal.release()
    await member.ended.wait()
    assert called.verb == "put"
    assert stage.now_s <= sent_s + LEASE_S
    assert stage.now_s > sent_s + LEASE_S - 0.1
    assert "could not be renewed in time" in str(member.error)


@played_on(Stage)
async def test_without_a_table_nobody_joins(stage: Stage) -> None:
    process = stage.process("w")
    for _ in range(100):
        stage.table.hold("before", verb="put")
    with pytest.raises(LeaseLost, match=r"could not be renewed in time.*observed: the table did not answer"):
        await process.run(stage.worker(process).join("billing"))
    assert stage.now_s < LEASE_S + 0.1


@pytest.mark.parametrize("how", ["pause", "suspend"])
@played_on(Stage)
async def test_who_slept_past_the_deadline_starts_nothing_afterwards(stage: Stage, how: str) -> None:
    """Suspend stops the clock of asyncio's timers, but not the one that leases are counted on."""
    process = stage.process("w")
    worker = stage.worker(process)
    member = await process.run(worker.join("billing"))
    await asyncio.sleep(7)
    first = worker.id
    getattr(process, how)(2 * LEASE_S)
    asked: list[bool] = []
    for _ in range(400):
        await asyncio.sleep(0.05)
        if not process.stopped:
            asked.append(member.may_start())
    assert asked
    assert not any(asked)
    assert member.ended.is_set()
    assert worker.id == ""
    again = await process.run(worker.join("billing"))
    assert again.may_start()
    assert worker.id != first


@played_on(Stage)
async def test_a_short_sleep_costs_nothing(stage: Stage) -> None:
    process = stage.process("w")
    member = await process.run(stage.worker(process).join("billing"))
    member.busy = True
    for _ in range(30):
        process.pause(3)
        await asyncio.sleep(3.0)
        await asyncio.sleep(2.5)
        process.call(member.progressed)
        assert member.may_start()


@played_on(Stage)
async def test_a_consumer_that_is_stuck_is_taken_off_and_the_others_live_on(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)
    stuck, idle, at_work = [await process.run(worker.join(name)) for name in ("stuck", "idle", "at work")]
    stuck.busy = at_work.busy = True
    since_s = stage.now_s
    while not stuck.ended.is_set():
        process.call(at_work.progressed)
        await asyncio.sleep(0.5)
    assert LEASE_S <= stage.now_s - since_s <= LEASE_S * 5 / 3 + 0.5
    assert "did nothing for a lease" in str(stuck.error)
    await asyncio.sleep(1)
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.members == (idle.listed, at_work.listed)
    assert [one.may_start() for one in (stuck, idle, at_work)] == [False, True, True]


@played_on(Stage)
async def test_a_consumer_whose_loop_died_in_a_living_process_is_over_at_once(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)
    other = await process.run(worker.join("billing"))
    member = await process.run(worker.join("billing"))

    async def dies() -> None:
        await asyncio.sleep(3)
        raise ValueError("a bug")

    loop = process.spawn(dies())
    process.call(member.follow, loop)
    await member.ended.wait()
    assert stage.now_s < 4
    assert "the loop of the consumer ended" in str(member.error)
    await asyncio.sleep(0.5)
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.members == (other.listed,)
    assert other.may_start()
    with pytest.raises(ValueError, match="a bug"):
        loop.result()


@played_on(Stage)
async def test_two_workers_with_one_name_are_two(stage: Stage) -> None:
    """Two clusters, or a process and its restart: a configured name is a label, ids are random."""
    processes = [stage.process("a"), stage.process("b")]
    workers = [stage.worker(process, label="billing-0") for process in processes]
    members = [await process.run(worker.join("billing")) for process, worker in zip(processes, workers, strict=True)]
    assert members[0].id != members[1].id
    await fence(stage, workers[0].id)
    await asyncio.sleep(5)
    assert [member.may_start() for member in members] == [False, True]


@played_on(Stage)
async def test_closing_lets_all_leave(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)
    members = [await process.run(worker.join("billing")) for _ in range(3)]
    session = worker.id
    since_s = stage.now_s
    await process.run(worker.close())
    assert stage.now_s - since_s < 0.5
    assert await stage.heartbeat(session) is None
    assert not any(member.may_start() for member in members)
    with pytest.raises(ClosedError, match="the worker was closed"):
        await process.run(worker.join("billing"))


async def fill(worker: Worker, topics: list[str]) -> list[SessionMember]:
    """As many consumers as have room."""
    members: list[SessionMember] = []
    with suppress(LimitExceeded):
        while len(members) < 100:
            members.append(await worker.join("billing", topics))
    with pytest.raises(LimitExceeded, match="too many consumers"):
        await worker.join("billing", topics)
    return members


def test_a_worker_with_all_consumers_that_its_heartbeat_names_refuses_one_more_and_none_of_them_ends() -> None:
    stage = Stage()
    topics = [f"{number:03d}-{'t' * 100}" for number in range(100)]

    async def life(worker: Worker) -> None:
        members = await fill(worker, topics)
        role = await worker.join("", topics)
        await asyncio.sleep(100)
        assert all(member.may_start() for member in (*members, role))
        cell = await stage.table.memory.get(worker_key(worker.id))
        assert cell is not None
        assert CELL_STORED_BYTES_MAX // 2 < len(cell.data) < CELL_STORED_BYTES_MAX
        await members[0].leave()
        assert (await worker.join("billing", topics)).may_start()

    async def script() -> None:
        process = stage.process("w")
        await process.run(life(stage.worker(process)))

    stage.play(script)


def test_consumers_that_fill_a_heartbeat_find_room_again_when_their_lease_was_lost() -> None:
    stage = Stage()
    topics = [f"{number:03d}-{'t' * 100}" for number in range(100)]

    async def life(worker: Worker) -> None:
        members = await fill(worker, topics)
        await fence(stage, worker.id)
        await asyncio.sleep(5)
        assert not any(member.may_start() for member in members)
        again = [await worker.join("billing", topics) for _ in members]
        assert all(member.may_start() for member in again)

    async def script() -> None:
        process = stage.process("w")
        await process.run(life(stage.worker(process)))

    stage.play(script)
