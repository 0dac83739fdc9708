"""Reads a task's queues, on an executor, as Arrow batches."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from ...coordinator.lakes import LakePlace, OpenLake, lakes
from ...log.errors import OffsetOutOfRange, RetryError, TopicDeleted
from ...log.filter.tags import TagFilter
from ...log.limits import MIB
from ...log.read.merged_rows import MergedRows, Span
from ...log.topic.topics import Topic
from .planned_columns import PlannedColumns, PlannedSchema

log = logging.getLogger("penstock.consumers")

BATCH_ROWS_MIN = 16 * 1024
BATCH_ROWS_MAX = 64 * 1024
BATCH_BYTES_MIN = 4 * MIB
"""The least bytes of a batch: each costs a millisecond on its way, and large ones cost the JVM memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """One task's part of a read."""

    place: LakePlace
    topic: str
    life: int
    ranges: Mapping[int, tuple[int, int]]
    """The first offset and the one to stop before, by queue."""
    columns: tuple[str, ...]
    """Columns of messages, ``value``, or some of its fields (``value.amount``)."""
    planned: PlannedSchema | None = None
    """None: no column ``value`` is asked for."""
    keep: TagFilter = TagFilter(None)  # noqa: RUF009 - it is frozen
    fail_on_data_loss: bool = True
    skip_damaged: bool = False


def read(task: ReadTask) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a task, each queue's by offset. Raises `OffsetOutOfRange` for expired rows (unless data loss is no error), `DataDamaged` for
    unreadable ones (unless to be skipped), and `TopicDeleted`.
    """
    opened = lakes.open(task.place)
    source = _ahead(_gathered(_rows(opened, task)))
    try:
        while True:
            try:
                yield opened.run(source.__anext__)
            except StopAsyncIteration:
                return
    finally:
        if opened.usable:
            opened.run(source.aclose)
        _spare_imports()


@cache
def _spare_imports() -> None:
    """Exempt imported modules from garbage collection after a process's first task: Spark's workers collect after every task, 27 ms each time."""
    gc.collect()
    gc.freeze()


async def _rows(opened: OpenLake, task: ReadTask) -> AsyncGenerator[pa.RecordBatch, None]:
    topic = await _topic(opened, task)
    rows = MergedRows(topic, asyncio.Event())
    keep = task.keep
    more = ("queue", "offset", *(["tag"] if keep.tags is not None else []))
    columns = PlannedColumns.of(task.columns, more, task.planned)
    columns.check(topic, task.planned)
    position = {queue: start for queue, (start, _) in task.ranges.items()}
    limits = {queue: limit for queue, (_, limit) in task.ranges.items()}
    while True:
        span = Span(position=position, limits=limits, skip_damaged=task.skip_damaged, movable=not task.fail_on_data_loss)
        try:
            async with aclosing(rows.joined(await rows.refresh(), span, lambda: columns.needed.stored)) as source:
                async for batch in source:
                    kept = keep.apply(columns.shown(batch, topic))
                    if kept.num_rows:
                        yield columns.given.part(kept)
        except OffsetOutOfRange as error:
            # This is for rows that retention removes during the read. The span itself passes over rows that were removed before.
            if task.fail_on_data_loss:
                error.hint = (
                    "set failOnDataLoss=false to go on at the earliest message that is kept, or raise the topic's retention"
                )
                raise
            log.warning("%s is read on from where it is kept: %s", task.topic, error)
            continue
        if span.queues:
            raise RetryError(
                "the log does not have yet what the driver has seen",
                operation="read",
                object=f"{task.topic}, queues {', '.join(map(str, span.queues))}",
                expected={queue: limits[queue] for queue in span.queues},
                observed={queue: position[queue] for queue in span.queues},
            )
        return


async def _topic(opened: OpenLake, task: ReadTask) -> Topic:
    topic = await opened.lake.topic(task.topic)
    await topic.tail.catch_up()
    topic = await opened.lake.topic(task.topic)  # opened anew when the topic turned out to be another one of the name
    if topic.life != task.life:
        raise TopicDeleted(
            "the topic was deleted and created again while it was read",
            operation="read",
            object=task.topic,
            expected=f"the topic of entry {task.life}",
            observed=f"that of entry {topic.life}",
        )
    return topic


async def _ahead(source: AsyncGenerator[pa.RecordBatch, None]) -> AsyncGenerator[pa.RecordBatch, None]:
    """Read the next batch while the caller has the last."""
    async with aclosing(source):
        following = asyncio.ensure_future(anext(source, None))
        try:
            while (batch := await following) is not None:
                following = asyncio.ensure_future(anext(source, None))
                yield batch
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _gathered(source: AsyncGenerator[pa.RecordBatch, None]) -> AsyncGenerator[pa.RecordBatch, None]:
    async with aclosing(source):
        waiting: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        async for batch in source:
            waiting.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows >= BATCH_ROWS_MIN or size_bytes >= BATCH_BYTES_MIN:
                for part in _parts(waiting, rows):
                    yield part
                waiting, rows, size_bytes = [], 0, 0
        for part in _parts(waiting, rows):
            yield part


def _parts(batches: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    if not batches:
        return
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    for first in range(0, rows, BATCH_ROWS_MAX):
        yield whole.slice(first, BATCH_ROWS_MAX)
