"""Makes batches of rows that no client of this process sent: those of other appenders, and old ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from ....log.errors import OffsetOutOfRange, PenstockError
from ....log.limits import MIB
from ....log.message.message import VALUE
from ....log.read.reader import Reader, not_seen
from ....log.runtime.runtime import Runtime
from ....log.topic.topics import Topic
from ..records.batches import KafkaBatch
from ..records.columns import records_of
from ..records.encoding import encode
from ..tail.batch_cache import BatchCache, CachedBatch, TopicPartition
from ..topics.configs import has_log_append_time

READ_AHEAD_BYTES: Final = 8 * MIB
"""Rows are read until they have so many bytes, as a request to the store costs as much as some megabytes."""
_COLUMNS: Final = ("offset", "message_group", "tag", "keys", "properties", "body", "born_timestamp", "key", "headers")
_ACTIVE_S: Final = 30.0
"""A partition that was read so lately is read again with the others of its topic."""
_PARTITIONS_MAX: Final = 10_000


class LogBatchReader:
    """Reads rows into the cache. An entry has rows of all queues, so the partitions of a topic that are being read are read together."""

    def __init__(self, cache: BatchCache, runtime: Runtime) -> None:
        self._cache, self._runtime = cache, runtime
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each topic's incarnation that is being read, as long as somebody holds it or waits for it."""
        self._behind: OrderedDict[TopicPartition, tuple[int, float]] = OrderedDict()
        """The offset behind what was read of a partition, and when; the latest at the end."""

    async def read(self, topic: Topic, offsets: Mapping[int, int]) -> Mapping[int, int | PenstockError]:
        """Cache the batches with these offsets of queues, which are in the log, and some that follow.

        Returns for each queue the offset, or the next one that is not lost for ever; or `OffsetOutOfRange` or `DataDamaged`. Raises what a store
        raises.
        """
        incarnation = topic.record.incarnation
        lock = self._reading.setdefault(incarnation, asyncio.Lock())
        async with lock:
            missing = {
                queue: offset for queue, offset in offsets.items() if not self._has(TopicPartition(incarnation, queue), offset)
            }
            return {**offsets, **(await self._read(topic, missing) if missing else {})}

    async def _read(self, topic: Topic, offsets: Mapping[int, int]) -> dict[int, int | PenstockError]:
        reader, epoch, size_bytes = Reader(topic), topic.tail.state.generation, 0
        wanted = self._wanted(topic, offsets)
        log_append_time = has_log_append_time(topic.settings)
        columns = list(_COLUMNS)
        if topic.settings.schema is not None:
            columns.append(VALUE)
        if log_append_time:
            columns.append("store_timestamp")
        firsts: dict[int, int] = {}
        is_whole = False
        source = reader.ranges(wanted, columns=columns)
        try:
            async for rows in source:
                queue = rows["queue"][0].as_py()
                batches = await self._runtime.offload(
                    partial(_encoded, rows, epoch, log_append_time=log_append_time), size_bytes=rows.nbytes
                )
                self._keep(TopicPartition(topic.record.incarnation, queue), batches)
                firsts.setdefault(queue, batches[0].header.base_offset)
                size_bytes += rows.nbytes
                if size_bytes >= READ_AHEAD_BYTES and not firsts.keys().isdisjoint(offsets):
                    break
            else:
                is_whole = True
        finally:
            await source.aclose()
        # What was not come to is read by the next call.
        ends = {queue: end for queue, (_, end) in wanted.items()} if is_whole else offsets
        return {queue: _found(topic, reader, queue, offset, firsts.get(queue, ends[queue])) for queue, offset in offsets.items()}

    def _has(self, partition: TopicPartition, offset: int) -> bool:
        return next(self._cache.from_offset(partition, offset), None) is not None

    def _wanted(self, topic: Topic, offsets: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The ranges to be read, by queue: with those that others read lately, as they come in the same entries."""
        now_s = self._runtime.clock.monotonic_s()
        wanted = {}
        for queue, limit in enumerate(topic.tail.state.next_offsets):
            partition = TopicPartition(topic.record.incarnation, queue)
            behind, read_s = self._behind.get(partition, (limit, 0.0))
            if queue not in offsets and (now_s - read_s > _ACTIVE_S or self._has(partition, behind)):
                continue
            start = offsets.get(queue, behind)
            end = min(self._cache.next_base(partition, start) or limit, limit)
            if start < end:
                wanted[queue] = (start, end)
        return wanted

    def _keep(self, partition: TopicPartition, batches: list[KafkaBatch]) -> None:
        for batch in batches:
            header = batch.header
            self._cache.add(partition, CachedBatch(header.base_offset, header.last_offset + 1, bytes(batch.data)))
        self._behind[partition] = (batches[-1].header.last_offset + 1, self._runtime.clock.monotonic_s())
        self._behind.move_to_end(partition)
        if len(self._behind) > _PARTITIONS_MAX:
            self._behind.popitem(last=False)


def _encoded(rows: pa.RecordBatch, epoch: int, *, log_append_time: bool) -> list[KafkaBatch]:
    """Batches with dense offsets: a repair may have left a gap, and another batch begins behind it."""
    offsets, records = rows["offset"].to_numpy(), records_of(rows, log_append_time=log_append_time)
    starts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()]
    return [
        batch
        for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True)
        for batch in encode(
            records.slice(start, end - start),
            base_offset=int(offsets[start]),
            leader_epoch=epoch,
            log_append_time=log_append_time,
        )
    ]


def _found(topic: Topic, reader: Reader, queue: int, offset: int, first: int) -> int | PenstockError:
    """Where to go on, if the first row that was read is behind the offset."""
    if first <= offset:
        return offset
    earliest, _ = reader.known_offsets_of(queue)
    if offset < earliest:
        return OffsetOutOfRange("the offset has expired", object=topic.paths.topic, expected=f"{earliest} or more", observed=offset)
    unread = [one for one in reader.left_out if one.queue == queue and one.first_offset < first]
    return not_seen(topic, unread) or first
