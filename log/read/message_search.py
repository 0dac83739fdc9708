"""Finds messages with a label among ranges of offsets, bounded in messages and in files read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..table.delta.lookup import Lookup, candidates, matches
from ..table.delta.segment_reader import SegmentReader
from ..table.delta.segments import TableFile
from ..table.delta.snapshot import Snapshot
from ..topic.topics import Topic
from .merged_rows import MergedRows, Span
from .projection import projection_of

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""The first offset, and the one to stop before, by queue."""

_FIRST_AT_ONCE, _AT_ONCE = 4, 16


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The messages found, and the ranges searched."""

    rows: pa.Table
    looked: Ranges
    """Ranges of which all matches are among the rows."""


class MessageSearch:
    """One search on one version of the table."""

    def __init__(
        self, topic: Topic, rows: MergedRows, snapshot: Snapshot, wanted: Lookup, *, limit: int, files: int, newest: bool
    ) -> None:
        self._topic = topic
        self._rows = rows
        self._snapshot = snapshot
        self._wanted = wanted
        self._left = limit
        self._files = files
        self._newest = newest
        self._shown = projection_of(None, topic.tail.state.schema)
        self._found: list[pa.Table] = []
        self._looked: dict[int, tuple[int, int]] = {}

    async def run(self, offsets: Ranges) -> SearchResult:
        """Search all queues' files by the time of their messages. Raises `ViewLost`."""
        table = {queue: (start, min(end, max(start, self._snapshot.end(queue)))) for queue, (start, end) in sorted(offsets.items())}
        log = {queue: (table[queue][1], end) for queue, (_, end) in sorted(offsets.items())}
        in_log = await self._in_log(log)
        self._looked = {queue: (end, end) if self._newest else (start, start) for queue, (start, end) in offsets.items()}
        if not self._newest:
            whole = await self._take_table(table)
            self._take_log({queue: log[queue] for queue in whole}, in_log)
        elif self._take_log(log, in_log):
            await self._take_table(table)
        found = pa.concat_tables([self._shown.arrow.empty_table(), *self._found])
        return SearchResult(found.sort_by([("queue", "ascending"), ("offset", "ascending")]), dict(self._looked))

    def _as_shown(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        where = self._topic.paths.topic
        return pa.Table.from_batches([self._shown.shown(one, where=where) for one in batches], self._shown.arrow)

    async def _in_log(self, offsets: Ranges) -> Mapping[int, pa.Table]:
        ranges = {queue: span for queue, span in offsets.items() if span[0] < span[1]}
        span = Span(
            position={queue: start for queue, (start, _) in ranges.items()},
            limits={queue: end for queue, (_, end) in ranges.items()},
            skip_damaged=True,
        )
        found: dict[int, list[pa.RecordBatch]] = {}
        async with aclosing(self._rows.log(self._snapshot, span)) as batches:
            async for batch in batches:
                rows = batch.take(pa.array(self._wanted.matching(batch), pa.int64()))
                if rows.num_rows:
                    found.setdefault(rows.column("queue")[0].as_py(), []).append(rows)
        return {queue: self._as_shown(some) for queue, some in found.items()}

    def _take_log(self, spans: Ranges, in_log: Mapping[int, pa.Table]) -> bool:
        """Returns whether the log may have more."""
        for queue, span in spans.items():
            if self._left <= 0:
                return False
            if (rows := in_log.get(queue)) is None:
                self._took(queue, span)
            elif not self._take(queue, rows, span):
                return False
        return self._left > 0

    async def _take_table(self, spans: Ranges) -> list[int]:
        """Returns the queues searched to their ends."""
        files = {queue: self._files_of(queue, span) for queue, span in spans.items()}
        left = {queue: len(some) for queue, some in files.items()}
        whole = [queue for queue, count in left.items() if not count and self._took(queue, spans[queue])]
        plan = list(islice(merge(*files.values(), key=self._order), self._files))
        async with aclosing(self._candidates(plan)) as asked:
            async for file, reader, groups in asked:
                queue, (start, end) = file.queue, spans[file.queue]
                for group in reversed(groups) if self._newest else groups:
                    first, last = reader.bounds(group, "offset")
                    if first >= end or last < start:
                        continue
                    rows = self._as_shown((await matches(reader, group, self._wanted, self._topic.runtime)).to_batches())
                    at = rows["offset"]
                    rows = rows.filter(pc.and_(pc.greater_equal(at, start), pc.less(at, end)))
                    if not self._take(queue, rows, (max(start, first), min(end, last + 1))):
                        return []
                self._took(queue, _within(file, start, end))
                left[queue] -= 1
                if not left[queue] and self._took(queue, spans[queue]):
                    whole.append(queue)
        return sorted(whole)

    def _files_of(self, queue: int, span: tuple[int, int]) -> Sequence[TableFile]:
        start, end = span
        files = [one for one in self._snapshot.files.get(queue, ()) if one.first_offset < end and one.limit_offset > start]
        return files[::-1] if self._newest else files

    def _order(self, file: TableFile) -> int:
        return -file.store_last_ms if self._newest else file.store_first_ms

    async def _candidates(self, plan: Sequence[TableFile]) -> AsyncGenerator[tuple[TableFile, SegmentReader, list[int]], None]:
        root, store, at, size = self._topic.paths.table(self._snapshot.folder), self._rows.files, 0, _FIRST_AT_ONCE
        while some := plan[at : at + size]:
            asked = await asyncio.gather(*(candidates(store, root, file, self._wanted) for file in some))
            for file, (reader, groups) in zip(some, asked, strict=True):
                yield file, reader, groups
            at, size = at + size, min(2 * size, _AT_ONCE)

    def _take(self, queue: int, rows: pa.Table, span: tuple[int, int]) -> bool:
        """Returns whether more are wanted."""
        count = rows.num_rows
        if count > self._left:
            rows = rows.slice(count - self._left) if self._newest else rows.slice(0, self._left)
            edge = rows["offset"][0 if self._newest else rows.num_rows - 1].as_py()
            span = (edge, span[1]) if self._newest else (span[0], edge + 1)
        self._left -= rows.num_rows
        self._found.append(rows)
        self._took(queue, span)
        return count == rows.num_rows and self._left > 0

    def _took(self, queue: int, span: tuple[int, int]) -> bool:
        start, end = self._looked[queue]
        self._looked[queue] = (min(start, span[0]), end) if self._newest else (start, max(end, span[1]))
        return True


def _within(file: TableFile, start: int, end: int) -> tuple[int, int]:
    return max(start, file.first_offset), min(end, file.limit_offset)
