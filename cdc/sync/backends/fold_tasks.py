"""The work of a batch: ranges of the topic, read and folded by one task or several."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ....consumers.ranges.planned_columns import PlannedSchema
from ....consumers.ranges.task import ReadTask, read
from ....log.errors import InvalidArgument
from ....log.message.message import VALUE
from ...delta.key_ranges import KeyRanges, joined_ranges
from ...events.sources import TableId
from ...events.typed_events import TypedEvent, is_of_events, typed_events
from ...fold.fold import Fold, TargetResolver
from ...fold.fold_result import FoldResult, combined
from ...fold.plan import FoldPlan
from ..options import NO_STEPS, SyncSteps

_PLACE = ("queue", "offset", "store_timestamp")
EVENT = (*_PLACE, "message_group", "key", "body")
TYPED_EVENT = (*_PLACE, VALUE)


@dataclass(frozen=True, slots=True)
class FoldInput:
    """The input of one batch's tasks."""

    tasks: tuple[ReadTask, ...]
    plan: FoldPlan
    buckets: int
    steps: SyncSteps = NO_STEPS
    bytes_max: int | None = None
    """The limit on the bytes of bodies or rows; one event is always taken."""

    @property
    def bytes_per_task(self) -> int | None:
        return None if self.bytes_max is None else max(1, self.bytes_max // len(self.tasks))

    @property
    def events(self) -> int:
        return sum(end - start for task in self.tasks for start, end in task.ranges.values())

    @property
    def sources(self) -> list[TableId]:
        return list(self.plan.targets)


@dataclass(frozen=True, slots=True)
class FoldOutput:
    """The folded events of a batch."""

    folded: FoldResult
    ends: Mapping[int, int]
    """The next event by queue: the range's end, or the first beyond the bytes."""
    sizes: Mapping[int, int]
    """The bytes read, by queue."""
    reach: Mapping[TableId, KeyRanges] = field(default_factory=dict)
    """The keys of the rows that tasks keep to themselves, by table."""

    @classmethod
    def of(cls, parts: Sequence[FoldOutput]) -> FoldOutput:
        ends = {queue: end for part in parts for queue, end in part.ends.items()}
        sizes = {queue: size for part in parts for queue, size in part.sizes.items()}
        reach = {source: joined_ranges(part.reach.get(source, {}) for part in parts) for part in parts for source in part.reach}
        return cls(combined([part.folded for part in parts]), ends, sizes, reach)

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


def events_planned(planned: PlannedSchema | None, topic: str) -> PlannedSchema | None:
    """The schema of a topic of change events, if it has one. Raises `InvalidArgument` for other rows."""
    if planned is not None and not is_of_events(planned.schema.arrow):
        raise InvalidArgument(
            "the topic's rows are no change events",
            operation="sync",
            object=topic,
            expected="the fields that `penstock capture postgres --typed` makes, or a topic of Debezium's envelopes",
            observed=planned.schema.ddl,
        )
    return planned


def fold_task(
    fold_input: FoldInput, task: ReadTask, bytes_max: int | None, *, before: int = 0, resolve_target: TargetResolver | None = None
) -> FoldOutput:
    """Fold a task's events, up to ``bytes_max`` bytes of bodies. One event is always taken, unless bytes were taken ``before``."""
    fold = Fold(fold_input.plan, resolve_target)
    ends = {queue: start for queue, (start, _) in task.ranges.items()}
    sizes = dict.fromkeys(ends, 0)
    taken = before
    with closing(events_of(task)) as events:
        for queue, offset, time_us, key, body, size in events:
            if bytes_max is not None and taken and taken + size > bytes_max:
                return FoldOutput(fold.result(), ends, sizes)
            taken += size or 1  # an event without a body counts too
            sizes[queue] += size
            ends[queue] = offset + 1
            fold.add(queue, offset, body, time_us, key)
    return FoldOutput(fold.result(), {queue: limit for queue, (_, limit) in task.ranges.items()}, sizes)


@contextmanager
def no_collector() -> Iterator[None]:
    """Switch the garbage collector off: it would visit hundreds of thousands of values, none in a cycle."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def events_of(task: ReadTask) -> Generator[tuple[int, int, int, bytes | None, bytes | TypedEvent | None, int], None, None]:
    """Queue, offset, store time, key, content and size of each event."""
    with closing(read(task)) as batches:
        for batch in batches:
            places = (batch.column(name).to_pylist() for name in ("queue", "offset"))
            times = batch.column("store_timestamp").cast(pa.int64()).to_pylist()
            yield from zip(*places, times, _keys(batch), *_contents(batch), strict=True)


def _keys(batch: pa.RecordBatch) -> Iterable[bytes | None]:
    """The messages' keys that may be a row's: an object of JSON, which is the message group where it can be one."""
    if VALUE in batch.schema.names:
        return [None] * batch.num_rows
    keys = pc.coalesce(batch.column("key"), batch.column("message_group").cast(pa.binary()))
    objects = pc.starts_with(keys, "{")
    return pc.if_else(objects, keys, pa.scalar(None, pa.binary())).to_pylist() if pc.any(objects).as_py() else [None] * len(keys)


def _contents(batch: pa.RecordBatch) -> tuple[Iterable[bytes | TypedEvent | None], Iterable[int]]:
    if VALUE in batch.schema.names:
        value = batch.column(VALUE)
        return typed_events(value), [-(-value.nbytes // max(1, len(value)))] * len(value)
    bodies = batch.column("body")
    return bodies.to_pylist(), pc.binary_length(bodies).fill_null(0).to_pylist()
