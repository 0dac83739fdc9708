"""The part of a sync that runs in Spark's tasks: read a range of the topic, fold it, and make typed rows of the fold's result.

Tasks read the topic themselves, so no event crosses into the JVM. The net changes of many rows cross in one piece.
"""

from __future__ import annotations

import gc
import pickle
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ...cdc.changes import Key, Net, Old, finished, merged
from ...cdc.combine import combined, without_rows
from ...cdc.fold import Fold, Folded, Plan, Truncate
from ...cdc.merging import LEVEL, PUT, SINCE
from ...cdc.sources import Source
from ...cdc.targets import POSITION, Target
from ...cdc.types import KEEP, arrow_type
from ..source.task import ReadTask, read
from .history import history_rows
from .steps import NO_STEPS, Steps
from .typed import typed_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_PIECES = "table int, bucket int, piece binary"
_SUMMARY = -1
_ROWS_PER_PIECE = 8_192
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


# --- On the driver --------------------------------------------------------------------------------------------------------------


def pieces(session: SparkSession, scan: Scan) -> DataFrame:
    """The folds of all tasks; net changes of one row lie in one partition."""
    tasks = len(scan.tasks)
    found = session.range(0, tasks, 1, tasks).mapInArrow(partial(_fold_tasks, scan), _PIECES)
    return found.repartitionById(scan.buckets, "bucket") if scan.buckets > 1 else found


def summary(found: DataFrame) -> Taken:
    """The result of all events, without the rows."""
    from pyspark.sql import functions as F

    rows = found.where(F.col("table") == _SUMMARY).select("piece").collect()
    return Taken.of([pickle.loads(row.piece) for row in rows])  # noqa: S301 - our own tasks wrote it


def rows_of(found: DataFrame, scan: Scan, target: Target, truncate: Truncate | None, old: Mapping[Key, Old] | None) -> DataFrame:
    """The net changes of one table, typed: its columns, its position, and what to do with the row they meet.

    ``old``: the target's values of rows that gave their columns to others; None: there are no such rows.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = rows_schema(target, guard=scan.plan.guard)
    mine = found.where(F.col("table") == scan.sources.index(target.source))
    if target.history:
        return history_rows(mine, target, scan.steps)
    if old is not None:
        mine = mine.coalesce(1)  # a row may take its columns from a row of another partition
    typed = partial(_typed_rows, target, schema, None if truncate is None else truncate.position, old, scan.steps)
    return mine.mapInArrow(typed, from_arrow_schema(schema))


def rows_schema(target: Target, *, guard: bool) -> pa.Schema:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in target.columns]
    position = [pa.field(POSITION, pa.int64())] if guard else []
    rest = [pa.field(PUT, pa.bool_()), pa.field(LEVEL, pa.int64()), pa.field(SINCE, pa.list_(pa.int64()))]
    return pa.schema([*fields, *position, *rest])


# --- In a task ------------------------------------------------------------------------------------------------------------------


def _fold_tasks(scan: Scan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            scan.steps.reached("fold", "in", str(number))
            with _no_collector():
                written = list(_written(scan, folded_of(scan, scan.tasks[number], scan.bytes_per_task)))
            yield from written


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch the garbage collector off. It would look at hundreds of thousands of values again and again, none of which is in a cycle."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


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


def _written(scan: Scan, taken: Taken) -> Iterator[pa.RecordBatch]:
    folded = taken.folded
    for number, source in enumerate(scan.sources):
        for bucket, rows in enumerate(_by_bucket(scan.buckets, folded.nets.get(source, ()), lambda one: one[0])):
            yield from _pieces(number, bucket, rows)
        for bucket, versions in enumerate(_by_bucket(scan.buckets, folded.versions.get(source, ()), lambda one: one.key)):
            yield from _pieces(number, bucket, versions)
    yield _piece(_SUMMARY, 0, replace(taken, folded=without_rows(folded)))


def _by_bucket(buckets: int, rows: Sequence[T], key_of: Callable[[T], Key]) -> list[list[T]]:
    """The rows by the hash of their key. A row without a key, a truncate, is in all of them."""
    if buckets == 1:
        return [list(rows)]
    found: list[list[T]] = [[] for _ in range(buckets)]
    for row in rows:
        key = key_of(row)
        for bucket in [zlib.crc32(repr(key).encode()) % buckets] if key else range(buckets):
            found[bucket].append(row)
    return found


def _pieces(table: int, bucket: int, rows: Sequence[object]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), _ROWS_PER_PIECE):
        yield _piece(table, bucket, rows[start : start + _ROWS_PER_PIECE])


def _piece(table: int, bucket: int, content: object) -> pa.RecordBatch:
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return pa.record_batch(
        {"table": pa.array([table], pa.int32()), "bucket": pa.array([bucket], pa.int32()), "piece": pa.array([data], pa.binary())}
    )


def _typed_rows(
    target: Target,
    schema: pa.Schema,
    truncate: int | None,
    old: Mapping[Key, Old] | None,
    steps: Steps,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    steps.reached("merge", "in", target.name)
    nets: dict[Key, Net] = {}
    with _no_collector():
        for batch in batches:
            for piece in batch.column("piece").to_pylist():
                for key, net in pickle.loads(piece):  # noqa: S301 - our own tasks wrote it
                    before = nets.get(key)
                    nets[key] = net if before is None else merged(before, net)
        finished(nets, truncate, old)
        items = list(nets.items())
    for start in range(0, len(items), _ROWS_PER_PIECE):
        yield batch_of(target, schema, items[start : start + _ROWS_PER_PIECE])


def batch_of(target: Target, schema: pa.Schema, items: Sequence[tuple[Key, Net]]) -> pa.RecordBatch:
    rows = [net.values for _, net in items]
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place in target.key_places:
        columns[place] = [key[target.key_places.index(place)] for key, _ in items]
    values = {
        column.name: [None if value is KEEP else value for value in found] if KEEP in found else found
        for column, found in zip(target.columns, columns, strict=True)
    }
    values |= {
        POSITION: [net.position for _, net in items],
        PUT: [net.put for _, net in items],
        LEVEL: [net.level for _, net in items],
        SINCE: [net.since for _, net in items],
    }
    return typed_batch(values, schema)
