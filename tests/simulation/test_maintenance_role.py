"""Maintenance as a role, in virtual time: what an open lake does by itself, and what it spares for consumer groups."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Literal

import pytest

from penstock import aio
from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator import GroupSettings, LakeMaintenance
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.log import Message, MessageView, OffsetOutOfRange, TopicSettings
from penstock.log.stores import MemoryStore
from tests.coordinator.test_retention import put
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
            await put(lake, "a", 0, QueueCell(generation=generation).with_tries(0, Tries(MessageState.WAITING)))
            results: dict[str, object] = {}
            upkeep = LakeMaintenance(
                lake, lake.coordination.cells, groups, on_step=lambda _, step, result: results.update({step: result})
            )
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


@pytest.mark.parametrize("on_expired", ["skip", "stop"])
def test_messages_that_retention_took_are_passed_over_or_end_the_consumer(
    on_expired: Literal["skip", "stop"], caplog: pytest.LogCaptureFixture
) -> None:
    kernel = Kernel("expired", shuffle=False)
    heard: list[bytes] = []

    async def listen(message: MessageView) -> ConsumeResult:
        heard.append(message.body)
        return ConsumeResult.SUCCESS

    async def origin() -> tuple[int, ...]:
        return (0,)

    async def work() -> None:
        process = kernel.process("keeper")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime, maintenance=False) as lake:
            await lake.create_topic("orders", TopicSettings(queues=1, retention=timedelta(microseconds=1)))
            producer = await lake.producer("orders")
            for number in range(4):
                await producer.send(Message(b"%d" % number))
            groups = lake.coordination.groups
            await groups.create("a", GroupSettings())
            await groups.begin("a", "orders", 1, origin)
            upkeep = LakeMaintenance(lake, lake.coordination.cells, groups)
            await upkeep.once("orders")
            await asyncio.sleep(1)
            await upkeep.once("orders")
            await producer.send(Message(b"new"))
            consumer = await lake.push_consumer("orders", group="a", listener=listen, on_expired=on_expired)
            if on_expired == "stop":
                with pytest.raises(OffsetOutOfRange, match=r"offset 0.*offsets 0 to 3 are gone.*on_expired='skip'"):
                    await consumer.ended()
                with pytest.raises(OffsetOutOfRange):
                    await consumer.close()
            else:
                await asyncio.sleep(5)
                await consumer.close()

    kernel.run(work())
    if on_expired == "skip":
        assert heard == [b"new"]
        assert "offsets 0 to 3 are gone by retention before the group had them, and are passed over" in caplog.text
    else:
        assert heard == []
