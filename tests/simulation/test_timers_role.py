"""The timers of an open lake, in virtual time: let go by whoever has it open, and by another when that one dies."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock import ConsumeResult, aio
from penstock.consumers.metrics import MemoryMetrics
from penstock.consumers.statistics import TIMERS_LATE, TIMING_MESSAGES, timer_samples
from penstock.log import Message, MessageView, TopicSettings
from penstock.log.messages import MessageType
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.coordinator.timers.test_play import check_times
from tests.simulation.kernel import Kernel

DELAYED = TopicSettings(message_type=MessageType.DELAY, queues=2)


async def _come(lake: aio.Lake, count: int, *, within_s: float = 200.0) -> list[bytes]:
    """The bodies that came, once there are so many."""
    reader = await lake.reader("orders")
    found: list[MessageView] = []
    async with asyncio.timeout(within_s):
        async for one in reader.messages(follow=True):
            found.append(one)
            if len(found) == count:
                break
    check_times(found, late_s=within_s)
    return [one.body for one in found]


def test_an_open_lake_lets_go_what_is_sent_to_it() -> None:
    kernel = Kernel("timers of a lake", shuffle=False)

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime) as lake:
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            await producer.send(Message(b"soon", delay=timedelta(seconds=1)))
            began_s = kernel.loop.now
            assert await _come(lake, 1) == [b"soon"]
            assert kernel.loop.now - began_s < 2.5

    kernel.run(work())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what crashed is closed where it stood
def test_another_goes_on_when_a_player_dies() -> None:
    kernel = Kernel("timers of the dead", shuffle=False)

    async def work() -> None:
        first, second = kernel.process("first"), kernel.process("second")
        store = MemoryStore(clock=second.clock)

        async def begin() -> None:
            lake = aio.connect(store=store, runtime=first.runtime)
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            await producer.send(Message(b"first", delay=timedelta(seconds=1)))
            await producer.send(Message(b"later", delay=timedelta(seconds=40)))
            await _come(lake, 1)

        await first.run(begin())
        first.crash()
        async with aio.connect(store=store, runtime=second.runtime) as lake:
            await lake.create_topic("others", TopicSettings(queues=1))  # what writes takes part in the roles
            assert await _come(lake, 2) == [b"first", b"later"]

    kernel.run(work())


def test_who_consumes_lets_go_what_others_send() -> None:
    kernel = Kernel("timers of a consumer", shuffle=False)

    async def work() -> None:
        consuming, sending = kernel.process("consumer"), kernel.process("sender")
        store = MemoryStore(clock=sending.clock)
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(message: MessageView) -> ConsumeResult:
            heard.put_nowait(message.body)
            return ConsumeResult.SUCCESS

        async with aio.connect(store=store, runtime=sending.runtime, maintenance=False) as sender:
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            await producer.send(Message(b"soon", delay=timedelta(seconds=1)))
        async with (
            aio.connect(store=store, runtime=consuming.runtime) as lake,
            lake.push_consumer("orders", group="shop", listener=listen),
            asyncio.timeout(200),
        ):
            assert await heard.get() == b"soon"

    kernel.run(work())


def test_a_lake_without_timers_asks_nothing_more() -> None:
    kernel = Kernel("no timers", shuffle=False)

    async def work() -> None:
        process = kernel.process("writer")
        store = CountingStore(MemoryStore(clock=process.clock))
        async with aio.connect(store=store, runtime=process.runtime) as lake:
            await lake.create_topic("orders", TopicSettings(queues=2))
            await asyncio.sleep(120)
            assert not [key for key in await store.list("coordination/") if "timers" in key.key]

    kernel.run(work())


def test_who_lets_go_counts_what_waits_and_how_late_it_was() -> None:
    kernel = Kernel("figures", shuffle=False)

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime) as lake:
            metrics = MemoryMetrics()
            metrics.watch(lambda: timer_samples(lake.timer_statistics()))
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            for delay_s in (2, 500, 600):
                await producer.send(Message(b"soon", delay=timedelta(seconds=delay_s)))
            await _come(lake, 1)
            await asyncio.sleep(1)
            assert metrics.value(TIMING_MESSAGES, topic="orders") == 2
            assert 0 <= (metrics.value(TIMERS_LATE, topic="orders") or 0) < 1000

    kernel.run(work())
