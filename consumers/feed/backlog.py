"""Reads rows before a feed's live window: the table queue by queue, and the log behind it once for all queues."""

from __future__ import annotations

import asyncio
from typing import Literal

import pyarrow as pa

from ...log.errors import DataDamaged, ViewLost
from ...log.format.fold import FoldedEntry
from ...log.format.state import TopicState
from ...log.read.reader import Reader
from ...log.tail.salvage import fold_known
from ...log.tail.view import View
from ...log.topic.topics import Topic
from .rows import cut
from .window import ENTRIES_TOGETHER, Window

_FAR_ENTRIES = 4


class CatchUpReader:
    """Reads one queue from an offset on by the reader."""

    def __init__(self, reader: Reader, queue: int, start: int, end: int | Literal["latest"]) -> None:
        self._source = reader.read(queue=queue, start=start, end=end)
        self._rows: pa.RecordBatch | None = None
        self.offset = start

    async def fetch(self, *, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        if self._rows is None:
            self._rows = await anext(self._source, None)
            if self._rows is None:
                return None
        taken = cut(self._rows, rows_max=rows_max, bytes_max=bytes_max)
        self._rows = None if taken.num_rows == self._rows.num_rows else self._rows.slice(taken.num_rows)
        self.offset += taken.num_rows
        return taken

    async def close(self) -> None:
        await self._source.aclose()


class Backlog:
    """A window that moves from the table's end through the log as its queues ask for more. It is `over` at the first entry damaged, missing or
    trimmed.
    """

    def __init__(self, topic: Topic, size_bytes_max: int) -> None:
        self.window = Window(topic, size_bytes_max)
        self.over = False
        self._topic = topic
        self._view = View(topic.store, topic.paths, topic.runtime, cache=topic.tail.cache)
        self._view.on_fold = self._folded
        self._view.on_jump = self._jumped
        self._wanted: dict[int, int] = {}
        self._moving = asyncio.Lock()

    async def open(self, published: int) -> None:
        """Start at a checkpoint: entry ``published`` or one before it."""
        try:
            await self._view.open(at_most=max(published, self._topic.life))
        except (ViewLost, DataDamaged):
            self.over = True

    def join(self, queue: int, start: int) -> None:
        """Keep rows of this queue from here on, except those below ``start``."""
        if queue not in self.window.cache.queues:
            self.window.cache.begin(queue, self._following(queue))
        self._wanted[queue] = min(start, self._wanted.get(queue, start))

    def drop_below(self, queue: int, start: int) -> None:
        if queue in self._wanted:
            self._wanted[queue] = start
            self.window.cache.drop_below(queue, start)

    def leave(self, queue: int) -> None:
        """Keep nothing of this queue; without queues the backlog is `over`."""
        if queue in self.window.cache.queues:
            self.window.cache.leave(queue)
            del self._wanted[queue]
        self.over = self.over or not self._wanted

    async def fetch(self, queue: int, start: int, *, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """Rows of a joined queue from ``start`` on. None: not here."""
        async with self._moving:
            while not self.over and not self.window.cache.covering(queue, start, start + 1):
                if not self._may_move(queue, start):
                    return None
                await self._move()
            await self._move_ahead(queue, start + rows_max)
        return await self.window.fetch(queue, start, rows_max=rows_max, bytes_max=bytes_max)

    async def _move(self) -> None:
        at = self._view.state.entry
        far = self._topic.tail.state.entry - at >= _FAR_ENTRIES
        try:
            await fold_known(self._view, self._topic.store, self._topic.paths, at + 1, expect_many=far)
        except (ViewLost, DataDamaged):
            self.over = True

    async def _move_ahead(self, queue: int, limit: int) -> None:
        """Fold on through cached small entries, which the window decodes together."""
        for _ in range(ENTRIES_TOGETHER - 1):
            following = self._following(queue)
            in_memory = self._topic.tail.cache.get(self._view.state.entry + 1) is not None
            fits = in_memory and not self.window.cache.is_half_full
            if self.over or following >= limit or not fits or not self._may_move(queue, following):
                return
            await self._move()

    async def close(self) -> None:
        await self.window.close()

    def _following(self, queue: int) -> int:
        state = self._view.state
        return state.next_offset(queue) if state.incarnation == self._topic.record.incarnation else 0

    def _may_move(self, queue: int, start: int) -> bool:
        """Whether few queues want the entry that would fall out."""
        cache = self.window.cache
        if queue not in cache.queues or self._view.state.entry >= self._topic.tail.state.entry or self._following(queue) > start:
            return False
        oldest = cache.oldest
        return not cache.is_full or oldest is None or 2 * len(oldest.spans) <= len(cache.queues)

    def _folded(self, folded: FoldedEntry, data: bytes) -> None:
        if folded.state.incarnation == self._topic.record.incarnation:
            self.window.cache.take(folded, data)
            for queue, start in self._wanted.items():
                self.window.cache.drop_below(queue, start)

    def _jumped(self, state: TopicState) -> None:
        self.over = True
