"""Rows of one topic for the queues that this process consumes, shared by all their keepers.

Live rows come from the end of the log that the process has open anyway: every entry is kept as it came until one of its queues wants
rows, then decoded once for all of them. What is older, or fell out of that cache, comes from the table and the log by the reader's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ..log.errors import ClosedError, DataDamaged, InternalError, TopicDeleted
from ..log.fold import Folded
from ..log.limits import MIB
from ..log.messages import MESSAGE_SCHEMA
from ..log.paths import TopicPaths
from ..log.reader import Reader
from ..log.reading import out_of_range
from ..log.rows import decode_entry, staged_parts
from ..log.state import State
from ..log.topics import Topic
from .feed_cache import Arrival, FeedCache
from .rows import check_dense, cut

CACHE_BYTES = 64 * MIB
_ENTRIES_AHEAD = 4
_PICK_GAP = 1024


class Feed:
    """Hands out the rows of attached queues from any offset on, in order and without a hole.

    ``cache_bytes`` bounds what is kept of entries that some attached queue has not taken yet. Nothing is asked of the store unless
    somebody fetches what is not in memory, or waits in `arrived`.
    """

    def __init__(self, topic: Topic, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._topic = topic
        self._tail = topic.tail
        self._cache = FeedCache(cache_bytes)
        self._reader = Reader(topic)
        self._attached: dict[int, int] = {}
        self._behind: dict[tuple[int, int], CatchUp] = {}
        """By queue and the offset they come to next."""
        self._waiting: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._loads: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def topic(self) -> Topic:
        """The topic whose rows these are."""
        return self._topic

    @property
    def cached_bytes(self) -> int:
        """Of entries kept for queues that have not taken their rows yet."""
        return self._cache.size_bytes

    def attach(self, queue: int) -> None:
        """Keep live rows of this queue from now on. Attached twice, it is to be detached twice."""
        self._check_open()
        self._check_life()
        if queue not in self._attached:
            if not self._attached:
                self._tail.fold_listeners.append(self._folded)
                self._tail.jump_listeners.append(self._jumped)
            self._cache.begin(queue, self.next_offset(queue))
        self._attached[queue] = self._attached.get(queue, 0) + 1

    async def detach(self, queue: int) -> None:
        """Forget what is kept for this queue, when nobody else has it attached."""
        self._attached[queue] -= 1
        if self._attached[queue]:
            return
        del self._attached[queue]
        self._cache.end(queue)
        if not self._attached:
            self._tail.fold_listeners.remove(self._folded)
            self._tail.jump_listeners.remove(self._jumped)
        await self._end_behind(queue, keep=0)

    def next_offset(self, queue: int) -> int:
        """The offset of the queue's next message, as far as this process knows the log. Raises `TopicDeleted`."""
        self._check_life()
        return self._tail.state.next_offsets[queue]

    async def fetch(self, queue: int, start: int, *, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """The rows of an attached queue from offset ``start`` on, dense, with `MESSAGE_SCHEMA`; None: there is nothing yet.

        At most ``rows_max`` rows and ``bytes_max`` bytes, but one row at least. Rows that are in memory come without a request, and
        in one batch as far as they are decoded.

        Raises `OffsetOutOfRange` when retention took the offset, `DataDamaged` when its row cannot be read any more, `TopicDeleted`,
        and `StoreUnavailable` when the store does not answer.
        """
        self._check_attached(queue)
        if self._attached[queue] == 1:
            self._cache.forget_below(queue, start)
        while start < self.next_offset(queue):
            arrivals = self._cache.covering(queue, start, start + rows_max)
            if arrivals:
                rows = await self._live(arrivals, queue, start, rows_max, bytes_max)
                if rows is not None:
                    await self._end_behind(queue, keep=self._attached.get(queue, 0) - 1)
            else:
                rows = await self._older(queue, start, rows_max, bytes_max)
            if rows is not None:
                return rows
            self._check_attached(queue)
        return None

    async def arrived(self, queue: int, start: int) -> None:
        """Return once the queue's next offset is above ``start``; the log is polled as long as somebody waits here.

        Raises `TopicDeleted`, `ClosedError` when the feed is closed meanwhile, and what made reading the log impossible.
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
        """The rows of a queue from ``start`` to ``limit`` (exclusive), read from the store anew. Raises what `fetch` raises."""
        source = self._reader.read(queue=queue, start=start, end=limit)
        try:
            async for rows in source:
                check_dense(rows, queue, start)
                start += rows.num_rows
                yield rows
        finally:
            await source.aclose()

    async def pick(self, queue: int, offsets: Sequence[int]) -> pa.RecordBatch:
        """The rows of these few offsets of a queue, in rising order, read from the store anew. Raises what `fetch` raises."""
        wanted = np.unique(np.asarray(offsets, np.int64))
        found: list[pa.RecordBatch] = []
        for near in np.split(wanted, np.flatnonzero(np.diff(wanted) > _PICK_GAP) + 1):
            if not len(near):
                continue
            async for rows in self.scan(queue, int(near[0]), int(near[-1]) + 1):
                at = np.flatnonzero(np.isin(rows.column("offset").to_numpy(), near))
                found.append(rows.take(pa.array(at)))
        picked = pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], MESSAGE_SCHEMA)
        if picked.num_rows != len(wanted):
            following = self.next_offset(queue)
            if wanted[-1] >= following:
                there_is = f"the next one to be written is {following}"
                raise out_of_range(self._topic.paths.topic, queue, int(wanted[-1]), there_is)
            raise InternalError(
                "messages that exist were not found", operation="pick", expected=len(wanted), observed=picked.num_rows
            )
        return picked

    async def close(self) -> None:
        """End whatever waits here, with `ClosedError`, and forget all."""
        self._closed = True
        if self._attached:
            self._tail.fold_listeners.remove(self._folded)
            self._tail.jump_listeners.remove(self._jumped)
        self._attached.clear()
        self._fail(ClosedError("the feed is closed", operation="arrived", object=self._topic.paths.topic))
        tasks = [task for task in (self._polling, *self._loads) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._behind:
            await self._behind.popitem()[1].close()
        self._cache = FeedCache(0)

    # --- Live rows

    async def _live(self, arrivals: list[Arrival], queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """Rows from the cache; None when they cannot be had from there after all."""
        first = arrivals[0]
        for arrival in arrivals[:_ENTRIES_AHEAD]:
            if arrival.rows is None and (arrival.loading is None or arrival.loading.done()):
                arrival.loading = asyncio.ensure_future(self._load(arrival))
                self._loads.add(arrival.loading)
                arrival.loading.add_done_callback(self._loads.discard)
        if first.rows is None:
            assert first.loading is not None
            await asyncio.wait((first.loading,))
            if first.loading.cancelled():
                return None
            first.loading.result()
        return self._taken(arrivals, queue, start, rows_max, bytes_max)

    def _taken(self, arrivals: list[Arrival], queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        pieces: list[pa.RecordBatch] = []
        at, left_bytes = start, bytes_max
        for arrival in arrivals:
            for batch in () if arrival.rows is None else arrival.rows.get(queue, ()):
                first = int(batch.column("offset")[0].as_py())
                if first > at or at - start >= rows_max or left_bytes <= 0:
                    break
                if at < first + batch.num_rows:
                    piece = cut(batch.slice(at - first), rows_max=rows_max - (at - start), bytes_max=left_bytes)
                    pieces.append(piece)
                    at += piece.num_rows
                    left_bytes -= piece.nbytes
        if not pieces:
            return None
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    async def _load(self, arrival: Arrival) -> None:
        """Decode an entry, for all queues that want rows of it."""
        assert arrival.stored is not None
        folded, data = arrival.stored
        queues = set(arrival.spans)
        parts = await staged_parts(self._topic.store, self._topic.paths, folded, queues=queues)
        spans = dict(arrival.spans)
        work = partial(_rows_by_queue, self._topic.paths, folded, data, parts, queues, spans)
        try:
            rows = await self._topic.runtime.offload(work)
        except DataDamaged:
            rows = {}
        self._cache.decoded(arrival, rows)
        for queue in spans.keys() - rows.keys():
            self._cache.forget_through(queue, arrival)  # the reader finds it elsewhere, or says what is lost

    # --- What is not in the cache

    async def _older(self, queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """Rows by the reader's way; None when what it was opened for has been read."""
        source = self._behind.pop((queue, start), None)
        is_new = source is None
        if source is None:
            await self._end_behind(queue, keep=self._attached[queue] - 1)
            source = CatchUp(self._reader, queue, start)
        try:
            rows = await source.take(rows_max, bytes_max)
        except BaseException:
            await source.close()
            raise
        if rows is None:
            await source.close()
            if is_new:
                raise InternalError(
                    "the reader has nothing where there are messages", operation="fetch", object=f"queue {queue}", observed=start
                )
        elif self._closed or queue not in self._attached:
            await source.close()
        else:
            self._behind[queue, source.offset] = source
        return rows

    async def _end_behind(self, queue: int, *, keep: int) -> None:
        """Close all but the newest ``keep`` of what reads older rows of a queue."""
        open_ = [key for key in self._behind if key[0] == queue]
        for key in open_[: max(0, len(open_) - keep)]:
            await self._behind.pop(key).close()

    # --- The tail

    def _folded(self, folded: Folded, data: bytes) -> None:
        if self._topic.is_current:
            self._cache.take(folded, data)
        self._wake()

    def _jumped(self, state: State) -> None:
        if self._topic.is_current:
            self._cache.jump(state)
        self._wake()

    async def _poll(self) -> None:
        """Keep the tail polling while somebody waits."""
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
        following = self._tail.state.next_offsets
        for queue, waiting in self._waiting.items():
            for start, waiter in waiting:
                if following[queue] > start and not waiter.done():
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


class CatchUp:
    """What reads older rows of one queue, kept open between fetches."""

    def __init__(self, reader: Reader, queue: int, start: int) -> None:
        self._queue = queue
        self._source = reader.read(queue=queue, start=start)
        self._rows: pa.RecordBatch | None = None
        self.offset = start
        """The next to come."""

    async def take(self, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """The next rows; None at the end of what there was when it began."""
        if self._rows is None:
            self._rows = await anext(self._source, None)
            if self._rows is None:
                return None
            check_dense(self._rows, self._queue, self.offset)
        taken = cut(self._rows, rows_max=rows_max, bytes_max=bytes_max)
        self._rows = None if taken.num_rows == self._rows.num_rows else self._rows.slice(taken.num_rows)
        self.offset += taken.num_rows
        return taken

    async def close(self) -> None:
        await self._source.aclose()


def _rows_by_queue(
    paths: TopicPaths,
    folded: Folded,
    data: bytes,
    parts: dict[str, bytes | None],
    queues: set[int],
    spans: dict[int, tuple[int, int]],
) -> dict[int, list[pa.RecordBatch]]:
    """The rows of an entry for each of ``spans`` that is whole."""
    decoded = decode_entry(paths, folded, data, parts, queues=queues)
    table = decoded.table.combine_chunks()
    lost = {one.queue for one in decoded.lost}
    of_row = table.column("queue").to_numpy()
    found: dict[int, list[pa.RecordBatch]] = {}
    for queue, (first, limit) in spans.items():
        if queue in lost:
            continue
        begin, end = np.searchsorted(of_row, (queue, queue + 1))
        batches = table.slice(begin, end - begin).to_batches()
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        check_dense(rows, queue, first)
        if rows.num_rows != limit - first:
            raise InternalError("an entry has other rows than it says", object=f"queue {queue}", observed=rows.num_rows)
        found[queue] = [rows]
    return found
