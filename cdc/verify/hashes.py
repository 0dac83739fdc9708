"""Hashes of rows and their keys, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xxhash

from .values import ColumnValues

if TYPE_CHECKING:
    import pyarrow as pa

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_NULL, _ODD = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557


def row_hashes(columns: Mapping[str, ColumnValues], names: Sequence[str], rows: int) -> Hashes:
    """One hash a row over the named columns, in any order."""
    sums = np.zeros(rows, np.uint64)
    for name in names:
        seed = np.uint64(xxhash.xxh3_64_intdigest(name.encode()))
        sums += _mixed(_values(columns[name]) ^ seed)
    return _mixed(sums)


def _values(column: ColumnValues) -> Hashes:
    values = column.values
    hashes = _plain(values)
    if values.null_count:
        hashes = np.where(values.is_null().to_numpy(zero_copy_only=False), np.uint64(_NULL), hashes)
    for row, text in column.odd.items():
        hashes[row] = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed=_ODD)
    return hashes


def _plain(values: pa.Array) -> Hashes:
    """The hashes of the values; any number for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = values.type, pa.types
    if types.is_list(kind):
        values = pa.array([None if value is None else repr(value) for value in values.to_pylist()], pa.string())
        kind = values.type
    if types.is_string(kind) or types.is_binary(kind):
        digest, values = xxhash.xxh3_64_intdigest, values.cast(pa.binary())
        return np.fromiter((0 if value is None else digest(value) for value in values.to_pylist()), np.uint64, len(values))
    if types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)[values.offset : values.offset + len(values)]
        return _mixed(words[:, 0]) + words[:, 1]
    if types.is_floating(kind):
        numbers = (
            pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        )  # one of the two zeros, without its sign
        numbers[np.isnan(numbers)] = np.nan  # and one of many NaNs
        return numbers.view(np.uint64)
    if types.is_date(kind):
        values = values.cast(pa.int32())
    return pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)


def _mixed(hashes: Hashes) -> Hashes:
    """Every bit of the result depends on every bit (the finalizer of splitmix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
