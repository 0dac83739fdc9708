"""Entries whose rows some queue here has not taken yet; bounded in bytes."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from ...log.format.fold import FoldedEntry, VoidReason
from ...log.format.state import TopicState
from ...log.tail.arrivals import entry_bytes

_OVERHEAD_BYTES = 4096
_SHARE_MAX = 4


Failures: TypeAlias = "dict[int, BaseException]"


@dataclass(frozen=True, slots=True)
class CachedRows:
    """Consecutive rows of one queue, with `MESSAGE_SCHEMA`."""

    first_offset: int
    rows: pa.RecordBatch
    size_bytes: int


@dataclass(slots=True, eq=False)
class CachedEntry:
    """A stored entry, until its rows are wanted."""

    number: int
    spans: dict[int, tuple[int, int]]
    """The first offset and the one behind the last of each queue."""
    stored: tuple[FoldedEntry, bytes] | None
    size_bytes: int
    """The size in memory, shared by all rows."""
    pieces: dict[int, CachedRows] | None = None
    """The rows, without queues whose rows cannot be had here."""
    loading: asyncio.Task[Failures] | None = None


class FeedCache:
    """A run of consecutive offsets for each queue, in entries shared by all queues. The oldest entries fall out first, for all queues, so a queue's
    rows have no hole.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._arrivals: dict[int, CachedEntry] = {}
        self._of_queue: dict[int, deque[CachedEntry]] = {}
        self._end: dict[int, int] = {}
        """Offsets behind the last one known, by queue."""
        self.size_bytes = 0

    @property
    def queues(self) -> list[int]:
        return list(self._of_queue)

    @property
    def is_full(self) -> bool:
        """Whether an entry like the last might push the oldest out."""
        last = next(reversed(self._arrivals.values()), None)
        return last is not None and self.size_bytes + last.size_bytes > self._size_bytes_max

    @property
    def is_half_full(self) -> bool:
        return 2 * self.size_bytes > self._size_bytes_max

    @property
    def oldest(self) -> CachedEntry | None:
        return next(iter(self._arrivals.values()), None)

    def begin(self, queue: int, end: int) -> None:
        """Keep the rows of this queue from offset ``end`` on."""
        self._of_queue[queue] = deque()
        self._end[queue] = end

    def leave(self, queue: int) -> None:
        self._void(queue, 0)
        del self._of_queue[queue], self._end[queue]

    def limit(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._shrink()

    def take(self, folded: FoldedEntry, data: bytes) -> None:
        spans = self._spans(folded)
        state = folded.state
        for queue, end in self._end.items():
            first, limit = spans.get(queue, (end, end))
            if first != end or limit != state.next_offset(queue):
                # After a repair or entries that were passed over, the next rows do not follow the rows here.
                self._void(queue, state.next_offset(queue))
                spans.pop(queue, None)
        size_bytes = _OVERHEAD_BYTES + entry_bytes(folded, data)
        if size_bytes > self._size_bytes_max // _SHARE_MAX:
            for queue in spans:  # it is read piece by piece from the log
                self._void(queue, state.next_offset(queue))
            return
        if not spans:
            return
        # Only these parts of the state are needed here, and the states of thousands of entries are large.
        slim = replace(folded, state=TopicState(entry=state.entry, store_time_ms=state.store_time_ms, schema=state.schema))
        arrival = CachedEntry(number=state.entry, spans=spans, stored=(slim, data), size_bytes=size_bytes)
        self._arrivals[arrival.number] = arrival
        self.size_bytes += size_bytes
        for queue, (_, limit) in spans.items():
            self._of_queue[queue].append(arrival)
            self._end[queue] = limit
        self._shrink()

    def jump(self, state: TopicState) -> None:
        for queue in self._of_queue:
            self._void(queue, state.next_offset(queue))

    def covering(self, queue: int, start: int, limit: int) -> list[CachedEntry]:
        """The entries with offsets from ``start`` up to ``limit`` (exclusive); empty unless ``start`` is here."""
        arrivals = self._of_queue.get(queue)
        if not arrivals or start < arrivals[0].spans[queue][0]:
            return []
        found: list[CachedEntry] = []
        for at in range(bisect_right(arrivals, start, key=lambda one: one.spans[queue][1]), len(arrivals)):
            if arrivals[at].spans[queue][0] >= limit:
                break
            found.append(arrivals[at])
        return found

    def first_offset(self, queue: int) -> int:
        """The first offset of this queue here, or the next to come."""
        arrivals = self._of_queue[queue]
        return arrivals[0].spans[queue][0] if arrivals else self._end[queue]

    def drop_below(self, queue: int, start: int) -> None:
        arrivals = self._of_queue.get(queue)
        while arrivals and arrivals[0].spans[queue][1] <= start:
            self._drop_first(queue)

    def drop_through(self, queue: int, arrival: CachedEntry) -> None:
        arrivals = self._of_queue.get(queue)
        while arrivals and arrivals[0].number <= arrival.number:
            self._drop_first(queue)

    def decoded(self, arrival: CachedEntry, pieces: dict[int, CachedRows], size_bytes: int) -> None:
        size_bytes += _OVERHEAD_BYTES
        if arrival.number in self._arrivals:
            self.size_bytes += size_bytes - arrival.size_bytes
        arrival.pieces, arrival.stored, arrival.size_bytes = pieces, None, size_bytes
        self._shrink()

    def _shrink(self) -> None:
        while self.size_bytes > self._size_bytes_max and (oldest := self.oldest) is not None:
            for queue in list(oldest.spans):
                self._drop_first(queue)

    def _void(self, queue: int, end: int) -> None:
        while self._of_queue[queue]:
            self._drop_first(queue)
        self._end[queue] = end

    def _drop_first(self, queue: int) -> None:
        arrival = self._of_queue[queue].popleft()
        del arrival.spans[queue]
        if not arrival.spans:
            self.size_bytes -= arrival.size_bytes
            del self._arrivals[arrival.number]

    def _spans(self, folded: FoldedEntry) -> dict[int, tuple[int, int]]:
        spans: dict[int, tuple[int, int]] = {}
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, VoidReason):
                continue
            for queue, count in batch.rows.items():
                if queue in self._of_queue:
                    first, limit = spans.get(queue, (verdict[queue], verdict[queue]))
                    spans[queue] = (first, limit + count)
        return spans
