"""From topic to topic exactly once, whatever happens at any request of a transaction that settles and sends."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock.coordinator.transactions.finisher import LOOK_S
from penstock.log import Message
from penstock.log.errors import PenstockError
from tests.coordinator.transactions.settling import BODIES, TEN, begun, cell_of, consuming, ordered
from tests.coordinator.transactions.stage import GROUP, Member, Stage
from tests.simulation.faults import Fault, FaultPlan, ScriptedFaults, Where


async def process_all(member: Member, stop: asyncio.Event) -> None:
    """What an application does, until it is told to end: message by message, and whatever fails is left to come again."""
    consumer = await consuming(member)
    while not stop.is_set():
        for message in await consumer.receive(2, TEN, timedelta(seconds=5)):
            try:
                async with begun(member, consumer) as transaction:
                    await transaction.send("paid", Message(message.body))
                    transaction.ack(message)
                    await transaction.commit()
            except PenstockError:
                continue
    await consumer.close()


def exactly_once(table: FaultPlan | None, store: FaultPlan | None = None) -> Stage:
    """Two processes, the first of which meets faults; in the end each order is paid once."""
    stage = Stage(plan=table)

    async def script() -> None:
        await ordered(stage)
        stage.store.plan = store
        one = stage.member("one")
        stop_one = one.process.call(asyncio.Event)
        first = one.process.spawn(process_all(one, stop_one))
        await stage.let_pass(8)
        two = stage.member("two")
        stop_two = two.process.call(asyncio.Event)
        others = [two.process.spawn(process_all(two, stop_two)), two.process.spawn(two.finisher().play(GROUP, stop_two))]
        for _ in range(40):
            await stage.let_pass(10)
            paid = sorted(await stage.bodies())
            cell = await cell_of(stage)
            if len(paid) >= len(BODIES) and not cell.transactions and not cell.tries:
                break
        await stage.let_pass(2 * LOOK_S + 5)
        assert sorted(await stage.bodies()) == sorted(BODIES)
        cell = await cell_of(stage)
        assert (cell.transactions, cell.settled.floor) == (frozenset(), len(BODIES))
        assert not any(marker.head < marker.limit for marker in cell.markers.values())
        rows = await two.run(two.transactions.rows(GROUP))
        # One of a process that died before its commit settles nothing yet, and is rolled back when it is old.
        assert all(row.is_finished or (row.is_open and row.acks is None) for row in rows), rows
        two.process.call(stop_two.set)
        if not one.process.crashed:
            one.process.call(stop_one.set)
            await first
        await asyncio.gather(*others)
        assert two.errors == []

    stage.play(script, topics=("paid",))
    return stage


def test_without_a_fault_it_is_once() -> None:
    exactly_once(None)


CASES = [
    *(("transactions/", number, Fault.CRASH_AFTER) for number in range(1, 6)),
    *(("queues/", number, Fault.CRASH_AFTER) for number in range(2, 5)),
    *((part, number, Fault.LOST_ANSWER) for part in ("transactions/", "queues/") for number in (2, 3)),
    ("queues/", 3, Fault.LATE_APPLY),
]
"""Before a request is behind the one before it."""


@pytest.mark.parametrize(("part", "occurrence", "fault"), CASES)
def test_every_write_of_a_cell_may_be_the_last_or_unanswered(part: str, occurrence: int, fault: Fault) -> None:
    faults = ScriptedFaults([(Where(process="one", verb="put", key=lambda key: part in key, occurrence=occurrence), fault)])
    exactly_once(faults)
    assert faults.done


@pytest.mark.parametrize("occurrence", range(1, 3))
def test_every_upload_and_link_may_be_the_last(occurrence: int) -> None:
    where = Where(process="one", verb="put", key=lambda key: "/paid/" in key, occurrence=occurrence)
    faults = ScriptedFaults([(where, Fault.CRASH_AFTER)])
    exactly_once(None, faults)
    assert faults.done
