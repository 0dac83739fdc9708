"""Compares log and table, neither of which is ever wholly in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...paths import TopicPaths
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectStore
from ..delta.scan import scan_queue
from ..delta.segments import queue_slices
from ..delta.snapshot import Snapshot
from .row_hash import RowHash


@dataclass(frozen=True, slots=True)
class RangeDifference:
    """Offsets on which log and table disagree."""

    queue: int
    first_offset: int
    limit_offset: int
    log_rows: int
    table_rows: int


@dataclass(frozen=True, slots=True)
class RangeComparison:
    """The result of a comparison."""

    rows: int
    differences: tuple[RangeDifference, ...]


class Agreement:
    """Compares given rows of the log with the table's, but for expired rows and those that the table names as lost."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._snapshot = snapshot
        self._queues: dict[int, _Queue] = {}

    async def take(self, rows: pa.Table) -> None:
        """Add rows of the log, by queue and offset."""
        await self._runtime.offload(lambda: self._hash(rows))

    async def finish(self) -> RangeComparison:
        taken = sorted(self._queues.items())
        differences = [found for queue, ours in taken if (found := await self._difference(queue, ours)) is not None]
        return RangeComparison(sum(ours.rows.rows for _, ours in taken), tuple(differences))

    def _hash(self, rows: pa.Table) -> None:
        for queue, some in queue_slices(rows):
            offsets = some.column("offset").to_numpy()
            excepted = _within(offsets, [(0, self._snapshot.start(queue)), *self._snapshot.lost(queue)])
            if excepted.any():
                some, offsets = some.filter(pa.array(~excepted)), offsets[~excepted]
            if len(offsets):
                ours = self._queues.setdefault(queue, _Queue())
                ours.rows.update(some)
                ours.offsets.append(offsets)

    async def _difference(self, queue: int, ours: _Queue) -> RangeDifference | None:
        offsets = np.concatenate(ours.offsets)
        first, limit = int(offsets[0]), int(offsets[-1]) + 1
        theirs = RowHash()
        async for batch in scan_queue(self._store, self._paths, self._snapshot, queue, first, limit, runtime=self._runtime):
            await self._runtime.offload(lambda some=batch: theirs.update(_only(some, offsets)))  # type: ignore[misc]
        if (ours.rows.rows, ours.rows.hexdigest()) == (theirs.rows, theirs.hexdigest()):
            return None
        return RangeDifference(queue, first, limit, ours.rows.rows, theirs.rows)


Offsets: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Queue:
    rows: RowHash = field(default_factory=RowHash)
    offsets: list[Offsets] = field(default_factory=list)


def _only(batch: pa.RecordBatch, offsets: Offsets) -> pa.RecordBatch:
    mine = batch.column("offset").to_numpy()
    known = offsets[np.minimum(np.searchsorted(offsets, mine), len(offsets) - 1)] == mine
    return batch if known.all() else batch.filter(pa.array(known))


def _within(offsets: Offsets, ranges: Iterable[tuple[int, int]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    inside = np.zeros(len(offsets), dtype=bool)
    for first, limit in ranges:
        inside |= (offsets >= first) & (offsets < limit)
    return inside
