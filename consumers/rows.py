"""Batches of messages, as consumers look at them: whole columns at a time, never row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ..coordinator.offsets import OffsetSet
from ..log.errors import InternalError, OffsetOutOfRange


def group_hash(group: str | None) -> int:
    """What a queue's cell knows a message group by: XXH64 of its UTF-8 bytes, never 0; 0 stands for messages without a group."""
    return 0 if group is None else xxhash.xxh64_intdigest(group.encode()) or 1


def missing_of(kept: pa.RecordBatch, start: int, limit: int) -> OffsetSet:
    """Of the offsets from ``start`` up to ``limit``, those that a filter did not keep."""
    if kept.num_rows == limit - start:
        return OffsetSet()
    passed = np.isin(np.arange(start, limit), kept.column("offset").to_numpy())
    return OffsetSet.of_offsets((np.flatnonzero(~passed) + start).tolist())


def gone(where: str, start: int, earliest: int) -> OffsetOutOfRange:
    """Messages were gone by retention before the group had them."""
    return OffsetOutOfRange(
        "messages are gone by retention before the group had them",
        operation="consume",
        object=where,
        expected=f"offset {start}",
        observed=f"offsets {start} to {earliest - 1} are gone",
        hint="consume with on_expired='skip', or reset the group to where it is to go on",
    )


def cut(batch: pa.RecordBatch, *, rows_max: int, bytes_max: int) -> pa.RecordBatch:
    """The first rows, as many as both limits allow, and one at least."""
    batch = batch.slice(0, rows_max)
    if batch.num_rows <= 1 or (size_bytes := batch.nbytes) <= bytes_max:
        return batch
    bodies = np.cumsum(pc.binary_length(batch.column("body")).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    other_bytes = max(0, size_bytes - int(bodies[-1])) / batch.num_rows
    ends = bodies + other_bytes * np.arange(1, batch.num_rows + 1)
    return batch.slice(0, max(1, int(np.searchsorted(ends, bytes_max, side="right"))))


def check_dense(batch: pa.RecordBatch, queue: int, start: int) -> None:
    """Raise `InternalError` unless these are the rows of ``queue`` from ``start`` on, none missing and none twice."""
    offsets = batch.column("offset").to_numpy()
    of_queue = bool((batch.column("queue").to_numpy() == queue).all())
    if not of_queue or int(offsets[0]) != start or not bool((np.diff(offsets) == 1).all()):
        raise InternalError(
            "rows of a queue are not dense",
            operation="fetch",
            object=f"queue {queue}",
            expected=f"offsets from {start} on",
            observed=f"{batch.num_rows} rows, offsets {offsets[0]} to {offsets[-1]}",
        )
