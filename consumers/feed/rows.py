"""Batches of messages as consumers look at them: whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...coordinator.queues.offsets import OffsetSet
from ...log.errors import InternalError, OffsetOutOfRange

_PURPOSE = b"message group"
_KNOWN_MAX = 1 << 16


def group_hash(group: str | None, secret: str) -> int:
    """A message group's number in a queue's cell: 64 bits of BLAKE2b of its UTF-8 bytes, keyed with the consumer group's secret, never 0; 0: no
    group.

    Senders cannot make two names collide. Two with one hash are one group here, in order.
    """
    if group is None:
        return 0
    key = bytes.fromhex(secret)
    return int.from_bytes(blake2b(group.encode(), digest_size=8, key=key, person=_PURPOSE).digest(), "little") or 1


class GroupHashes:
    """Hashes, remembered up to a bound."""

    def __init__(self, secret: str = "") -> None:
        """``secret`` is the consumer group's."""
        self._secret = secret
        self._known: dict[str | None, int] = {}

    def of(self, group: str | None) -> int:
        found = self._known.get(group)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[group] = group_hash(group, self._secret)
        return found

    def of_all(self, groups: Iterable[str | None]) -> list[int]:
        """The same for many, in their order."""
        known = self._known
        return [known.get(group) or self.of(group) for group in groups]


def missing_of(kept: pa.RecordBatch, start: int, limit: int) -> OffsetSet:
    """Offsets that a filter did not keep."""
    if kept.num_rows == limit - start:
        return OffsetSet()
    passed = np.isin(np.arange(start, limit), kept.column("offset").to_numpy())
    return OffsetSet.of_offsets((np.flatnonzero(~passed) + start).tolist())


def gone(where: str, start: int, earliest: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        "messages are gone by retention before the group had them",
        operation="consume",
        object=where,
        expected=f"offset {start}",
        observed=f"offsets {start} to {earliest - 1} are gone",
        hint="consume with on_expired='skip', or reset the group to where it is to go on",
    )


def cut(batch: pa.RecordBatch, *, rows_max: int, bytes_max: int) -> pa.RecordBatch:
    """The first rows within both limits, at least one."""
    batch = batch.slice(0, rows_max)
    if batch.num_rows <= 1 or (size_bytes := batch.nbytes) <= bytes_max:
        return batch
    bodies = np.cumsum(pc.binary_length(batch.column("body")).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    other_bytes = max(0, size_bytes - int(bodies[-1])) / batch.num_rows
    ends = bodies + other_bytes * np.arange(1, batch.num_rows + 1)
    return batch.slice(0, max(1, int(np.searchsorted(ends, bytes_max, side="right"))))


def check_dense(batch: pa.RecordBatch, queue: int, start: int) -> None:
    """Raise `InternalError` unless these are all rows of ``queue`` from ``start`` on, in order."""
    offsets = batch.column("offset").to_numpy()
    queues = batch.column("queue").to_numpy()
    dense = offsets.tobytes() == np.arange(start, start + len(offsets)).tobytes()  # quicker than numpy's comparison of few rows
    if not dense or queues.tobytes() != np.full(len(queues), queue, np.int32).tobytes():
        raise InternalError(
            "rows of a queue are not dense",
            operation="fetch",
            object=f"queue {queue}",
            expected=f"offsets from {start} on",
            observed=f"{batch.num_rows} rows, offsets {offsets[0]} to {offsets[-1]}",
        )
