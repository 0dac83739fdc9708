"""A hash over rows, independent of their cut into batches.

Any change of a value, a null or the order changes the digest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ...message.message import MESSAGE_SCHEMA, RARE, VALUE
from ...schema.stored_columns import FlattenedParts

_COLUMNS = tuple(name for name in MESSAGE_SCHEMA.names if name not in RARE)
"""The columns of all files."""


class RowHash:
    """A hash of rows with `MESSAGE_SCHEMA`, in order."""

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, xxhash.xxh3_128] = {}
        self._sparse: dict[str, _Sparse] = {}

    def update(self, rows: pa.RecordBatch | pa.Table) -> None:
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            for name in _COLUMNS:
                self._add(name, batch.column(name))
            for name in (*RARE, VALUE):
                if name in batch.schema.names:
                    self._sparse.setdefault(name, _Sparse(name, self._feed)).add(batch.column(name), self.rows)
            self.rows += batch.num_rows

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


class _Sparse:
    """Hashes a column that files may lack, or whose type may be wider or narrower. A missing field equals NULL in all rows, and an integer of 32 bits
    one of 64.
    """

    def __init__(self, name: str, feed: Callable[[str, np.ndarray[Any, Any]], None]) -> None:
        self._name = name
        self._feed = feed
        self._parts: dict[str, _Sparse] = {}
        self._below = 0

    def add(self, column: pa.Array, first: int) -> None:
        if column.null_count == len(column):
            return
        valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        self._feed(f"{self._name} at", valid + first)
        kind = column.type
        if pa.types.is_struct(kind):
            for field, part in zip(kind, column.flatten(), strict=True):
                self._part(field.name).add(part, first)
            return
        present = column if len(valid) == len(column) else column.take(pa.array(valid))
        if pa.types.is_list(kind) or pa.types.is_map(kind):
            flat = FlattenedParts(present)
            self._feed(f"{self._name} lengths", np.diff(np.asarray(flat.offsets)).astype(np.int32))
            parts = {"key": present.keys, "value": present.items} if pa.types.is_map(kind) else {"element": present.values}
            for name, values in parts.items():
                self._part(name).add(flat.of(values), self._below)
            self._below += len(flat.owners)
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            ends = np.frombuffer(present.buffers()[1], np.int32)[present.offset : present.offset + len(present) + 1]
            self._feed(f"{self._name} lengths", np.diff(ends))
            self._feed(self._name, np.frombuffer(present.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])])
        else:
            self._feed(self._name, _widest(present))

    def _part(self, name: str) -> _Sparse:
        return self._parts.setdefault(name, _Sparse(f"{self._name}.{name}", self._feed))


def _widest(column: pa.Array) -> np.ndarray[Any, Any]:
    """Bytes that do not depend on the width of the type."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return np.frombuffer(column.buffers()[1], np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    if pa.types.is_floating(kind):
        # Widened floats that are no numbers would differ in their bits.
        wide = column.cast(pa.float64()).to_numpy()
        return np.where(np.isnan(wide), np.nan, wide)
    if pa.types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    return column.cast(pa.int64()).to_numpy()
