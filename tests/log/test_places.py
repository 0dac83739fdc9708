"""Where a message stands: its entry, as long as the log is kept, and its file of the table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from penstock.log.format.header import Created
from penstock.log.lake import LogLake
from penstock.log.read.places import PublishedRow, entry_of, published_in
from penstock.log.stores.counting import CountingStore
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.topic.settings import encode_record
from penstock.log.topic.topics import Topic
from tests.log.table.upkeep import publish, trimmed
from tests.log.topics import LogWriter

ENTRIES = 150


async def written() -> tuple[LogWriter, dict[tuple[int, int], int]]:
    """A topic, and the entry of every (queue, offset) in it."""
    log = await LogWriter().create()
    await log.store.put(log.paths.settings, encode_record(log.record), mode=Put.CREATE)
    entries: dict[tuple[int, int], int] = {}
    for n in range(ENTRIES):
        await log.send({n % 4: 2, 0: 1}, staged=n % 7 == 3)
        entries |= {place: log.state.entry for place in log.sent if place not in entries}
    return log, entries


@asynccontextmanager
async def opened(log: LogWriter, store: ObjectStore | None = None) -> AsyncIterator[Topic]:
    async with LogLake(store or log.store, runtime=log.runtime, read_only=True) as lake:
        yield await lake.topic("orders")


async def test_the_entry_of_every_message() -> None:
    log, entries = await written()
    async with opened(log) as topic:
        for place, entry in list(entries.items())[::7]:
            assert await entry_of(topic, *place) == entry
        assert await entry_of(topic, 0, log.state.next_offsets[0]) is None


async def test_few_requests_find_it() -> None:
    log, entries = await written()
    store = CountingStore(log.store)
    async with opened(log, store) as topic:
        topic.tail.cache.clear()
        before = store.statistics()
        assert await entry_of(topic, 0, 100) == entries[0, 100]
        told = store.statistics() - before
        assert told.get.requests + told.list.requests <= 64 + 10


async def test_a_trimmed_log_tells_no_entry_and_the_rest_of_it_does() -> None:
    log, entries = await written()
    await trimmed(log)
    async with opened(log) as topic:
        floor = 128
        found = [(entry, await entry_of(topic, *place)) for place, entry in list(entries.items())[::7]]
        assert [shown for entry, shown in found if entry <= floor] == [None] * sum(entry <= floor for entry, _ in found)
        assert all(entry == shown for entry, shown in found if entry > floor)


async def test_a_log_whose_first_life_ended_tells_of_the_second() -> None:
    log, _ = await written()
    await log.delete()
    record = replace(log.record, incarnation="life-2", replaces="life-1")
    await log.store.put(log.paths.settings, encode_record(record), mode=Put.REPLACE)
    await log.append(actions=(Created("life-2", 4, "life-1"),))
    await log.send({0: 1})
    async with opened(log) as topic:
        assert await entry_of(topic, 0, 0) == log.state.entry


async def test_the_file_of_the_table() -> None:
    log, _ = await written()
    async with opened(log) as topic:
        assert await published_in(topic, 0, 3) is None
        await publish(log)
        await log.send({0: 1})
        found = await published_in(topic, 0, 3)
        assert found is not None
        assert found.path.startswith("queue=0/")
        assert isinstance(found, PublishedRow)
        assert await published_in(topic, 0, log.state.next_offsets[0] - 1) is None
