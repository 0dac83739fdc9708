"""How large each row of a column is, so that one that is too large is named."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .stored import Flat

Sizes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def row_bytes(column: pa.Array) -> Sizes:
    """The bytes of each value: those of its texts and bytes, and of its numbers by their width."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = [row_bytes(part) for part in column.flatten()]
        return np.sum(parts, axis=0, dtype=np.int64) if parts else np.zeros(len(column), np.int64)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        flat = Flat(column)
        children = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        sizes = np.sum([row_bytes(flat.of(child)) for child in children], axis=0, dtype=np.int64)
        return np.bincount(flat.owners, weights=sizes, minlength=len(column)).astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
    return np.full(len(column), -(-kind.bit_width // 8), np.int64)
