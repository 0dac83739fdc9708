"""Rows of one topic for the queues that this process consumes.

A live entry is kept until one of its queues wants rows, then decoded once for all. Other rows come by the reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pyarrow as pa

from ...log.errors import ClosedError, InternalError, TopicDeleted
from ...log.format.fold import FoldedEntry
from ...log.format.state import TopicState
from ...log.limits import MIB
from ...log.read.merged_rows import MergedRows, out_of_range
from ...log.read.projection import projection_of
from ...log.read.reader import Reader
from ...log.schema.topic_schema import TopicSchema
from ...log.table.delta.snapshot import Snapshot
from ...log.topic.topics import Topic
from .backlog import Backlog, CatchUpReader
from .rows import check_dense
from .unpublished_entries import Offsets, UnpublishedEntries
from .window import Window

CACHE_BYTES = 64 * MIB
_PICK_GAP = 1024


class Feed:
    """Hands out the rows of attached queues from any offset on, in order and without a hole. ``cache_bytes`` bounds the memory of entries not yet
    taken.
    """

    def __init__(self, topic: Topic, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._topic = topic
        self._tail = topic.tail
        self._cache_bytes = cache_bytes
        self._live = Window(topic, cache_bytes)
        self._backlog: Backlog | None = None
        self._unpublished = UnpublishedEntries(topic)
        self._opening = asyncio.Lock()
        self._reader = Reader(topic, groups_ahead=1)  # queues read side by side, so none needs to read ahead, which costs memory
        self._rows = MergedRows(topic, asyncio.Event())
        self._table = Snapshot(topic.record.table)
        self._attached: dict[int, int] = {}
        self._behind: dict[tuple[int, int], CatchUpReader] = {}
        """Readers of older rows, by queue and next offset."""
        self._waiting: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def topic(self) -> Topic:
        return self._topic

    @property
    def schema(self) -> TopicSchema | None:
        return self._tail.state.schema

    @property
    def cached_bytes(self) -> int:
        return self._live.cache.size_bytes + (0 if self._backlog is None else self._backlog.window.cache.size_bytes)

    def attach(self, queue: int) -> None:
        """A queue attached twice is to be detached twice."""
        self._check_open()
        self._check_life()
        if queue not in self._attached:
            if not self._attached:
                self._tail.fold_listeners.append(self._folded)
                self._tail.jump_listeners.append(self._jumped)
            self._live.cache.begin(queue, self.next_offset(queue))
        self._attached[queue] = self._attached.get(queue, 0) + 1

    async def detach(self, queue: int) -> None:
        self._attached[queue] -= 1
        if self._attached[queue]:
            return
        del self._attached[queue]
        self._live.cache.leave(queue)
        if not self._attached:
            self._tail.fold_listeners.remove(self._folded)
            self._tail.jump_listeners.remove(self._jumped)
        await self._at_tail(queue)

    def next_offset(self, queue: int) -> int:
        """The known offset of the queue's next message. Raises `TopicDeleted`."""
        self._check_life()
        return self._tail.state.next_offset(queue)

    async def fetch(self, queue: int, start: int, *, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """The rows of an attached queue from offset ``start`` on, dense, with `MESSAGE_SCHEMA`. None: there is nothing yet.

        At most ``rows_max`` rows and ``bytes_max`` bytes, but one row at least. Raises `OffsetOutOfRange` when retention took the offset,
        `DataDamaged` when its row cannot be read, `TopicDeleted`, and `StoreUnavailable`.
        """
        self._check_attached(queue)
        while start < self.next_offset(queue):
            rows = await self._next(queue, start, rows_max, bytes_max)
            if rows is not None:
                check_dense(rows, queue, start)
                return rows
            self._check_attached(queue)
        if self._attached[queue] == 1:
            self._live.cache.drop_below(queue, start)
            await self._at_tail(queue)
        return None

    async def arrived(self, queue: int, start: int) -> None:
        """Return once the queue's next offset is above ``start``, polling the log. Raises `TopicDeleted`, `ClosedError`, and the error that made
        reading impossible.
        """
        while self.next_offset(queue) <= start:
            self._check_open()
            waiter = asyncio.get_running_loop().create_future()
            entry = (start, waiter)
            self._waiting.setdefault(queue, []).append(entry)
            if self._polling is None or self._polling.done():
                self._polling = asyncio.ensure_future(self._poll())
            try:
                await waiter
            finally:
                self._forget(queue, entry)

    async def scan(self, queue: int, start: int, limit: int) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of a queue from ``start`` to ``limit`` (exclusive), read anew. Raises as `fetch`."""
        async with aclosing(self._reader.read(queue=queue, start=start, end=limit)) as source:
            async for rows in source:
                check_dense(rows, queue, start)
                start += rows.num_rows
                yield rows

    async def pick(self, queue: int, offsets: Sequence[int]) -> pa.RecordBatch:
        """The rows of these few rising offsets, read anew. Raises as `fetch`."""
        wanted = np.unique(np.asarray(offsets, np.int64))
        schema = self._tail.state.schema
        shown = projection_of(None, schema)
        stored = await self._unpublished_rows(queue, wanted)
        found = [shown.shown(rows, where=self._topic.paths.topic) for rows in stored]
        here = [rows.column("offset").to_numpy() for rows in found]
        for near in _runs(np.setdiff1d(wanted, np.concatenate(here)) if here else wanted):
            reading = self._reader.read(queue=queue, start=int(near[0]), end=int(near[-1]) + 1, damaged="skip")
            async with aclosing(reading) as source:
                async for rows in source:
                    at = np.flatnonzero(np.isin(rows.column("offset").to_numpy(), near))
                    found.append(rows.take(pa.array(at)))
        if self._tail.state.schema is not schema:
            return await self.pick(queue, offsets)  # rows of two versions would not fit together
        rows = pa.concat_batches(found).sort_by("offset") if found else pa.RecordBatch.from_pylist([], shown.arrow)
        for missing in np.setdiff1d(wanted, rows.column("offset").to_numpy()).tolist():
            async with aclosing(self.scan(queue, missing, missing + 1)) as source:
                await anext(source, None)  # raises the reason
            there_is = f"the next one to be written is {self.next_offset(queue)}"
            raise out_of_range(self._topic.paths.topic, queue, missing, there_is)
        return rows

    async def kept_from(self, queue: int, start: int) -> int:
        """The first offset from ``start`` on that retention has left, or the next offset. A damaged row is not passed over."""
        earliest, following = (await self._reader.offsets())[queue]
        return min(max(start, earliest), following)

    async def close(self) -> None:
        """End every wait here with `ClosedError`."""
        self._closed = True
        if self._attached:
            self._tail.fold_listeners.remove(self._folded)
            self._tail.jump_listeners.remove(self._jumped)
        self._attached.clear()
        self._fail(ClosedError("the feed is closed", operation="arrived", object=self._topic.paths.topic))
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._live.close()
        await self._end_backlog()
        while self._behind:
            await self._behind.popitem()[1].close()
        self._live = Window(self._topic, 0)

    # --- Where rows come from

    async def _next(self, queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """Rows from the first place that has them; None: look again."""
        shared = self._attached[queue] > 1
        if not shared:
            self._live.cache.drop_below(queue, start)
        rows = await self._live.fetch(queue, start, rows_max=rows_max, bytes_max=bytes_max)
        if rows is not None:
            if not shared:
                await self._at_tail(queue)
            return rows
        if (queue, start) not in self._behind:
            backlog = await self._joined(queue, start)
            if backlog is not None:
                if not shared:
                    backlog.drop_below(queue, start)
                behind = max(1, min(rows_max, self._live.cache.first_offset(queue) - start))  # what is live is decoded there
                rows = await backlog.fetch(queue, start, rows_max=behind, bytes_max=bytes_max)
        return await self._older(queue, start, rows_max, bytes_max) if rows is None else rows

    async def _joined(self, queue: int, start: int) -> Backlog | None:
        async with self._opening:
            if self._backlog is None or self._backlog.over:
                await self._end_backlog()
                self._table = await self._rows.refresh()
                if queue not in self._attached or start < self._table.end(queue):
                    return None
                backlog = Backlog(self._topic, self._cache_bytes // 2)
                await backlog.open(self._table.published)
                self._check_attached(queue)
                for attached in self._attached:
                    backlog.join(attached, 0)
                self._live.cache.limit(self._cache_bytes // 2)
                self._backlog = backlog
            self._check_attached(queue)
            self._backlog.join(queue, start)
            return self._backlog

    async def _older(self, queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """None after the part that it was opened for."""
        source = self._behind.pop((queue, start), None)
        is_new = source is None
        if source is None:
            await self._end_behind(queue, keep=self._attached.get(queue, 0) - 1)
            table_end = self._table.end(queue)
            source = CatchUpReader(self._reader, queue, start, table_end if start < table_end else "latest")
        try:
            rows = await source.fetch(rows_max=rows_max, bytes_max=bytes_max)
        except BaseException:
            await source.close()
            raise
        if rows is not None and queue in self._attached:
            self._behind[queue, source.offset] = source
        else:
            await source.close()
        if rows is None and is_new:
            raise InternalError(
                "the reader has nothing where there are messages", operation="fetch", object=f"queue {queue}", observed=start
            )
        return rows

    async def _unpublished_rows(self, queue: int, wanted: Offsets) -> list[pa.RecordBatch]:
        behind = wanted[wanted.searchsorted(self._table.end(queue)) :]
        if len(behind):
            self._table = await self._rows.refresh()
            behind = behind[behind.searchsorted(self._table.end(queue)) :]
        return await self._unpublished.pick(self._table.published, queue, behind) if len(behind) else []

    async def _at_tail(self, queue: int) -> None:
        if self._backlog is not None:
            self._backlog.leave(queue)
            if self._backlog.over:
                await self._end_backlog()
        await self._end_behind(queue, keep=0)

    async def _end_behind(self, queue: int, *, keep: int) -> None:
        """Keep only the newest ``keep`` readers of a queue's older rows."""
        if self._behind:
            open_ = [key for key in self._behind if key[0] == queue]
            for key in open_[: max(0, len(open_) - keep)]:
                await self._behind.pop(key).close()

    async def _end_backlog(self) -> None:
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._live.cache.limit(self._cache_bytes)
            await backlog.close()

    # --- The tail

    def _folded(self, folded: FoldedEntry, data: bytes) -> None:
        if self._topic.is_current:
            self._live.cache.take(folded, data)
        self._wake()

    def _jumped(self, state: TopicState) -> None:
        if self._topic.is_current:
            self._live.cache.jump(state)
        self._wake()

    async def _poll(self) -> None:
        try:
            while self._waiting:
                await self._tail.wait_past(self._tail.state.entry)
                self._wake()
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
            self._fail(error)

    def _wake(self) -> None:
        if not self._topic.is_current:
            self._fail(self._deleted())
            return
        for queue, waiting in self._waiting.items():
            following = self._tail.state.next_offset(queue)
            for start, waiter in waiting:
                if following > start and not waiter.done():
                    waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        for waiting in self._waiting.values():
            for _, waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(error)

    def _forget(self, queue: int, entry: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting[queue]
        waiting.remove(entry)
        if not waiting:
            del self._waiting[queue]
        if not self._waiting and self._polling is not None:
            self._polling.cancel()
            self._polling = None

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the feed is closed", object=self._topic.paths.topic)

    def _check_attached(self, queue: int) -> None:
        self._check_open()
        if queue not in self._attached:
            raise ClosedError("the queue is not attached", operation="fetch", object=f"{self._topic.paths.topic}, queue {queue}")

    def _check_life(self) -> None:
        if not self._topic.is_current:
            raise self._deleted()

    def _deleted(self) -> TopicDeleted:
        return TopicDeleted(
            "the topic was deleted",
            operation="fetch",
            object=self._topic.paths.topic,
            hint="open it anew if it was created again",
        )


def _runs(offsets: Offsets) -> list[Offsets]:
    """Runs with gaps that are better not read."""
    return np.split(offsets, np.flatnonzero(np.diff(offsets) > _PICK_GAP) + 1) if len(offsets) else []
