"""A window on a topic's log: entries in memory, decoded once for all queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.errors import DataDamaged, InternalError
from ...log.format.fold import FoldedEntry
from ...log.limits import KIB
from ...log.paths import TopicPaths
from ...log.read.projection import projection_of
from ...log.schema.topic_schema import TopicSchema
from ...log.tail.entry_rows import EntryRows, decode_entry, decode_together, staged_parts
from ...log.topic.topics import Topic
from .cache import CachedEntry, CachedRows, Failures, FeedCache
from .rows import cut

_ENTRIES_AHEAD = 4
ENTRIES_TOGETHER = 16
"""Small entries that are given together, as each fetch costs more than a few rows."""
_TOGETHER_BYTES = 256 * KIB
_TOGETHER_SHARE = 16
"""The inverse share of the window for small entries together."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    folded: FoldedEntry
    data: bytes
    parts: dict[str, bytes | None]
    spans: dict[int, tuple[int, int]]
    schema: TopicSchema | None


class Window:
    """Gives rows out of a `FeedCache`."""

    def __init__(self, topic: Topic, size_bytes_max: int) -> None:
        self.cache = FeedCache(size_bytes_max)
        self._together_bytes = min(_TOGETHER_BYTES, size_bytes_max // _TOGETHER_SHARE)
        self._topic = topic
        self._loads: set[asyncio.Task[Failures]] = set()

    async def fetch(self, queue: int, start: int, *, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
        """Rows of a queue from ``start`` on. None: not here. Raises `StoreUnavailable` for an unreachable staged object."""
        arrivals = self.cache.covering(queue, start, start + rows_max)
        if not arrivals:
            return None
        first, together = arrivals[0], _small(arrivals, self._together_bytes)
        self._start(arrivals[:together])
        for ahead in arrivals[together:_ENTRIES_AHEAD]:
            self._start((ahead,))
        loading = first.loading
        if loads := {arrival.loading for arrival in arrivals[:together] if arrival.loading is not None}:
            await asyncio.wait(loads)  # they go on for others when this fetch is cancelled
        if loading is not None:
            if loading.cancelled():
                return None
            if (failure := loading.result().get(first.number)) is not None:
                raise failure
        return _taken(arrivals, queue, start, rows_max, bytes_max)

    async def close(self) -> None:
        loads = list(self._loads)
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)

    def _start(self, arrivals: Sequence[CachedEntry]) -> None:
        wanted = [arrival for arrival in arrivals if arrival.pieces is None and arrival.loading is None]
        if wanted:
            load = asyncio.ensure_future(self._load(wanted))
            for arrival in wanted:
                arrival.loading = load
            self._loads.add(load)
            load.add_done_callback(self._loaded)

    def _loaded(self, load: asyncio.Task[Failures]) -> None:
        """Drop a finished load; a failed one is tried again by the fetch that needs it."""
        self._loads.discard(load)
        if not load.cancelled():
            load.exception()

    def _schema(self, folded: FoldedEntry) -> TopicSchema | None:
        found = folded.state.schema
        return self._topic.schema if found is not None and self._topic.is_current else found

    async def _load(self, arrivals: Sequence[CachedEntry]) -> Failures:
        """Decode entries for all queues that want rows of them. Returns why some could not be fetched."""
        try:
            fetched = await asyncio.gather(*map(self._fetched, arrivals), return_exceptions=True)
            good = [one for one in fetched if isinstance(one, _Fetched)]
            decoded = iter(await self._topic.runtime.offload(partial(_decoded_each, self._topic.paths, good)))
        finally:
            for arrival in arrivals:
                arrival.loading = None
        failures: Failures = {}
        for arrival, one in zip(arrivals, fetched, strict=True):
            if isinstance(one, BaseException):
                failures[arrival.number] = one
                continue
            pieces, size_bytes = next(decoded)
            self.cache.decoded(arrival, pieces, size_bytes)
            for queue in one.spans.keys() - pieces.keys():
                self.cache.drop_through(queue, arrival)  # the reader finds it elsewhere, or says what is lost
        return failures

    async def _fetched(self, arrival: CachedEntry) -> _Fetched:
        assert arrival.stored is not None
        folded, data = arrival.stored
        spans = dict(arrival.spans)
        parts = await staged_parts(self._topic.store, self._topic.paths, folded, queues=spans.keys())
        return _Fetched(folded, data, parts, spans, self._schema(folded))


def _small(arrivals: Sequence[CachedEntry], bytes_max: int) -> int:
    """The first entries, at least one, small enough to be waited for together."""
    sizes = accumulate(arrival.size_bytes for arrival in arrivals[:ENTRIES_TOGETHER])
    return max(1, sum(size_bytes <= bytes_max for size_bytes in sizes))


def _taken(arrivals: list[CachedEntry], queue: int, start: int, rows_max: int, bytes_max: int) -> pa.RecordBatch | None:
    taken: list[pa.RecordBatch] = []
    at, left_rows, left_bytes = start, rows_max, bytes_max
    for arrival in arrivals:
        piece = None if arrival.pieces is None else arrival.pieces.get(queue)
        if piece is None or piece.first_offset > at or left_rows <= 0 or left_bytes <= 0:
            break
        if taken and not piece.rows.schema.equals(taken[0].schema):
            break  # the topic's schema has changed between the two
        rows = piece.rows.slice(at - piece.first_offset)
        fits = piece.size_bytes <= left_bytes  # then no part of it need be measured
        kept = rows.slice(0, left_rows) if fits else cut(rows, rows_max=left_rows, bytes_max=left_bytes)
        taken.append(kept)
        at += kept.num_rows
        left_rows -= kept.num_rows
        left_bytes -= piece.size_bytes * kept.num_rows // piece.rows.num_rows
        if kept.num_rows < rows.num_rows:
            break
    if not taken:
        return None
    return taken[0] if len(taken) == 1 else pa.concat_batches(taken)


def _decoded_each(paths: TopicPaths, those: Sequence[_Fetched]) -> list[tuple[dict[int, CachedRows], int]]:
    if len(those) > 1 and (together := _decoded_together(paths, those)) is not None:
        return together
    decoded: list[tuple[dict[int, CachedRows], int]] = []
    for one in those:
        try:
            decoded.append(_decoded(paths, one))
        except DataDamaged:
            decoded.append(({}, 0))
    return decoded


def _decoded(paths: TopicPaths, fetched: _Fetched) -> tuple[dict[int, CachedRows], int]:
    folded, spans = fetched.folded, fetched.spans
    entry = decode_entry(paths, folded, fetched.data, fetched.parts, queues=spans.keys())
    whole = {queue: span for queue, span in sorted(spans.items()) if queue not in {lost.queue for lost in entry.lost}}
    if not whole:
        return {}, 0
    rows = _single_batch(entry, whole, fetched.schema, where=paths.entry(folded.number))
    return _pieces(rows, [whole])[0]


def _decoded_together(paths: TopicPaths, those: Sequence[_Fetched]) -> list[tuple[dict[int, CachedRows], int]] | None:
    """None: one of them is to be decoded by itself."""
    table = decode_together(paths, [(one.folded, one.data, one.spans.keys()) for one in those])
    if table is None:
        return None
    (rows,) = table.to_batches()
    spans = [dict(sorted(one.spans.items())) for one in those]
    return _pieces(rows, spans) if _is_of(rows, spans) else None


def _pieces(rows: pa.RecordBatch, spans: Sequence[Mapping[int, tuple[int, int]]]) -> list[tuple[dict[int, CachedRows], int]]:
    """The rows of each entry by queue, and their bytes, of one batch with all of them in order."""
    size_bytes = rows.nbytes
    ends = np.cumsum([limit - first for of_entry in spans for first, limit in of_entry.values()]).tolist()
    bodies = np.concatenate(
        ([0], np.cumsum(pc.binary_length(rows.column("body")).fill_null(0).to_numpy(zero_copy_only=False)))
    ).tolist()
    other_bytes = (size_bytes - bodies[-1]) / rows.num_rows
    found: list[tuple[dict[int, CachedRows], int]] = []
    begin = at = 0
    for of_entry in spans:
        pieces: dict[int, CachedRows] = {}
        for queue, (first, _) in of_entry.items():
            end = ends[at]
            of_queue = int(bodies[end] - bodies[begin] + other_bytes * (end - begin))
            pieces[queue] = CachedRows(first, rows.slice(begin, end - begin), of_queue)
            begin, at = end, at + 1
        found.append((pieces, sum(piece.size_bytes for piece in pieces.values())))
    return found


def _single_batch(entry: EntryRows, whole: dict[int, tuple[int, int]], schema: TopicSchema | None, *, where: str) -> pa.RecordBatch:
    """One batch by the ``schema``. Raises `InternalError` unless it has exactly the fold's rows."""
    table = entry.table
    if entry.lost:
        table = table.filter(pc.is_in(table.column("queue"), value_set=pa.array(list(whole), pa.int32())))
    batches = table.combine_chunks().to_batches()
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    rows = projection_of(None, schema).shown(rows, where=where)
    if not _is_of(rows, [whole]):
        raise InternalError("an entry has other rows than the fold says", operation="fetch", expected=whole, observed=rows.num_rows)
    return rows


def _is_of(rows: pa.RecordBatch, spans: Sequence[Mapping[int, tuple[int, int]]]) -> bool:
    """Whether a batch has exactly the rows that the fold gave these entries, in order."""
    runs = [(queue, first, limit) for of_entry in spans for queue, (first, limit) in of_entry.items()]
    queues = np.repeat([queue for queue, _, _ in runs], [limit - first for _, first, limit in runs])
    offsets = np.concatenate([np.arange(first, limit) for _, first, limit in runs])
    return np.array_equal(rows.column("queue").to_numpy(), queues) and np.array_equal(rows.column("offset").to_numpy(), offsets)
