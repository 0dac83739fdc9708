"""A hash over rows that does not depend on how the rows are cut into batches.

Every column is a few streams: which rows are null, lengths, values. So a run of rows has the same digest whether it comes from a log
entry, a table file or a compaction. Any change of a value, of a null or of the order changes the digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ...message.message import MESSAGE_SCHEMA


class RowHash:
    """A hash of rows with `MESSAGE_SCHEMA`, in their order over all columns."""

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, xxhash.xxh3_128] = {}

    def update(self, rows: pa.RecordBatch | pa.Table) -> None:
        self.rows += rows.num_rows
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            for name in MESSAGE_SCHEMA.names:
                self._add(name, batch.column(name))

    def hexdigest(self) -> str:
        parts = [f"{name} {stream.hexdigest()}" for name, stream in sorted(self._streams.items())]
        return xxhash.xxh3_128_hexdigest("\n".join([str(self.rows), *parts]).encode())

    def _add(self, name: str, column: pa.Array) -> None:
        kind = column.type
        self._feed(f"{name}.valid", column.is_valid().to_numpy(zero_copy_only=False))
        if pa.types.is_list(kind) or pa.types.is_map(kind):
            start, limit = self._lengths(name, column.offsets.to_numpy())
            children = {"keys": column.keys, "items": column.items} if pa.types.is_map(kind) else {"values": column.values}
            for child, values in children.items():
                self._add(f"{name}.{child}", values.slice(start, limit - start))
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            _, offsets, data = column.buffers()
            if len(column):
                ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
                start, limit = self._lengths(name, ends)
                self._feed(name, np.frombuffer(data or b"", dtype=np.uint8)[start:limit])
        else:
            plain = column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column
            self._feed(name, (pc.fill_null(plain, 0) if plain.null_count else plain).to_numpy(zero_copy_only=False))

    def _lengths(self, name: str, ends: np.ndarray[Any, Any]) -> tuple[int, int]:
        self._feed(f"{name}.lengths", np.diff(ends))
        return (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)

    def _feed(self, stream: str, data: np.ndarray[Any, Any]) -> None:
        if len(data):
            self._streams.setdefault(stream, xxhash.xxh3_128()).update(np.ascontiguousarray(data).data)


def row_digest(rows: Iterable[pa.RecordBatch | pa.Table]) -> tuple[int, str]:
    """The number and the digest of these rows."""
    hasher = RowHash()
    for some in rows:
        hasher.update(some)
    return hasher.rows, hasher.hexdigest()
