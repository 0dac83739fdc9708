"""What retention spares for consumer groups, from cells to the table."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock import aio
from penstock.coordinator import GroupSettings, Upkeep
from penstock.coordinator.cell import Marker, QueueCell, State, Tries
from penstock.coordinator.cell_codec import encode_cell
from penstock.coordinator.guards import first_needed, retention_guards
from penstock.coordinator.keys import queue_key
from penstock.coordinator.offsets import OffsetSet
from penstock.log import Message, TopicSettings
from penstock.log.stores import MemoryStore
from tests.simulation.kernel import Kernel

FOREVER = float("inf")


@pytest.mark.parametrize(
    ("cell", "offset"),
    [
        (QueueCell().with_settled(OffsetSet.of([(0, 40)])), None),
        (QueueCell().with_granted(OffsetSet.of([(3, 9)])), None),
        (QueueCell().with_tries(7, Tries(State.WAITING)).with_tries(5, Tries(State.SUSPECT)), 5),
        (QueueCell().with_markers({11: Marker(4, 5, Tries(State.PARKED))}, OffsetSet.of([(4, 5)])), 4),
        (QueueCell().with_dead_letters([6, 8]), 6),
    ],
)
def test_what_is_to_be_run_again_is_needed_and_what_nobody_read_is_not(cell: QueueCell, offset: int | None) -> None:
    assert first_needed(cell) == offset


async def put(lake: aio.Lake, group: str, queue: int, cell: QueueCell) -> None:
    key = queue_key(group, "orders", queue)
    found = await lake.coordination.cells.read(key)
    await lake.coordination.cells.write(key, encode_cell(cell), on=found, deadline_s=FOREVER)


def test_guards_are_the_least_of_all_groups_in_their_generation() -> None:
    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await lake.create_topic("orders", TopicSettings(queues=3))
            groups = lake.coordination.groups
            for group in ("a", "b"):
                await groups.create(group, GroupSettings())
                await groups.begin(group, "orders", 1, origin)
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {}
            now = {group: (await groups.get(group)).positions["orders"].generations[0] for group in ("a", "b")}
            await put(lake, "a", 0, QueueCell(generation=now["a"]).with_tries(9, Tries(State.WAITING)))
            await put(lake, "b", 0, QueueCell(generation=now["b"]).with_tries(4, Tries(State.WAITING)))
            await put(lake, "b", 2, QueueCell(generation=now["b"] + 1).with_tries(2, Tries(State.WAITING)))
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {0: 4}

    async def origin() -> tuple[int, ...]:
        return (0, 0, 0)

    asyncio.run(work())


def test_an_expired_message_that_waits_stays_and_the_rest_goes() -> None:
    kernel = Kernel("guards", shuffle=False)

    async def work() -> None:
        process = kernel.process("keeper")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime, maintenance=False) as lake:
            await lake.create_topic("orders", TopicSettings(queues=2, retention=timedelta(microseconds=1)))
            producer = await lake.producer("orders")
            for number in range(8):
                await producer.send(Message(b"%d" % number), queue=number % 2)
            groups = lake.coordination.groups
            await groups.create("a", GroupSettings())

            async def origin() -> tuple[int, ...]:
                return (0, 0)

            record = await groups.begin("a", "orders", 1, origin)
            generation = record.positions["orders"].generations[0]
            await put(lake, "a", 0, QueueCell(generation=generation).with_tries(0, Tries(State.WAITING)))
            results: dict[str, object] = {}
            upkeep = Upkeep(lake, lake.coordination.cells, groups, on_step=lambda _, step, result: results.update({step: result}))
            await upkeep.once("orders")
            await asyncio.sleep(1)  # of virtual time
            await upkeep.once("orders")
            reader = await lake.reader("orders")
            assert (await reader.offsets())[0] == (0, 4), results
            assert (await reader.offsets())[1] == (4, 4), results

    kernel.run(work())


def test_an_open_lake_maintains_what_it_writes_to() -> None:
    kernel = Kernel("maintenance", shuffle=False)

    async def work() -> int:
        process = kernel.process("writer")
        store = MemoryStore(clock=process.clock)
        async with aio.connect(store=store, runtime=process.runtime) as lake:
            await lake.create_topic("orders", TopicSettings(queues=2))
            producer = await lake.producer("orders")
            await producer.send(Message(b"1"))
            await asyncio.sleep(60)
            return len(await store.list("topics/orders/table/"))

    assert kernel.run(work()) > 0
