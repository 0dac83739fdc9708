"""Maintenance as a role, in virtual time: what an open lake does by itself, and what it spares for consumer groups."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from penstock import aio
from penstock.coordinator import GroupSettings, Upkeep
from penstock.coordinator.cell import QueueCell, State, Tries
from penstock.log import Message, TopicSettings
from penstock.log.stores import MemoryStore
from tests.coordinator.test_guards import put
from tests.simulation.kernel import Kernel


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
