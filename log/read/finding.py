"""Finds the messages with a label among ranges of offsets: a bounded number of them, by asking a bounded number of the table's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..table.delta.lookup import Lookup, candidates, matches
from ..table.delta.segments import TableFile
from ..table.delta.snapshot import Snapshot
from ..topic.topics import Topic
from .merged_rows import MergedRows, Span
from .shown_rows import shown_columns

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""The first offset, and the one to stop before, by queue."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and where it was looked for."""

    rows: pa.Table
    """The messages that match, by queue and offset, with all columns."""
    looked: Ranges
    """The offsets that were looked through: all that match there are among the rows."""


class Finding:
    """One look through a topic, on one version of its table."""

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
        self._shown = shown_columns(None, topic.tail.state.schema)
        self._found: list[pa.Table] = []
        self._looked: dict[int, tuple[int, int]] = {}

    async def run(self, offsets: Ranges) -> Found:
        """Look through the offsets queue by queue, until there is enough. Raises `ViewLost`."""
        table = {queue: (start, min(end, max(start, self._snapshot.end(queue)))) for queue, (start, end) in offsets.items()}
        log = {queue: (table[queue][1], end) for queue, (_, end) in offsets.items()}
        in_log = await self._in_log(log)
        for queue in sorted(offsets):
            start, end = offsets[queue]
            self._looked[queue] = (end, end) if self._newest else (start, start)
            parts = (self._take_log, self._take_table) if self._newest else (self._take_table, self._take_log)
            for part in parts:
                if not await part(queue, table[queue], log[queue], in_log):
                    break
        found = pa.concat_tables([self._shown.arrow.empty_table(), *self._found])
        return Found(found.sort_by([("queue", "ascending"), ("offset", "ascending")]), dict(self._looked))

    def _as_shown(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Rows by the topic's present schema, whichever they were stored by."""
        where = self._topic.paths.topic
        return pa.Table.from_batches([self._shown.shown(one, where=where) for one in batches], self._shown.arrow)

    async def _in_log(self, offsets: Ranges) -> Mapping[int, pa.Table]:
        """The rows of the log that match, by queue. The log that the table lacks is short, and is read as a whole."""
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

    async def _take_log(self, queue: int, _: tuple[int, int], span: tuple[int, int], in_log: Mapping[int, pa.Table]) -> bool:
        """Take what matches of the log's part. Returns whether there may be more to take."""
        if self._left <= 0:
            return False
        rows = in_log.get(queue)
        return self._took(queue, span) if rows is None else self._take(queue, rows, span)

    async def _take_table(self, queue: int, span: tuple[int, int], _: tuple[int, int], in_log: Mapping[int, pa.Table]) -> bool:
        start, end = span
        root, runtime = self._topic.paths.table(self._snapshot.folder), self._topic.runtime
        files = [one for one in self._snapshot.files.get(queue, ()) if one.first_offset < end and one.limit_offset > start]
        for file in reversed(files) if self._newest else files:
            if self._left <= 0 or self._files <= 0:
                return False
            self._files -= 1
            reader, groups = await candidates(self._topic.store, root, file, self._wanted)
            for group in reversed(groups) if self._newest else groups:
                first, last = reader.bounds(group, "offset")
                if first >= end or last < start:
                    continue
                rows = self._as_shown((await matches(reader, group, self._wanted, runtime)).to_batches())
                at = rows["offset"]
                rows = rows.filter(pc.and_(pc.greater_equal(at, start), pc.less(at, end)))
                if not self._take(queue, rows, (max(start, first), min(end, last + 1))):
                    return False
            self._took(queue, _within(file, start, end))
        return self._left > 0 and self._took(queue, span)

    def _take(self, queue: int, rows: pa.Table, span: tuple[int, int]) -> bool:
        """Take rows of a part that was looked through, as many as are still wanted. Returns whether more are."""
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
