"""The keys of a batch in a few ranges, for merges that read fewer files. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.schema.arrow_types import arrow_type
from ..changes import Key
from ..target import Target

Range: TypeAlias = tuple[Any, Any]
KeyRanges: TypeAlias = Mapping[str, Sequence[Range]]
"""The ranges of a batch's keys by column, in order and apart from each other. No column: nothing is known."""

RANGES_MAX = 16
"""The most ranges of a column, as every row is compared with each."""
_GAP = 100
"""The least part of the whole that divides a range. Evenly scattered keys stay one range."""


def key_ranges_of(rows: pa.Table, key: Sequence[str]) -> KeyRanges:
    """Several ranges for integers with gaps between them; else the least and the greatest key."""
    return {name: _ranges_of(rows.column(name)) for name in key} if rows.num_rows else {}


def table_of(target: Target, keys: Iterable[Key]) -> pa.Table:
    types = [arrow_type(target.columns[place].type) for place in target.key_places]
    columns = zip(target.key, zip(*keys, strict=True), types, strict=True)
    return pa.table({name: pa.array(values, kind) for name, values, kind in columns})


def joined_ranges(reaches: Iterable[KeyRanges]) -> KeyRanges:
    known = [reach for reach in reaches if reach]
    return {name: _joined([one for reach in known for one in reach[name]]) for name in (known[0] if known else ())}


def _ranges_of(values: pa.ChunkedArray) -> Sequence[Range]:
    low, high = pc.min_max(values).as_py().values()
    if not pa.types.is_integer(values.type) or low == high:
        return [(low, high)]
    numbers = np.unique(values.to_numpy()).astype(np.int64)
    gaps = np.diff(numbers.view(np.uint64))  # right also where the difference of two int64 is none
    wide = np.flatnonzero(gaps >= _gap_min(low, high))
    return _few([low, *numbers[wide + 1].tolist()], [*numbers[wide].tolist(), high])


def _joined(ranges: Sequence[Range]) -> Sequence[Range]:
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    if not isinstance(low, int):
        return [(low, high)]
    starts, ends, reached = [low], [], low
    for start, end in sorted(ranges):
        if start - reached >= _gap_min(low, high):
            ends.append(reached)
            starts.append(start)
        reached = max(reached, end)
    return _few(starts, [*ends, high])


def _gap_min(low: int, high: int) -> int:
    return max(2, (high - low) // _GAP)


def _few(starts: Sequence[int], ends: Sequence[int]) -> Sequence[Range]:
    gaps = sorted(range(1, len(starts)), key=lambda place: starts[place] - ends[place - 1])
    kept = sorted(gaps[-(RANGES_MAX - 1) :])
    return [(starts[first], ends[last - 1]) for first, last in zip([0, *kept], [*kept, len(starts)], strict=True)]
