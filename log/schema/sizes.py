"""The sizes of a column's rows, to name one that is too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .stored_columns import FlattenedParts

Sizes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def largest_row_bytes(column: pa.Array) -> int:
    """A quick upper bound for the bytes of each value."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(largest_row_bytes(column.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        longest = int(np.diff(np.asarray(column.offsets)).max(initial=0))
        children = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        return longest * sum(map(largest_row_bytes, children))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.max(pc.binary_length(column)).as_py() or 0
    return -(-kind.bit_width // 8)


def row_bytes(column: pa.Array) -> Sizes:
    """Texts and bytes by length, numbers by width."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _sum([row_bytes(part) for part in column.flatten()], len(column))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        flat = FlattenedParts(column)
        children = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        sizes = _sum([row_bytes(flat.of(child)) for child in children], len(flat.owners))
        return np.bincount(flat.owners, weights=sizes, minlength=len(column)).astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
    return np.full(len(column), -(-kind.bit_width // 8), np.int64)


def _sum(parts: Sequence[Sizes], count: int) -> Sizes:
    sizes = np.zeros(count, np.int64)
    for part in parts:
        sizes += part
    return sizes
