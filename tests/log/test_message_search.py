"""Ranges of offsets in one pass, and bounded searches for labels, over table and log without a seam."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
import pytest

from penstock import Message, connect
from penstock.log import Runtime
from penstock.log.lake import LogLake
from penstock.log.message.message import views
from penstock.log.paths import TopicPaths
from penstock.log.read.message_search import SearchResult
from penstock.log.read.reader import Reader
from penstock.log.stores import MemoryStore
from penstock.log.table.delta.lookup import Lookup
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record
from tests.lakes import TIMEOUT_S
from tests.log.topics import HandClock

T = TypeVar("T")
ALL = {0: (0, 10), 1: (0, 10), 2: (0, 10)}


class Filled:
    """A topic of three queues with messages 0 to 29; ``published`` says after which numbers the table takes what there is."""

    def __init__(self, published: tuple[int, ...]) -> None:
        self.store, self.runtime = MemoryStore(clock=HandClock()), Runtime(clock=HandClock())
        with connect(store=self.store, runtime=self.runtime) as lake:
            lake.create_topic("orders", message_type="FIFO", queues=3)
            with lake.producer("orders", linger=timedelta(0)) as producer:
                for n in range(30):
                    message = Message(b"%d" % n, keys=[f"k{n % 2}"], message_group=f"g{n % 3}")
                    producer.send(message, queue=n % 3).result(timeout=TIMEOUT_S)
                    if n in published:
                        asyncio.run(self._publish())

    async def _publish(self) -> None:
        paths = TopicPaths.of("orders")
        found = await read_record(self.store, paths)
        assert found is not None
        await Publisher(self.store, paths, found[0], self.runtime).publish_once()

    def ask(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        async def run() -> T:
            async with LogLake(self.store, runtime=self.runtime, read_only=True) as lake:
                return await work(await lake.reader("orders"))

        return asyncio.run(run())

    def find(self, wanted: Lookup, offsets: dict[int, tuple[int, int]], *, limit: int, files: int, newest: bool) -> SearchResult:
        return self.ask(lambda reader: reader.find(wanted, offsets, limit=limit, files=files, newest=newest))


@pytest.fixture(scope="module", params=[(), (14,), (4, 9, 14, 29)], ids=["log", "both", "table"])
def filled(request: pytest.FixtureRequest) -> Filled:
    return Filled(request.param)


def numbers(rows: pa.Table) -> list[int]:
    return [int(one.body) for one in views("orders", rows)]


def test_ranges_of_several_queues_are_read_at_once(filled: Filled) -> None:
    async def read(reader: Reader) -> list[int]:
        return [n async for batch in reader.ranges({0: (2, 4), 2: (9, 10), 1: (5, 5)}) for n in numbers(batch)]

    assert sorted(filled.ask(read)) == [6, 9, 29]


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("wanted", [Lookup(key="k1"), Lookup(message_group="g2"), Lookup(key="k0", message_group="g1")])
def test_all_that_match_are_found_by_going_on(filled: Filled, wanted: Lookup, newest: bool) -> None:
    every = filled.find(wanted, ALL, limit=100, files=100, newest=newest)
    assert dict(every.looked) == ALL
    left, found = dict(ALL), list[int]()
    for _ in range(60):
        part = filled.find(wanted, left, limit=2, files=1, newest=newest)
        assert part.rows.num_rows <= 2
        assert all(left[queue][0] <= start <= end <= left[queue][1] for queue, (start, end) in part.looked.items())
        found += numbers(part.rows)
        for queue, (start, end) in part.looked.items():
            left[queue] = (left[queue][0], start) if newest else (end, left[queue][1])
        left = {queue: span for queue, span in left.items() if span[0] < span[1]}
        if not left:
            break
    assert sorted(found) == sorted(numbers(every.rows))
    assert len(found) == {("k1", None): 15, (None, "g2"): 10, ("k0", "g1"): 5}[wanted.key, wanted.message_group]


def test_the_first_or_the_last_come_first(filled: Filled) -> None:
    wanted = Lookup(message_group="g0")
    assert numbers(filled.find(wanted, ALL, limit=3, files=9, newest=False).rows) == [0, 3, 6]
    assert numbers(filled.find(wanted, ALL, limit=3, files=9, newest=True).rows) == [21, 24, 27]
    assert numbers(filled.find(wanted, {0: (2, 5)}, limit=9, files=9, newest=True).rows) == [6, 9, 12]
