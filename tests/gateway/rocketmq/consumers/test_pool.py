"""The consumers that a gateway opens and closes, as time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.aio import Lake
from penstock.coordinator import DeliveryOrder, GroupSettings
from penstock.gateway.rocketmq.consumers.pool import IDLE_S, ConsumerPool
from penstock.gateway.topics.directory import TopicDirectory
from penstock.log import MessageType, StoreUnavailable
from tests.gateway.rocketmq.consumers.times import Times


class Consumer:
    """Opened by awaiting it."""

    def __init__(self) -> None:
        self.has_ended = False
        self.closed = False

    def __await__(self) -> Generator[Any, None, Consumer]:
        yield from asyncio.sleep(0).__await__()
        return self

    async def close(self) -> None:
        self.closed = True


class Stage:
    """A lake with a topic and a group, whose consumers are noted."""

    def __init__(self) -> None:
        self.times = Times()
        self.runtime = SimpleNamespace(clock=self.times)
        self.opened: list[Consumer] = []
        self.reads = 0
        self.fails_at = 0
        """The read of the group at which the store does not answer."""
        self.settings = GroupSettings(delivery_order=DeliveryOrder.ORDERLY)
        self.pool = ConsumerPool(cast("Lake", self), cast("TopicDirectory", self))

    def simple_consumer(self, topic: str, *, group: str, filter: str | None, metrics: object) -> Consumer:
        self.opened.append(Consumer())
        return self.opened[-1]

    async def topic(self, name: str) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(message_type=MessageType.FIFO))

    async def group(self, name: str) -> GroupSettings:
        self.reads += 1
        if self.reads == self.fails_at:
            asyncio.get_running_loop().call_soon(self.pool.sweep)
            raise StoreUnavailable("no answer", operation="get", object=name)
        return self.settings

    async def use(self) -> None:
        async with self.pool.of("billing", "orders", "*"):
            pass

    async def awake(self, seconds: float) -> None:
        """Time passes, and the pool is swept as it is."""
        until_s = self.times.now_s + seconds
        while self.times.now_s < until_s:
            self.times.now_s += 5
            self.pool.sweep()
            await asyncio.sleep(0)


async def test_many_calls_at_once_open_one_consumer() -> None:
    stage = Stage()
    await asyncio.gather(*(stage.use() for _ in range(20)))
    assert len(stage.opened) == len(stage.pool) == 1


async def test_a_consumer_is_closed_when_nobody_used_it_for_a_while_and_opened_again() -> None:
    stage = Stage()
    for _ in range(10):
        await stage.use()
        await stage.awake(IDLE_S - 10)
    assert [one.closed for one in stage.opened] == [False], "somebody came each time"
    await stage.awake(15)
    assert [one.closed for one in stage.opened] == [True]
    assert len(stage.pool) == 0
    await stage.use()
    assert [one.closed for one in stage.opened] == [True, False]


async def test_a_consumer_is_not_closed_under_a_receive_that_waits() -> None:
    stage = Stage()
    async with stage.pool.of("billing", "orders", "*"):
        await stage.awake(10 * IDLE_S)
        assert not stage.opened[0].closed
    await stage.awake(IDLE_S - 5)
    assert not stage.opened[0].closed, "the time counts from its last use"
    await stage.awake(10)
    assert stage.opened[0].closed


async def test_a_consumer_whose_group_cannot_be_read_is_closed() -> None:
    """Else it has queues, and nobody ever asks it for their messages."""
    stage = Stage()
    stage.fails_at = 2
    with pytest.raises(StoreUnavailable):
        await stage.use()
    await asyncio.sleep(0)
    assert [one.closed for one in stage.opened] == [True]
    await stage.use()
    assert [one.closed for one in stage.opened] == [True, False]


async def test_what_is_opened_after_another_call_failed_is_known_to_the_pool() -> None:
    """Time sweeps the place away between the two: a consumer that is opened there would never be closed."""
    stage = Stage()
    stage.fails_at = 2
    first, second = await asyncio.gather(stage.use(), stage.use(), return_exceptions=True)
    assert isinstance(first, StoreUnavailable)
    assert second is None
    assert len(stage.pool) == 1
    await stage.awake(IDLE_S + 10)
    assert [one.closed for one in stage.opened] == [True, True]


async def test_a_consumer_that_ended_by_itself_is_replaced() -> None:
    stage = Stage()
    await stage.use()
    stage.opened[0].has_ended = True
    await stage.use()
    assert len(stage.opened) == 2


async def test_settings_are_read_again_now_and_then_and_not_for_each_call() -> None:
    stage = Stage()
    for _ in range(5):
        await stage.use()
    once = stage.reads
    stage.times.now_s += 11
    for _ in range(5):
        await stage.use()
    assert stage.reads == once + 1


async def test_closing_the_pool_closes_all() -> None:
    stage = Stage()
    await stage.use()
    await stage.pool.close()
    assert stage.opened[0].closed
    assert len(stage.pool) == 0
