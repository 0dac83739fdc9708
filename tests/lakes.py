"""What tests of the public API share: stores that stop or refuse, and short ways to fill and read a topic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import TypeVar

import penstock
from penstock.log.errors import PermissionDenied
from penstock.log.stores import MemoryStore, ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Of waits that a right program never feels."""


class Gate(StoreWrapper):
    """Holds the calls that ``holds`` chooses, once it is shut, until it is opened."""

    def __init__(self, inner: ObjectStore, holds: Callable[[StoreCall], bool]) -> None:
        super().__init__(inner)
        self._holds = holds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = asyncio.Event()
        self.closed = False
        self.held = threading.Event()
        """Set when a call waits here."""

    def open(self) -> None:
        self.closed = False
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._opened.set)

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self._loop = asyncio.get_running_loop()  # before the look at `closed`: so `open` never misses who waits
        if self.closed and self._holds(call):
            self.held.set()
            await self._opened.wait()
        return await run()


class ReadOnlyCredentials(StoreWrapper):
    """A store that lets nobody write."""

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.is_write or call.verb == "clock":
            raise PermissionDenied("the store refused the credentials, or this use of them", operation=call.verb, object=call.key)
        return await run()


class Refusing(StoreWrapper):
    """Refuses the calls that ``refuses`` chooses."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.refuses: Callable[[StoreCall], bool] = lambda _: False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self.refuses(call):
            raise PermissionDenied("the store refused", operation=call.verb, object=call.key, hint="Check what they may do there")
        return await run()


def is_entry(call: StoreCall) -> bool:
    """Whether the call appends to a log."""
    return call.verb == "put" and "/log/0" in call.key


def read_all(lake: penstock.Lake, topic: str = "orders") -> list[penstock.MessageView]:
    """All messages, by queue and offset; fails unless offsets are dense."""
    found = sorted(lake.reader(topic).messages(), key=lambda one: (one.queue, one.offset))
    for queue in {one.queue for one in found}:
        offsets = [one.offset for one in found if one.queue == queue]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return found


def bodies(lake: penstock.Lake, topic: str = "orders") -> list[bytes]:
    return [one.body for one in read_all(lake, topic)]


def send_all(lake: penstock.Lake, messages: Iterable[penstock.Message], topic: str = "orders") -> list[penstock.SendResult]:
    with lake.producer(topic) as producer:
        receipts = [producer.send(message) for message in messages]
    return [receipt.result(timeout=0) for receipt in receipts]


def keys(store: MemoryStore, prefix: str = "") -> list[str]:
    return [info.key for info in asyncio.run(store.list(prefix))]


def get(store: MemoryStore, key: str) -> bytes:
    return asyncio.run(store.get(key)).data


def put(store: MemoryStore, key: str, data: bytes) -> None:
    asyncio.run(store.put(key, data, mode=Put.REPLACE))


def three_entries() -> MemoryStore:
    """Three entries of one message each in queue 0, behind the one that made the topic; beside it a sound topic."""
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        lake.create_topic("orders", queues=1)
        lake.create_topic("sound", queues=1)
        send_all(lake, [penstock.Message(b"s")], "sound")
        with lake.producer("orders", linger=timedelta(0)) as producer:
            for n in range(3):
                producer.send(penstock.Message(b"%d" % n)).result(timeout=TIMEOUT_S)
    return store
