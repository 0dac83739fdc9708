"""Rows into partitions by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .versions import REPARTITION_BY_ID, has

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SEED = 42
_MASK = 0xFFFFFFFF


def in_partitions(df: DataFrame, partitions: int, number: Column) -> DataFrame:
    """``df`` with each row in the partition of ``number``, an int below ``partitions``."""
    if has(REPARTITION_BY_ID):
        return df.repartitionById(partitions, number)
    return hash_partitioned(df, partitions, number)


def hash_partitioned(df: DataFrame, partitions: int, number: Column) -> DataFrame:
    from pyspark.sql import functions as F

    return df.repartition(partitions, F.get(F.array(*map(F.lit, values(partitions))), number))


def values(partitions: int) -> list[int]:
    """An int for each partition, which Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < partitions:
        found.setdefault(hash_of(value) % partitions, value)
        value += 1
    return [found[partition] for partition in range(partitions)]


def hash_of(value: int) -> int:
    """Murmur3 of four bytes, as a signed number."""
    mixed = _rotated((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
