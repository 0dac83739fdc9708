"""The work of Spark's tasks in a sync: read a range of the topic, fold it, and make typed rows.

Tasks read the topic themselves, so no event enters the JVM. Net changes of many rows enter it in one piece.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from ...cdc.changes import Key, NetChange, TargetRow, finished, merged
from ...cdc.delta.key_ranges import KeyRanges, key_ranges_of, table_of
from ...cdc.fold.fold_result import LastTruncate, without_rows
from ...cdc.sync.backends.fold_tasks import FoldInput, FoldOutput, fold_task, no_collector
from ...cdc.sync.backends.merge_rows import ROWS_PER_BATCH, batch_of, rows_schema
from ...cdc.sync.options import SyncSteps
from ...cdc.target import Target
from ..partitioning import in_partitions
from .history import history_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of one table in tasks, and their keys' ranges."""

    frame: DataFrame
    reach: KeyRanges


_PIECES = "table int, bucket int, piece binary"
_SUMMARY = -1
_ROWS_PER_PIECE = 8_192


# --- On the driver --------------------------------------------------------------------------------------------------------------


def pieces(session: SparkSession, fold_input: FoldInput) -> DataFrame:
    """The folds of all tasks, each row's net changes in one partition."""
    from pyspark.sql import functions as F

    tasks = len(fold_input.tasks)
    found = session.range(0, tasks, 1, tasks).mapInArrow(partial(_fold_tasks, fold_input), _PIECES)
    return in_partitions(found, fold_input.buckets, F.col("bucket")) if fold_input.buckets > 1 else found


def summary(found: DataFrame) -> FoldOutput:
    from pyspark.sql import functions as F

    rows = found.where(F.col("table") == _SUMMARY).select("piece").collect()
    return FoldOutput.of([pickle.loads(row.piece) for row in rows])  # noqa: S301 - our own tasks wrote it


def rows_of(
    found: DataFrame, fold_input: FoldInput, target: Target, truncate: LastTruncate | None, old: Mapping[Key, TargetRow] | None
) -> DataFrame:
    """The typed net changes of one table: columns, position, and the action on the row that they meet.

    ``old``: the target's values of rows that gave their columns to others, if any did.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = rows_schema(target, by_position=fold_input.plan.by_position)
    mine = found.where(F.col("table") == fold_input.sources.index(target.source))
    if target.history:
        return history_rows(mine, target, fold_input.steps)
    if old is not None:
        mine = mine.coalesce(1)  # a row may take its columns from a row of another partition
    typed = partial(_typed_rows, target, schema, None if truncate is None else truncate.position, old, fold_input.steps)
    return mine.mapInArrow(typed, from_arrow_schema(schema, prefer_timestamp_ntz=True))


# --- In a task ------------------------------------------------------------------------------------------------------------------


def _fold_tasks(fold_input: FoldInput, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            fold_input.steps.reached("fold", "in", str(number))
            with no_collector():
                written = list(_written(fold_input, fold_task(fold_input, fold_input.tasks[number], fold_input.bytes_per_task)))
            yield from written


def _written(fold_input: FoldInput, output: FoldOutput) -> Iterator[pa.RecordBatch]:
    folded, reach = output.folded, {}
    for number, source in enumerate(fold_input.sources):
        nets, versions = folded.nets.get(source, ()), folded.versions.get(source, ())
        for bucket, part in enumerate(_by_bucket(fold_input.buckets, nets, lambda one: one[0])):
            yield from _pieces(number, bucket, part)
        for bucket, links in enumerate(_by_bucket(fold_input.buckets, versions, lambda one: one.key)):
            yield from _pieces(number, bucket, links)
        target, keys = fold_input.plan.targets[source], [*(key for key, _ in nets), *(one.key for one in versions if one.key)]
        reach[source] = key_ranges_of(table_of(target, keys), target.key) if keys else {}
    yield _piece(_SUMMARY, 0, replace(output, folded=without_rows(folded), reach=reach))


def _by_bucket(buckets: int, rows: Sequence[T], key_of: Callable[[T], Key]) -> list[list[T]]:
    """The rows by their keys' hash. A row without a key, a truncate, is in each bucket."""
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
    old: Mapping[Key, TargetRow] | None,
    steps: SyncSteps,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    steps.reached("merge", "in", target.name)
    nets: dict[Key, NetChange] = {}
    with no_collector():
        for batch in batches:
            for piece in batch.column("piece").to_pylist():
                for key, net in pickle.loads(piece):  # noqa: S301 - our own tasks wrote it
                    before = nets.get(key)
                    nets[key] = net if before is None else merged(before, net)
        finished(nets, truncate, old)
        items = list(nets.items())
    for start in range(0, len(items), ROWS_PER_BATCH):
        yield batch_of(target, schema, items[start : start + ROWS_PER_BATCH])
