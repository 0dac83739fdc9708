"""Broadcasting: everybody gets everything, and goes on where its name was."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import aio
from penstock.consumers.broadcast import BroadcastConsumer
from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.limits import HUNG_MAX
from penstock.consumers.membership import Subscription
from penstock.log import InvalidArgument, Message, MessageView, TopicNotFound, TopicSettings
from penstock.log.errors import ClosedError, FencedError
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S


async def sent(lake: aio.Lake, first: int, limit: int) -> None:
    await lake.create_topic("prices", TopicSettings(queues=2))
    producer = await lake.producer("prices")
    for number in range(first, limit):
        producer.send(Message(b"%d" % number, tag="odd" if number // 2 % 2 else "even"), queue=number % 2)
    await producer.close()


class Heard:
    """A listener that keeps what it heard."""

    def __init__(self, *, failing: int = -1) -> None:
        self.numbers: list[int] = []
        self._failing = failing
        self._changed = threading.Condition()

    def __call__(self, message: MessageView) -> ConsumeResult:
        number = int(message.body)
        with self._changed:
            self.numbers.append(number)
            self._changed.notify_all()
        if number == self._failing:
            raise ValueError("bad price")
        return ConsumeResult.SUCCESS

    async def until(self, count: int) -> list[int]:
        def wait() -> list[int]:
            with self._changed:
                assert self._changed.wait_for(lambda: len(self.numbers) >= count, timeout=TIMEOUT_S), self.numbers
                return list(self.numbers)

        return await asyncio.to_thread(wait)


async def member(
    lake: aio.Lake,
    name: str,
    listener: Callable[..., Any],
    *,
    filter: str | None = None,
    consume_timeout: timedelta = timedelta(minutes=15),
) -> BroadcastConsumer:
    consumer = BroadcastConsumer(
        lake,
        lake.coordination,
        group="screens",
        member=name,
        subscriptions={"prices": Subscription(filter)},
        listener=listener,
        consume_timeout=consume_timeout,
        save_every=timedelta(milliseconds=20),
    )
    await consumer.start()
    return consumer


async def test_every_member_gets_everything_in_queue_order_and_goes_on_where_it_was() -> None:
    async with aio.connect(store=MemoryStore()) as lake:
        await sent(lake, 0, 40)
        one, two = Heard(), Heard()
        members = [await member(lake, "one", one), await member(lake, "two", two)]
        for heard in (one, two):
            numbers = await heard.until(40)
            assert sorted(numbers) == list(range(40))
            assert [n for n in numbers if n % 2] == list(range(1, 40, 2))
        for consumer in members:
            await consumer.close()
        await sent(lake, 40, 50)
        again = Heard()
        consumer = await member(lake, "one", again)
        assert sorted(await again.until(10)) == list(range(40, 50))
        await consumer.close()
        new = Heard()
        consumer = await member(lake, "three", new)
        assert sorted(await new.until(50)) == list(range(50))
        await consumer.close()


def test_a_failure_is_logged_and_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await sent(lake, 0, 10)
            heard = Heard(failing=4)
            consumer = await member(lake, "one", heard)
            await heard.until(10)
            await consumer.close()
            assert sorted(heard.numbers) == list(range(10))

    with caplog.at_level(logging.WARNING, logger="penstock.consumers"):
        asyncio.run(work())
    assert [record.getMessage() for record in caplog.records] == [
        "member one of broadcasting group screens: prices queue 0, offset 2 failed, and is not tried again: ValueError: bad price"
    ]


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_handler_that_hangs_fails_and_its_queue_goes_on(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    let_go = threading.Event()

    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await sent(lake, 0, 10)
            heard = Heard()

            def in_thread(message: MessageView) -> ConsumeResult:
                if message.body == b"4":
                    let_go.wait()
                return heard(message)

            async def as_task(message: MessageView) -> ConsumeResult:
                if message.body == b"4":
                    await asyncio.Event().wait()
                return heard(message)

            listener = in_thread if kind == "threads" else as_task
            consumer = await member(lake, "one", listener, consume_timeout=timedelta(milliseconds=200))
            numbers = await heard.until(9)
            assert [number for number in numbers if number % 2 == 0] == [0, 2, 6, 8]
            await asyncio.wait_for(consumer.close(), TIMEOUT_S)  # it does not wait for the one that hangs
            again = Heard()
            await sent(lake, 10, 12)
            consumer = await member(lake, "one", again)
            assert sorted(await again.until(2)) == [10, 11]  # nor does that come again
            await consumer.close()

    try:
        with caplog.at_level(logging.WARNING, logger="penstock.consumers"):
            asyncio.run(work())
    finally:
        let_go.set()
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "prices queue 0, offset 2 failed, and is not tried again: its handler ran longer than 0.2 s"
    )


def test_too_many_handlers_that_hang_end_the_member() -> None:
    let_go = threading.Event()

    def hang(message: MessageView) -> ConsumeResult:
        let_go.wait()
        return ConsumeResult.SUCCESS

    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await sent(lake, 0, 2 * HUNG_MAX)
            consumer = await member(lake, "one", hang, consume_timeout=timedelta(milliseconds=1))
            with pytest.raises(ClosedError, match="too many handlers hang"):
                await asyncio.wait_for(consumer.ended(), TIMEOUT_S)
            with pytest.raises(ClosedError, match="too many handlers hang"):
                await consumer.close()

    try:
        asyncio.run(work())
    finally:
        let_go.set()


async def test_a_name_is_one_process_and_the_last_one_has_it() -> None:
    store = MemoryStore()
    async with aio.connect(store=store) as lake, aio.connect(store=store) as other:
        await sent(lake, 0, 4)
        first, second = Heard(), Heard()
        former = await member(lake, "one", first)
        await first.until(4)
        latter = await member(other, "one", second)
        await sent(lake, 4, 8)
        await second.until(4)
        with pytest.raises(FencedError, match="another process goes by this member's name"):
            await former.close()
        await latter.close()


async def test_coroutines_and_filters() -> None:
    async with aio.connect(store=MemoryStore()) as lake:
        await sent(lake, 0, 20)
        heard: list[int] = []
        enough = asyncio.Event()

        async def listen(message: MessageView) -> ConsumeResult:
            heard.append(int(message.body))
            if len(heard) == 10:
                enough.set()
            return ConsumeResult.SUCCESS

        consumer = await member(lake, "one", listen, filter="odd")
        await asyncio.wait_for(enough.wait(), TIMEOUT_S)
        await consumer.close()
        assert sorted(heard) == [number for number in range(20) if number // 2 % 2]


async def test_bad_names_and_missing_topics_are_refused_before_anything_runs() -> None:
    async with aio.connect(store=MemoryStore()) as lake:
        with pytest.raises(InvalidArgument, match="bad member name"):
            await member(lake, "a/b", Heard())
        with pytest.raises(TopicNotFound):
            await member(lake, "one", Heard())
        with pytest.raises(InvalidArgument, match=r"consume_timeout is too short.*above 0"):
            await member(lake, "one", Heard(), consume_timeout=timedelta(0))
