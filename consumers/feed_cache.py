"""The last entries of a topic, as far as queues that are consumed here have not taken their rows yet; bounded in bytes."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace

import pyarrow as pa

from ..log.arrivals import entry_bytes
from ..log.fold import Folded, Void
from ..log.state import State

_OVERHEAD_BYTES = 4096
"""What an entry costs in memory beside its bytes."""


@dataclass(slots=True, eq=False)
class Arrival:
    """An entry that the tail has folded: as it was stored until somebody wants its rows, then the rows."""

    number: int
    spans: dict[int, tuple[int, int]]
    """The offsets it brought to each queue that may still want them: the first, and the one behind the last."""
    stored: tuple[Folded, bytes] | None
    size_bytes: int
    rows: dict[int, list[pa.RecordBatch]] | None = None
    """Of each queue, once they are decoded; a queue whose rows cannot be had from here is not in it."""
    loading: asyncio.Task[None] | None = None

    def decoded(self, rows: dict[int, list[pa.RecordBatch]]) -> None:
        """Hold these instead of what was stored."""
        self.rows, self.stored = rows, None
        self.size_bytes = _OVERHEAD_BYTES + sum(map(_size_bytes, rows.values()))


class FeedCache:
    """For each queue a run of consecutive offsets that ends at the topic's tail, in entries shared by all queues.

    The oldest entries fall out first, for all queues alike, so what a queue has here never has a hole.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._arrivals: dict[int, Arrival] = {}
        self._of_queue: dict[int, deque[Arrival]] = {}
        self._end: dict[int, int] = {}
        """Of each queue, the offset behind the last that was taken in or passed over."""
        self.size_bytes = 0

    @property
    def queues(self) -> list[int]:
        """Those whose rows are kept."""
        return list(self._of_queue)

    def begin(self, queue: int, end: int) -> None:
        """Keep the rows of this queue from offset ``end`` on, which is the next to come."""
        self._of_queue[queue] = deque()
        self._end[queue] = end

    def end(self, queue: int) -> None:
        """Keep nothing of this queue any more."""
        while self._of_queue[queue]:
            self._drop_first(queue)
        del self._of_queue[queue], self._end[queue]

    def take(self, folded: Folded, data: bytes) -> None:
        """The entry that the tail has just folded."""
        spans = self._spans(folded)
        state = folded.state
        for queue in self._of_queue:
            first, limit = spans.get(queue, (self._end[queue], self._end[queue]))
            if first != self._end[queue] or limit != state.next_offsets[queue]:
                # A repair, or entries that this process never saw: what comes next does not follow what is here.
                self._void(queue, state.next_offsets[queue])
                spans.pop(queue, None)
        if not spans:
            return
        size_bytes = _OVERHEAD_BYTES + entry_bytes(folded, data)
        if size_bytes > self._size_bytes_max // _SHARE_MAX:
            for queue in spans:  # it is read piece by piece from the log
                self._void(queue, state.next_offsets[queue])
            return
        # Of the state nothing is needed here but these, and the states of thousands of entries are large.
        slim = replace(folded, state=State(entry=state.entry, store_time_ms=state.store_time_ms))
        arrival = Arrival(number=state.entry, spans=spans, stored=(slim, data), size_bytes=size_bytes)
        self._arrivals[arrival.number] = arrival
        self.size_bytes += size_bytes
        for queue, (_, limit) in spans.items():
            self._of_queue[queue].append(arrival)
            self._end[queue] = limit
        self._shrink()

    def jump(self, state: State) -> None:
        """The tail passed entries over and stands at ``state``."""
        for queue in self._of_queue:
            self._void(queue, state.next_offsets[queue])

    def covering(self, queue: int, start: int, limit: int) -> list[Arrival]:
        """The entries that hold offsets from ``start`` up to ``limit`` (exclusive), in order; empty unless ``start`` is here."""
        arrivals = self._of_queue[queue]
        if not arrivals or start < arrivals[0].spans[queue][0]:
            return []
        found: list[Arrival] = []
        for at in range(bisect_right(arrivals, start, key=lambda one: one.spans[queue][1]), len(arrivals)):
            if arrivals[at].spans[queue][0] >= limit:
                break
            found.append(arrivals[at])
        return found

    def forget_below(self, queue: int, start: int) -> None:
        """Drop what this queue has in entries that end at or before ``start``."""
        arrivals = self._of_queue[queue]
        while arrivals and arrivals[0].spans[queue][1] <= start:
            self._drop_first(queue)

    def forget_through(self, queue: int, arrival: Arrival) -> None:
        """Drop what this queue has in entries up to this one, as it cannot be had from here."""
        arrivals = self._of_queue.get(queue, ())
        while arrivals and arrivals[0].number <= arrival.number:
            self._drop_first(queue)

    def decoded(self, arrival: Arrival, rows: dict[int, list[pa.RecordBatch]]) -> None:
        """The rows of an entry are here; of queues that still want them they are kept."""
        before = arrival.size_bytes
        arrival.decoded({queue: of_queue for queue, of_queue in rows.items() if queue in arrival.spans})
        if arrival.number in self._arrivals:
            self.size_bytes += arrival.size_bytes - before
            self._shrink()

    def _shrink(self) -> None:
        while self.size_bytes > self._size_bytes_max:
            oldest = next(iter(self._arrivals.values()))
            for queue in list(oldest.spans):
                self._drop_first(queue)

    def _void(self, queue: int, end: int) -> None:
        while self._of_queue[queue]:
            self._drop_first(queue)
        self._end[queue] = end

    def _drop_first(self, queue: int) -> None:
        arrival = self._of_queue[queue].popleft()
        del arrival.spans[queue]
        before = arrival.size_bytes
        if arrival.rows is not None:
            arrival.size_bytes -= _size_bytes(arrival.rows.pop(queue, []))
        self.size_bytes += arrival.size_bytes - before
        if not arrival.spans:
            self.size_bytes -= arrival.size_bytes
            del self._arrivals[arrival.number]

    def _spans(self, folded: Folded) -> dict[int, tuple[int, int]]:
        spans: dict[int, tuple[int, int]] = {}
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, Void):
                continue
            for queue, count in batch.rows.items():
                if queue in self._of_queue:
                    first, limit = spans.get(queue, (verdict[queue], verdict[queue]))
                    spans[queue] = (first, limit + count)
        return spans


def _size_bytes(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


_SHARE_MAX = 4
"""An entry that is larger than this part of the cache is not kept in it."""
