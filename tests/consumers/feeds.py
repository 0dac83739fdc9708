"""Feeds of a topic whose entries a test writes one by one, and what they hand out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa

from penstock.consumers.feed.feed import CACHE_BYTES, Feed
from penstock.log import LogLake
from penstock.log.stores.counting import CountingStore
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.topic.settings import encode_record
from penstock.log.topic.topics import Topic
from tests.log.topics import LogWriter

ANY = {"rows_max": 10_000, "bytes_max": 1 << 30}
"""Limits that no fetch of a test reaches."""


async def topic_log(*, queues: int = 4) -> LogWriter:
    """A topic that a lake can open."""
    log = await LogWriter(queues=queues).create()
    await log.store.put(log.paths.settings, encode_record(log.record), mode=Put.CREATE)
    return log


@dataclass
class Opened:
    """A feed of a log, and the requests it sends."""

    log: LogWriter
    topic: Topic
    feed: Feed
    store: CountingStore

    @property
    def requests(self) -> int:
        return self.store.statistics().requests

    async def take(self, queue: int, start: int, **limits: int) -> list[bytes]:
        """The bodies that a fetch gives; checked against what was sent."""
        rows = await self.feed.fetch(queue, start, **{**ANY, **limits})
        return [] if rows is None else checked(self.log, queue, start, rows)

    async def take_all(self, queue: int, start: int = 0, **limits: int) -> int:
        """Fetch until there is nothing more; the offset reached."""
        while rows := await self.take(queue, start, **limits):
            start += len(rows)
        return start


def checked(log: LogWriter, queue: int, start: int, rows: pa.RecordBatch) -> list[bytes]:
    """The bodies of rows, which must be those sent to the queue from ``start`` on."""
    count = rows.num_rows
    assert rows.column("offset").to_pylist() == list(range(start, start + count))
    assert set(rows.column("queue").to_pylist()) == {queue}
    bodies: list[bytes] = rows.column("body").to_pylist()
    assert bodies == [log.sent[queue, offset] for offset in range(start, start + count)]
    return bodies


@asynccontextmanager
async def opened(
    log: LogWriter, *queues: int, cache_bytes: int = CACHE_BYTES, store: ObjectStore | None = None
) -> AsyncIterator[Opened]:
    """A feed with these queues attached."""
    counting = CountingStore(store or log.store)
    async with LogLake(counting, runtime=log.runtime, read_only=True) as lake:
        topic = await lake.topic(log.paths.topic)
        feed = Feed(topic, cache_bytes=cache_bytes)
        for queue in queues:
            feed.attach(queue)
        try:
            yield Opened(log, topic, feed, counting)
        finally:
            await feed.close()
