"""What is in flight in a worker: how long its lease is, and who runs alone."""

from __future__ import annotations

import asyncio

import pytest

from penstock.coordinator.workers.lease import IDLE_AFTER_S, LEASE_IDLE_S
from penstock.coordinator.workers.worker import SessionMember, Worker
from penstock.log.errors import InternalError
from tests.coordinator.stage import Stage
from tests.playing import played_on

LEASE_S = 5.0


@played_on(Stage)
async def test_an_idle_worker_takes_a_long_lease_and_a_short_one_before_it_grants(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)
    member = await process.run(worker.join("billing"))
    await asyncio.sleep(IDLE_AFTER_S + 10)
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.lease_ms == LEASE_IDLE_S * 1000
    before = stage.count("put", process)
    await asyncio.sleep(600)
    assert stage.count("put", process) - before in range(29, 32)
    assert member.may_start()

    await process.run(worker.awake())
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.lease_ms == LEASE_S * 1000
    wrote = stage.count("put", process)
    await process.run(worker.awake())  # nothing to write
    assert stage.count("put", process) == wrote
    process.call(worker.started, 3)
    await asyncio.sleep(IDLE_AFTER_S * 2)  # a handler that runs for long is no idleness
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.lease_ms == LEASE_S * 1000
    process.call(worker.finished, 3)
    await asyncio.sleep(IDLE_AFTER_S - 20)
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.lease_ms == LEASE_S * 1000


@played_on(Stage)
async def test_traffic_while_the_long_lease_is_on_its_way_waits_for_the_short_one(stage: Stage) -> None:
    process = stage.process("w")
    worker = stage.worker(process)
    await process.run(worker.join("billing"))

    def lengthens(key: str) -> bool:
        return process.clock.monotonic_s() - 1000 > IDLE_AFTER_S

    renewal = stage.table.hold("before", verb="put", key=lengthens)
    await renewal.reached()
    waking = process.spawn(worker.awake())
    await asyncio.sleep(0.1)
    assert not waking.done()
    renewal.release()
    await waking
    found = await stage.heartbeat(worker.id)
    assert found is not None
    assert found.lease_ms == LEASE_S * 1000


@played_on(Stage)
async def test_a_shorter_lease_binds_its_worker_from_when_it_is_sent(stage: Stage) -> None:
    """Its answer is lost, and the table with it: others may have read it, so the long lease before it counts no more."""
    process = stage.process("w")
    worker = stage.worker(process)
    member = await process.run(worker.join("billing"))
    await asyncio.sleep(IDLE_AFTER_S + 30)
    for _ in range(200):
        stage.table.hold("after", verb="put")
        stage.table.hold("before", verb="get")
    sent_s = stage.now_s
    waking = process.spawn(worker.awake())
    await waking
    assert not member.may_start()
    assert stage.now_s - sent_s == pytest.approx(LEASE_S, abs=0.1)


def test_one_runs_alone() -> None:
    stage = Stage()

    async def script() -> None:
        process = stage.process("w")
        worker = stage.worker(process)
        first, second = [await process.run(worker.join("billing")) for _ in range(2)]
        order: list[str] = []

        async def alone(name: str, member: SessionMember) -> None:
            async with worker.alone(member) as granted:
                assert granted
                assert (worker.in_flight, worker.quiet) == (0, True)
                order.append(f"{name} begins")
                worker.started(1)
                with pytest.raises(InternalError, match="must run alone"):
                    worker.started(1)
                await asyncio.sleep(1)
                worker.finished(1)
                order.append(f"{name} ends")

        async def life() -> None:
            worker.started(5)
            runs = [asyncio.ensure_future(alone("a", first)), asyncio.ensure_future(alone("b", second))]
            await asyncio.sleep(3)
            assert not order
            worker.started(0)  # a step that settles and starts nothing, while five run and somebody waits to run alone
            worker.finished(5)
            await asyncio.gather(*runs)
            assert order in (["a begins", "a ends", "b begins", "b ends"], ["b begins", "b ends", "a begins", "a ends"])
            assert not worker.quiet
            worker.started(2)
            async with worker.alone(first, patience_s=2) as granted:
                assert not granted
            assert not worker.quiet
            given_up = asyncio.ensure_future(_ask(worker, second))
            await asyncio.sleep(1)
            given_up.cancel()
            await asyncio.wait((given_up,))
            assert given_up.cancelled()
            assert not worker.quiet
            waiting = asyncio.ensure_future(_ask(worker, second))
            await asyncio.sleep(1)
            second.end(None)
            assert await waiting is False

        await process.run(life())

    async def _ask(worker: Worker, member: SessionMember) -> bool:
        async with worker.alone(member) as granted:
            return granted

    stage.play(script)


@pytest.mark.parametrize("ends", [True, False])
@played_on(Stage)
async def test_who_loses_its_lease_is_alone_until_its_handler_ends(stage: Stage, ends: bool) -> None:
    """Or for so long as a handler may run."""
    process = stage.process("w")
    worker = stage.worker(process)
    first, second = [await process.run(worker.join("billing")) for _ in range(2)]
    told: list[bool] = []
    worker.quiet_listeners.append(lambda: told.append(worker.quiet))

    async def lose() -> None:
        async with worker.alone(first, left_s=60) as granted:
            assert granted
            worker.started(1)
            await asyncio.Event().wait()

    async def life() -> None:
        running = asyncio.ensure_future(lose())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait((running,))
        assert worker.quiet
        with pytest.raises(InternalError, match="must run alone"):
            worker.started(1)
        async with worker.alone(second, patience_s=2) as granted:
            assert not granted
        assert worker.quiet
        if ends:
            worker.finished(1)
        else:
            await asyncio.sleep(60)
        assert told[-1] is False
        assert not worker.quiet
        worker.started(1)

    await process.run(life())
