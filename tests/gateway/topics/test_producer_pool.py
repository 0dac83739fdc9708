"""The producers that a gateway's clients share."""

from __future__ import annotations

import asyncio

import pytest

from penstock.aio import connect
from penstock.gateway.topics.producer_pool import IDLE_S, ProducerPool
from penstock.log import ClosedError, InvalidArgument, Message, Runtime, SystemClock, TopicNotFound, TopicSettings
from penstock.log.stores import MemoryStore


class Clock(SystemClock):
    """A clock that a test puts forward."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def test_a_topic_has_one_producer_which_is_replaced_once_it_can_send_no_more() -> None:
    async with connect(store=MemoryStore(), maintenance=False) as lake:
        await lake.create_topic("orders", TopicSettings())
        producers = ProducerPool(lake)
        first, same = await asyncio.gather(producers.of("orders"), producers.of("orders"))
        assert first is same
        producers.on_failure("orders", first, InvalidArgument("one message was bad"))
        assert await producers.of("orders") is first
        await first.close()
        with pytest.raises(ClosedError) as error:
            first.send(Message(b"lost"))
        producers.on_failure("orders", first, error.value)
        second = await producers.of("orders")
        assert second is not first
        producers.on_failure("orders", first, error.value)  # told late: the new one is not to blame
        assert await producers.of("orders") is second
        await second.send(Message(b"paid"))


async def test_a_topic_that_there_is_not_is_looked_for_again() -> None:
    async with connect(store=MemoryStore(), maintenance=False) as lake:
        producers = ProducerPool(lake)
        with pytest.raises(TopicNotFound):
            await producers.of("orders")
        await lake.create_topic("orders", TopicSettings())
        await (await producers.of("orders")).send(Message(b"paid"))


async def test_a_producer_that_nobody_uses_is_closed() -> None:
    clock = Clock()
    async with connect(store=MemoryStore(), maintenance=False, runtime=Runtime(clock=clock)) as lake:
        await lake.create_topic("orders", TopicSettings())
        producers = ProducerPool(lake)
        first = await producers.of("orders")
        clock.ahead_s += IDLE_S / 2
        await producers.close_idle()
        assert not first.closed
        clock.ahead_s += IDLE_S
        await producers.close_idle()
        assert first.closed
        assert await producers.of("orders") is not first
