"""Record batches that clients may fetch again: as they were produced, or made of rows that were read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ....log.limits import MIB

CACHE_BYTES_MAX: Final = 96 * MIB


class TopicPartition(NamedTuple):
    """A queue of one life of a topic."""

    incarnation: str
    queue: int


class CachedBatch(NamedTuple):
    """A batch at its place."""

    base_offset: int
    limit_offset: int
    """The offset behind its last record."""
    data: bytes


@dataclass(slots=True)
class _Run:
    """Cached batches of one partition, by offset. There may be gaps, and no overlaps."""

    bases: list[int] = field(default_factory=list)
    batches: list[CachedBatch] = field(default_factory=list)


class BatchCache:
    """The batches of all partitions, of which the ones that came first go first."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._runs: defaultdict[TopicPartition, _Run] = defaultdict(_Run)
        self._order: deque[tuple[TopicPartition, int, int]] = deque()
        """Partition, base offset and bytes of each batch, in the order of coming."""
        self.size_bytes = 0

    def add(self, partition: TopicPartition, batch: CachedBatch) -> None:
        """Keep a batch, unless one that is kept has some of its offsets."""
        run = self._runs[partition]
        at = bisect_left(run.bases, batch.base_offset)
        overlaps_before = at > 0 and run.batches[at - 1].limit_offset > batch.base_offset
        if overlaps_before or (at < len(run.bases) and run.bases[at] < batch.limit_offset):
            return
        run.bases.insert(at, batch.base_offset)
        run.batches.insert(at, batch)
        self._order.append((partition, batch.base_offset, len(batch.data)))
        self.size_bytes += len(batch.data)
        while self.size_bytes > self._bytes_max:
            self._drop_first()

    def from_offset(self, partition: TopicPartition, offset: int) -> Iterator[CachedBatch]:
        """The batch with this offset, and those that follow it without a gap."""
        run = self._runs.get(partition)
        if run is None:
            return
        at = bisect_right(run.bases, offset) - 1
        if at < 0 or run.batches[at].limit_offset <= offset:
            return
        expected = run.bases[at]
        while at < len(run.bases) and run.bases[at] == expected:
            batch = run.batches[at]
            yield batch
            expected, at = batch.limit_offset, at + 1

    def next_base(self, partition: TopicPartition, offset: int) -> int | None:
        """Where the first cached batch behind an offset begins; None: there is none."""
        run = self._runs.get(partition)
        if run is None:
            return None
        at = bisect_right(run.bases, offset)
        return run.bases[at] if at < len(run.bases) else None

    def _drop_first(self) -> None:
        partition, base_offset, size_bytes = self._order.popleft()
        run = self._runs[partition]
        at = bisect_left(run.bases, base_offset)
        del run.bases[at], run.batches[at]
        if not run.bases:
            del self._runs[partition]
        self.size_bytes -= size_bytes
