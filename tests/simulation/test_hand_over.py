"""What waits behind slow handlers keeps neither a new member nor a suspect waiting; in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter

from penstock import aio
from penstock.consumers.results import ConsumeResult
from penstock.log import Message, MessageView, TopicSettings
from penstock.log.stores import MemoryStore
from tests.simulation.kernel import Kernel

_HANDLER_S = 0.5


def test_a_queue_is_handed_over_within_a_second_of_its_running_handler_whatever_waits_behind_that() -> None:
    kernel = Kernel("hand-over", shuffle=False)
    heard: Counter[bytes] = Counter()

    async def listen(message: MessageView) -> ConsumeResult:
        heard[message.body] += 1
        await asyncio.sleep(_HANDLER_S)
        return ConsumeResult.SUCCESS

    async def work() -> float:
        store = MemoryStore(clock=kernel.process("store").clock)
        first, second = (kernel.process(name) for name in ("first", "second"))
        async with aio.connect(store=store, runtime=first.runtime, maintenance=False) as lake:
            await lake.create_topic("orders", TopicSettings(queues=2))
            producer = await lake.producer("orders")
            for number in range(400):
                producer.send(Message(b"%d" % number), queue=number % 2)
            await producer.close()
            slow = lake.push_consumer("orders", group="billing", delivery_order="CONCURRENT", listener=listen, threads=1)
            async with slow, aio.connect(store=store, runtime=second.runtime, maintenance=False) as other:
                await asyncio.sleep(3)
                started = kernel.loop.now
                begun = asyncio.Event()

                async def taken_over(message: MessageView) -> ConsumeResult:
                    begun.set()
                    return await listen(message)

                async with other.push_consumer("orders", group="billing", listener=taken_over, threads=1):
                    await begun.wait()
                    return kernel.loop.now - started

    assert kernel.run(work()) < 5 / 3 + _HANDLER_S + 1  # until the first has seen the second, which takes a third of a lease
    assert set(heard.values()) == {1}
