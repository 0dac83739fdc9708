"""Makes batches of rows that no producer of this process sent: those of other appenders, and old ones."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from ....log.limits import MIB
from ....log.message.message import VALUE
from ....log.read.reader import Reader
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ..records.batches import KafkaBatch
from ..records.columns import records_of
from ..records.encoding import encode
from ..tail.batch_cache import BatchCache, CachedBatch, TopicPartition

READ_AHEAD_BYTES: Final = 4 * MIB
"""Rows are read until they have so many bytes, as a request to the store costs as much as some megabytes."""
_COLUMNS: Final = ("offset", "message_group", "tag", "keys", "properties", "body", "born_timestamp", "key", "headers")


class LogBatchReader:
    """Reads rows into the cache. Clients that wait for the same rows share one reading."""

    def __init__(self, cache: BatchCache, runtime: Runtime) -> None:
        self._cache, self._runtime = cache, runtime
        self._reading: dict[TopicPartition, asyncio.Lock] = {}

    async def read(self, topic: Topic, queue: int, offset: int) -> int:
        """Cache the batch with an offset that is in the log, and some that follow. Returns the offset, or the next one that is not lost for ever.

        Raises `OffsetOutOfRange` and `DataDamaged`.
        """
        partition = TopicPartition(topic.record.incarnation, queue)
        lock = self._reading.setdefault(partition, asyncio.Lock())
        try:
            async with lock:
                if next(self._cache.from_offset(partition, offset), None) is None:
                    return await self._read(topic, partition, offset)
                return offset
        finally:
            if not lock.locked():
                self._reading.pop(partition, None)

    async def _read(self, topic: Topic, partition: TopicPartition, offset: int) -> int:
        known_limit = topic.tail.state.next_offsets[partition.queue]
        limit = min(self._cache.next_base(partition, offset) or known_limit, known_limit)
        columns = [*_COLUMNS, VALUE] if topic.settings.schema is not None else list(_COLUMNS)
        epoch, size_bytes = topic.tail.state.generation, 0
        first: int | None = None
        source = topic.beside(Reader).read(queue=partition.queue, start=offset, end=limit, columns=columns)
        try:
            async for rows in source:
                batches = await self._runtime.offload(partial(_encoded, rows, epoch), size_bytes=rows.nbytes)
                for batch in batches:
                    header = batch.header
                    first = header.base_offset if first is None else first
                    self._cache.add(partition, CachedBatch(header.base_offset, header.last_offset + 1, bytes(batch.data)))
                size_bytes += rows.nbytes
                if size_bytes >= READ_AHEAD_BYTES:
                    break
        finally:
            await source.aclose()
        return limit if first is None else max(offset, first)


def _encoded(rows: pa.RecordBatch, epoch: int) -> list[KafkaBatch]:
    """Batches with dense offsets: a repair may have left a gap, and another batch begins behind it."""
    offsets, records = rows["offset"].to_numpy(), records_of(rows)
    starts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()]
    return [
        batch
        for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True)
        for batch in encode(records.slice(start, end - start), base_offset=int(offsets[start]), leader_epoch=epoch)
    ]
