"""Reads the rows of one queue in offset order, with bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ...limits import MIB
from ...paths import TopicPaths
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectStore
from .segment_reader import SegmentReader
from .segments import TableFile
from .snapshot import Snapshot

GROUPS_AHEAD = 2
_FILES_AHEAD = 3
_SMALL_FILE_BYTES = 4 * MIB
"""The largest file that is fetched in one request."""
WHOLE_FILE_BYTES = 64 * MIB
"""The same for maintenance, with one or two files in memory."""
T = TypeVar("T")


async def scan_queue(
    store: ObjectStore,
    paths: TopicPaths,
    snapshot: Snapshot,
    queue: int,
    start: int,
    limit: int,
    columns: Sequence[str] | None = None,
    *,
    runtime: Runtime | None = None,
    whole_files: bool = False,
    groups_ahead: int = GROUPS_AHEAD,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The table's rows of ``queue`` with offsets from ``start`` to ``limit`` (exclusive), in order, ``groups_ahead`` row groups at a time.

    Batches have `MESSAGE_SCHEMA`, or only ``columns``, and ``value`` in files of typed rows; ``columns`` may name some of its fields alone
    (``value.amount``, by stored names). Missing offsets are no error. Raises `DataDamaged`, and `ObjectMissing` for a collected file of a snapshot
    more than 7 days old.
    """
    runtime = runtime or Runtime()
    needed = None if columns is None else [*([] if "offset" in columns else ["offset"]), *columns]
    files = files_between(snapshot, queue, start, limit)
    root = paths.table(snapshot.folder)

    async def read(reader: SegmentReader, group: int) -> pa.Table:
        await reader.fetch_group(group, needed)
        rows = await runtime.offload(lambda: reader.decode_group(group, needed))
        reader.drop_group(group)
        return rows

    whole_bytes_max, ahead = (WHOLE_FILE_BYTES, 1) if whole_files else (_SMALL_FILE_BYTES, _FILES_AHEAD)
    opened = _ahead((SegmentReader(store, root, file).open(whole_bytes_max=whole_bytes_max) for file in files), ahead)
    groups = (
        read(reader, group)
        async for reader in opened
        for group in range(reader.row_groups)
        if reader.bounds(group, "offset")[0] < limit and reader.bounds(group, "offset")[1] >= start
    )
    async with aclosing(opened), aclosing(groups), aclosing(_ahead(groups, groups_ahead)) as decoded:
        async for rows in decoded:
            for batch in rows.to_batches():
                if (part := _between(batch, start, limit)).num_rows:
                    yield part.drop_columns(["offset"]) if columns is not None and "offset" not in columns else part


async def _ahead(
    work: Iterable[Coroutine[Any, Any, T]] | AsyncIterable[Coroutine[Any, Any, T]], count: int
) -> AsyncGenerator[T, None]:
    running: deque[asyncio.Task[T]] = deque()
    try:
        async with aclosing(_each(work)) as coroutines:
            async for coroutine in coroutines:
                running.append(asyncio.create_task(coroutine))
                if len(running) >= count:
                    yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def offset_at(
    store: ObjectStore, paths: TopicPaths, snapshot: Snapshot, queue: int, time_ms: int, *, runtime: Runtime
) -> int | None:
    """The first offset stored at or after ``time_ms``."""
    file = next((file for file in snapshot.files.get(queue, ()) if file.store_last_ms >= time_ms), None)
    if file is None:
        return None
    if file.store_first_ms >= time_ms:
        return file.first_offset
    reader = await SegmentReader(store, paths.table(snapshot.folder), file).open()
    for group in range(reader.row_groups):
        if reader.bounds(group, "store_timestamp")[1] >= time_ms * 1000:
            columns = ["offset", "store_timestamp"]
            await reader.fetch_group(group, columns)
            rows = await runtime.offload(lambda: reader.decode_group(group, columns))  # noqa: B023 - it ends before the next group
            times = rows.column("store_timestamp").cast(pa.int64()).to_numpy()
            return int(rows.column("offset")[int(np.searchsorted(times, time_ms * 1000))].as_py())
    return None


def files_between(snapshot: Snapshot, queue: int, start: int, limit: int) -> list[TableFile]:
    return [file for file in snapshot.files.get(queue, ()) if file.first_offset < limit and file.limit_offset > start]


def _between(batch: pa.RecordBatch, start: int, limit: int) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    first, last = np.searchsorted(offsets, (start, limit))
    return batch if (first, last) == (0, len(offsets)) else batch.slice(first, last - first)
