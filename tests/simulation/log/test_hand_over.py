"""What waits behind slow handlers keeps neither a new member nor a suspect waiting; in virtual time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock import MessageType, aio
from penstock.consumers.handlers.results import ConsumeResult
from penstock.log import Message, MessageView, Runtime, TopicSettings
from penstock.log.stores import MemoryStore, ObjectStore
from penstock.log.stores.latency import S3_STANDARD, LatencyStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.simulation.kernel import Kernel
from tests.thorough import thoroughly

T = TypeVar("T")

_HANDLER_S = 0.5
_MOVED = 3


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


class Reads(StoreWrapper):
    """Notes the entries of the log that are read."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.entries: list[int] = []

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        entry = re.search(r"topics/orders/log/(\d+)\.parquet", call.key)
        if call.verb == "get" and entry:
            self.entries.append(int(entry[1]))
        return await run()


@pytest.mark.parametrize("seed", range(thoroughly(2, 1)))
def test_who_takes_a_queue_over_has_what_came_to_it_meanwhile_and_reads_nothing_older(seed: int) -> None:
    """Its queues come one by one, the later ones when the log has grown: what is behind the table would have to be read first."""
    kernel = Kernel(f"hand-over-{seed}")

    def slow_store(name: str) -> tuple[Reads, Runtime]:
        runtime = kernel.process(name).runtime
        return Reads(LatencyStore(memory, profile=S3_STANDARD, runtime=runtime)), runtime

    handled: list[tuple[float, float, str, int]] = []
    all_came = asyncio.Event()

    def listener(name: str) -> Callable[[MessageView], Awaitable[ConsumeResult]]:
        async def listen(message: MessageView) -> ConsumeResult:
            began_s = kernel.loop.now
            await asyncio.sleep(0.4 if message.queue % 2 else 0.02)
            handled.append((began_s, kernel.loop.now, name, message.queue))
            if len({queue for *_, who, queue in handled if who == "second"}) == _MOVED:
                all_came.set()
            return ConsumeResult.SUCCESS

        return listen

    async def produce(lake: aio.Lake) -> None:
        producer = await lake.producer("orders")
        for number in range(1_000):
            for queue in range(2 * _MOVED):
                producer.send(Message(b"m", message_group=f"g{number % 20}-{queue}"), queue=queue)
            await asyncio.sleep(0.1)

    async def work() -> None:
        (one, first), (other, second) = slow_store("first"), slow_store("second")
        async with aio.connect(store=one, runtime=first, maintenance=False) as lake:
            await lake.create_topic("orders", TopicSettings(message_type=MessageType.FIFO, queues=2 * _MOVED))
            producing = asyncio.ensure_future(produce(lake))
            async with (
                lake.push_consumer("orders", group="billing", listener=listener("first")),
                aio.connect(store=other, runtime=second, maintenance=False) as joining,
            ):
                await asyncio.sleep(10)
                async with joining.push_consumer("orders", group="billing", listener=listener("second")):
                    opened = max(other.entries)
                    other.entries.clear()
                    await all_came.wait()
                    assert [entry for entry in other.entries if entry < opened - 1] == []
            producing.cancel()

    memory = MemoryStore(clock=kernel.process("store").clock)
    kernel.run(work())
    for taken in {queue for *_, name, queue in handled if name == "second"}:
        last_s = max(ended_s for _, ended_s, name, queue in handled if (name, queue) == ("first", taken))
        first_s = min(began_s for began_s, _, name, queue in handled if (name, queue) == ("second", taken))
        assert first_s - last_s < 1.0
