"""A timer log comes and goes with its topic, and serves one life of it, whatever is broken off and whoever slept meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import pytest

from penstock.log import (
    InvalidArgument,
    LogLake,
    Message,
    MessageType,
    ReadOnlyError,
    TopicDeleted,
    TopicExists,
    TopicNotFound,
    TopicSettings,
)
from penstock.log.paths import TopicPaths, timer_log_name
from penstock.log.read.reader import Reader
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.topic.timer_log import TIMER_LOG_SETTINGS, end_orphan, make_timer_log
from penstock.log.topic.topics import create_topic, delete_topic

T = TypeVar("T")
SETTINGS = TopicSettings(message_type=MessageType.DELAY, queues=4)
LOG = timer_log_name("orders")
LATER = Message(b"later", delay=timedelta(hours=1))


class Behind(StoreWrapper):
    """Does something, once, after a certain object was read and before anybody hears of it."""

    def __init__(self, inner: MemoryStore, key: str) -> None:
        super().__init__(inner)
        self._key = key
        self.then: Callable[[], Awaitable[object]] | None = None

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        answer = await run()
        if call.verb == "get" and call.key == self._key and (then := self.then) is not None:
            self.then = None
            await then()
        return answer


async def waiting(lake: LogLake) -> list[bytes]:
    _, log = await lake.timer_log("orders")
    return [one.body async for one in Reader(log).messages()]


async def sent_after_all(lake: LogLake, *bodies: bytes) -> None:
    """By a lake that may have the former life of the topic open: it is told so, and opens the new one."""
    with suppress(TopicDeleted):
        await sent(lake, *bodies)
        return
    await sent(lake, *bodies)


async def sent(lake: LogLake, *bodies: bytes) -> None:
    producer = await lake.producer("orders")
    for body in bodies:
        await producer.send(LATER._replace(body=body))
    await producer.close()


async def test_it_comes_with_its_topic_and_goes_with_it() -> None:
    async with LogLake(MemoryStore()) as lake:
        record = await lake.create_topic("orders", SETTINGS)
        assert await lake.create_topic("orders", SETTINGS) == record
        found = await lake.topics()
        assert (found[LOG].of, found[LOG].settings) == (record.incarnation, TIMER_LOG_SETTINGS)
        await sent(lake, b"1")
        await lake.delete_topic("orders")
        assert await lake.topics() == {}
        for name in ("orders", LOG):
            with pytest.raises(TopicNotFound):
                await lake.topic(name)
        with pytest.raises(TopicNotFound):
            await lake.delete_topic("orders")


async def test_a_creation_that_was_broken_off_before_it_is_finished_by_whoever_sends() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        record = await create_topic(store, lake.runtime, "orders", SETTINGS)  # as lake.create_topic, up to the timer log
        with pytest.raises(TopicNotFound):
            await lake.timer_log("orders")
        async with LogLake(store, read_only=True) as reader:
            with pytest.raises(TopicNotFound):
                await reader.timer_log("orders")
            with pytest.raises(ReadOnlyError):
                await reader.timer_log("orders", writable=True)
        await sent(lake, b"1")
        assert (await lake.topics())[LOG].of == record.incarnation
        assert await waiting(lake) == [b"1"]


async def test_a_deletion_that_was_broken_off_before_it_is_finished_by_the_next_or_by_maintenance() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake:
        for finish in (lambda: lake.delete_topic("orders"), lambda: end_orphan(store, lake.runtime, "orders")):
            await lake.create_topic("orders", SETTINGS)
            assert not await end_orphan(store, lake.runtime, "orders"), "it is in use"
            await delete_topic(store, lake.runtime, "orders")  # as lake.delete_topic, up to the timer log
            assert set(await lake.topics()) == {LOG}
            with suppress(TopicNotFound):  # which is what a second deletion says
                await finish()
            assert await lake.topics() == {}
        assert not await end_orphan(store, lake.runtime, "orders")


async def test_nothing_of_a_deleted_topic_waits_for_a_later_one_of_its_name() -> None:
    store = MemoryStore()
    async with LogLake(store) as lake, LogLake(store) as other, LogLake(store) as third:
        await lake.create_topic("orders", SETTINGS)
        await sent(lake, b"old")
        former = await other.producer("orders")
        await former.send(LATER)
        await delete_topic(store, lake.runtime, "orders")  # and nobody deletes the timer log
        record = await create_topic(store, lake.runtime, "orders", SETTINGS)
        assert await make_timer_log(store, lake.runtime, "orders") == await make_timer_log(store, lake.runtime, "orders")
        await sent_after_all(other, b"new")
        for one in (other, third):
            topic, log = await one.timer_log("orders")
            assert topic.record.incarnation == log.record.of == record.incarnation
            assert await waiting(one) == [b"new"]
        with pytest.raises(TopicDeleted):
            await former.send(LATER)


@pytest.mark.parametrize("read", ["orders", LOG])
async def test_who_slept_between_its_looks_deletes_no_timer_log_of_a_later_life(read: str) -> None:
    store = MemoryStore()
    slow = Behind(store, TopicPaths.of(read).settings)
    async with LogLake(store) as lake, LogLake(slow) as sleeper:
        await lake.create_topic("orders", SETTINGS)
        await sent(sleeper, b"old")
        made = []

        async def made_anew() -> None:
            await lake.delete_topic("orders")
            await lake.create_topic("orders", SETTINGS)
            await sent(lake, b"new")
            made.append((await lake.topics())[LOG])

        slow.then = made_anew
        await make_timer_log(slow, sleeper.runtime, "orders")
        assert (await lake.topics())[LOG] == made[0]
        slow.then = made_anew
        assert await end_orphan(slow, sleeper.runtime, "orders") in (True, False)
        assert (await lake.topics())[LOG] == made[1]
        await sent_after_all(sleeper, b"too")
        assert await waiting(sleeper) == [b"new", b"too"]


async def test_ten_creators_and_senders_at_once_agree_on_one() -> None:
    store = MemoryStore()
    async with LogLake(store) as first:
        await create_topic(store, first.runtime, "orders", SETTINGS)
        lakes = [LogLake(store) for _ in range(10)]
        await asyncio.gather(*(sent(lake, b"%d" % n) for n, lake in enumerate(lakes)))
        assert sorted(await waiting(first)) == [b"%d" % n for n in range(10)]
        await asyncio.gather(*(lake.close() for lake in lakes))


async def test_a_topic_of_another_type_has_none_and_may_follow() -> None:
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("plain", TopicSettings())
        with pytest.raises(TopicNotFound, match="no such topic"):
            await lake.timer_log("plain", writable=True)
        await lake.create_topic("orders", SETTINGS)
        with pytest.raises(TopicExists, match=r"DELAY.*NORMAL|NORMAL.*DELAY"):
            await lake.create_topic("orders", TopicSettings(queues=4))
        await lake.delete_topic("orders")
        await lake.create_topic("orders", TopicSettings(queues=4))
        assert set(await lake.topics()) == {"plain", "orders"}


async def test_nobody_takes_the_name_under_which_messages_are_let_go() -> None:
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("orders", SETTINGS)
        with pytest.raises(InvalidArgument, match=r"names that begin with % are Penstock's own.*%TIMER%"):
            await lake.producer("orders", name="%TIMER%")


async def test_copies_go_into_the_topic_itself() -> None:
    """What was due once, as messages that are let go and dead letters that go back, waits no more."""
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("orders", SETTINGS)
        await sent(lake, b"1", b"2")
        _, log = await lake.timer_log("orders")
        rows = await Reader(log).to_arrow()
        producer = await lake.producer("orders", name="%TIMER%", copies=True)
        sequenced = rows.append_column("sequence", [[0, 1]])
        assert (await producer.send_copies(sequenced)).rows == 2
        await producer.close()
        fired = await Reader(await lake.topic("orders")).to_arrow()
        same = ["message_id", "body", "born_timestamp", "delivery_timestamp", "properties"]
        assert fired.select(same).sort_by("body") == rows.select(same).sort_by("body")
        assert await waiting(lake) == [b"1", b"2"], "they are not taken out of the log"
