"""The input of a batch: ranges of the topic, read and folded by one task or several."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from ...consumers.ranges.task import ReadTask, read
from ..events.sources import Source
from ..fold.fold import Fold, Folded, Plan, combined
from .options import NO_STEPS, Steps

EVENT = ("queue", "offset", "store_timestamp", "body")


@dataclass(frozen=True, slots=True)
class Scan:
    """The input of the tasks of one batch."""

    tasks: tuple[ReadTask, ...]
    plan: Plan
    buckets: int
    steps: Steps = NO_STEPS
    bytes_max: int | None = None
    """The most bytes of the events' bodies; one event is always taken. None: any number."""

    @property
    def bytes_per_task(self) -> int | None:
        """The most bytes of one of several tasks that do not know of each other."""
        return None if self.bytes_max is None else max(1, self.bytes_max // len(self.tasks))

    @property
    def events(self) -> int:
        """The number of events to be read."""
        return sum(end - start for task in self.tasks for start, end in task.ranges.values())

    @property
    def sources(self) -> list[Source]:
        """The tables, by their numbers."""
        return list(self.plan.targets)


@dataclass(frozen=True, slots=True)
class Taken:
    """The folded events, and how far they reach."""

    folded: Folded
    ends: Mapping[int, int]
    """The event to go on with, by queue: the range's end, or the first event that exceeded the bytes."""
    sizes: Mapping[int, int]
    """The bytes of the bodies that were read, by queue."""

    @classmethod
    def of(cls, parts: Sequence[Taken]) -> Taken:
        """The sum of several tasks' results, without the rows."""
        ends = {queue: end for part in parts for queue, end in part.ends.items()}
        sizes = {queue: size for part in parts for queue, size in part.sizes.items()}
        return cls(combined([part.folded for part in parts]), ends, sizes)

    @property
    def size(self) -> int:
        """The bytes of all queues together."""
        return sum(self.sizes.values())


def folded_of(scan: Scan, task: ReadTask, bytes_max: int | None, *, before: int = 0) -> Taken:
    """Fold a task's events, up to ``bytes_max`` bytes of bodies. The first event is always taken, unless bytes were taken ``before``."""
    fold = Fold(scan.plan)
    ends = {queue: start for queue, (start, _) in task.ranges.items()}
    sizes = dict.fromkeys(ends, 0)
    taken = before
    with closing(_events(task)) as events:
        for queue, offset, time_us, body in events:
            size = len(body or b"")
            if bytes_max is not None and taken and taken + size > bytes_max:
                return Taken(fold.result(), ends, sizes)
            taken += size or 1  # an event without a body counts too
            sizes[queue] += size
            ends[queue] = offset + 1
            fold.add(queue, offset, body, time_us)
    return Taken(fold.result(), {queue: limit for queue, (_, limit) in task.ranges.items()}, sizes)


def _events(task: ReadTask) -> Generator[tuple[int, int, int, bytes], None, None]:
    with closing(read(task)) as batches:
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in _event_columns(batch)), strict=True)


def _event_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    return [
        column.cast(pa.int64()) if name == "store_timestamp" else column for name, column in zip(EVENT, batch.columns, strict=True)
    ]
