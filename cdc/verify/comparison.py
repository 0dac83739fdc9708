"""The comparison of one table, in up to three readings of either side, with bounded memory.

1. Counts and sums of row hashes, by ranges of the keys' hashes. Equal tables end here. 2. Of the ranges that differ, key and row hash of
every row, 16 bytes each: which rows are missing, extra or different. 3. The first of those, to be shown.

Ranges of hashes need no sorting. Two rows whose hashes collide (64 bits) would count as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ...log.errors import InvalidArgument
from .hashes import Hashes, row_hashes
from .rows import Rows
from .values import ColumnValues, as_column, comparable

if TYPE_CHECKING:
    import pyarrow as pa

_RANGE_BITS = 12
_METADATA_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row that differs."""

    kind: Literal["missing", "extra", "different"]
    key: Mapping[str, Any]
    columns: Mapping[str, tuple[Any, Any]]
    """The source's value and the target's by column: differing ones, or all of an extra or missing row."""


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The result of a comparison."""

    table: str
    key: tuple[str, ...]
    source_rows: int
    target_rows: int
    missing: int
    """Rows whose key only the source has."""
    extra: int
    """Rows whose key only the target has, and those extra_rows the first of a key."""
    different: int
    """Rows with the right key and another value."""
    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    differences: tuple[RowDifference, ...]
    """The first few of every kind."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different or self.source_columns or self.target_columns)


class _Side(NamedTuple):
    rows: Rows
    types: Mapping[str, pa.DataType]
    empty_is_null: bool

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, ColumnValues]]]:
        import pyarrow as pa

        for batch in self.rows.batches(names):
            columns = {}
            for name in names:
                found = batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)
                columns[name] = as_column(found, self.types[name], empty_is_null=self.empty_is_null)
            yield batch.num_rows, columns


def compare(
    source: Rows,
    target: Rows,
    schema: pa.Schema,
    key: Sequence[str],
    *,
    ignore: Sequence[str] = (),
    examples: int = 10,
    empty_is_null: bool = False,
) -> TableComparison:
    """Compare a source with a target whose columns are ``schema``, row by row with the same ``key``.

    Columns that begin with ``__`` are the sync's own and are not compared, nor are those in ``ignore``. ``empty_is_null``: the source
    cannot tell an empty text from NULL. Raises `InvalidArgument` when a key column is missing on either side.
    """
    passed_over = {name for name in schema.names if name.startswith(_METADATA_PREFIX)} | {*ignore}
    _check_key(f"target {target.name}", key, schema.names)
    given = [name for name in source.columns() if name not in passed_over]
    _check_key(f"source {source.name}", key, given)
    wanted = [name for name in schema.names if name not in passed_over]
    names = [name for name in wanted if name in given]
    types = {name: comparable(schema.field(name).type) for name in names}
    sides = _Side(source, types, empty_is_null), _Side(target, types, empty_is_null)

    (source_rows, source_sums), (target_rows, target_sums) = (_sums(side, names, key) for side in sides)
    differing = np.flatnonzero((source_sums != target_sums).any(axis=0)).astype(np.uint64)
    found = _Found()
    differences: list[RowDifference] = []
    if len(differing):
        found = _judged(*(_hashes_in(side, names, key, differing) for side in sides))
        differences = _shown(sides, names, key, found, examples)
    return TableComparison(
        table=target.name,
        key=tuple(key),
        source_rows=source_rows,
        target_rows=target_rows,
        missing=len(found.missing),
        extra=len(found.extra),
        different=len(found.different),
        source_columns=tuple(name for name in given if name not in wanted),
        target_columns=tuple(name for name in wanted if name not in given),
        differences=tuple(differences),
    )


def _check_key(table: str, key: Sequence[str], columns: Sequence[str]) -> None:
    if missing_rows := [name for name in key if name not in columns]:
        raise InvalidArgument(
            "a column of the key is missing",
            operation="compare",
            object=table,
            expected=", ".join(key),
            observed=f"no {', '.join(missing_rows)} among {', '.join(columns) or 'no columns'}",
            hint="name the columns of the primary key with --key",
        )


def _hashed(side: _Side, names: Sequence[str], key: Sequence[str]) -> Iterator[tuple[Hashes, Hashes, dict[str, ColumnValues]]]:
    for rows, columns in side.read(names):
        yield row_hashes(columns, key, rows), row_hashes(columns, names, rows), columns


def _sums(side: _Side, names: Sequence[str], key: Sequence[str]) -> tuple[int, Hashes]:
    rows, sums = 0, np.zeros((2, 1 << _RANGE_BITS), np.uint64)
    for keys, hashes, _ in _hashed(side, names, key):
        ranges = _range_of(keys)
        np.add.at(sums[0], ranges, np.uint64(1))
        np.add.at(sums[1], ranges, hashes)
        rows += len(keys)
    return rows, sums


def _range_of(keys: Hashes) -> Hashes:
    return keys >> np.uint64(64 - _RANGE_BITS)


def _hashes_in(side: _Side, names: Sequence[str], key: Sequence[str], ranges: Hashes) -> tuple[Hashes, Hashes]:
    all_keys, all_hashes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for keys, hashes, _ in _hashed(side, names, key):
        inside = np.isin(_range_of(keys), ranges)
        all_keys.append(keys[inside])
        all_hashes.append(hashes[inside])
    return np.concatenate(all_keys), np.concatenate(all_hashes)


class _Found(NamedTuple):
    """The hashes of keys by the kind of difference, one for each row."""

    missing: Sequence[int] = ()
    extra: Sequence[int] = ()
    different: Sequence[int] = ()


def _judged(source: tuple[Hashes, Hashes], target: tuple[Hashes, Hashes]) -> _Found:
    left, right = _less(source, target), _less(target, source)
    keys = np.unique(np.concatenate([left, right]))
    missing_rows = np.searchsorted(left, keys, "right") - np.searchsorted(left, keys, "left")
    extra_rows = np.searchsorted(right, keys, "right") - np.searchsorted(right, keys, "left")
    both = np.minimum(missing_rows, extra_rows)
    missing, extra, different = (np.repeat(keys, n).tolist() for n in (missing_rows - both, extra_rows - both, both))
    return _Found(missing, extra, different)


def _less(one: tuple[Hashes, Hashes], other: tuple[Hashes, Hashes]) -> Hashes:
    rows, place, times = np.unique(one[1], return_index=True, return_counts=True)
    others, other_times = np.unique(other[1], return_counts=True)
    at = np.searchsorted(others, rows)
    there = np.zeros(len(rows), np.int64)
    known = at < len(others)
    known[known] = others[at[known]] == rows[known]
    there[known] = other_times[at[known]]
    return np.sort(np.repeat(one[0][place], np.maximum(times - there, 0)))


def _shown(
    sides: tuple[_Side, _Side], names: Sequence[str], key: Sequence[str], found: _Found, examples: int
) -> list[RowDifference]:
    chosen = {kind: list(dict.fromkeys(getattr(found, kind)))[:examples] for kind in _Found._fields}
    wanted = np.array(sorted({one for some in chosen.values() for one in some}), np.uint64)
    source, target = (_rows_of(side, names, key, wanted) for side in sides)
    missing = [{name: (source[one][0][name][0], None) for name in names} for one in chosen["missing"]]
    extra = [{name: (None, target[one][-1][name][0]) for name in names} for one in chosen["extra"]]
    shown = [_difference("missing", key, row, 0) for row in missing] + [_difference("extra", key, row, 1) for row in extra]
    for one in chosen["different"]:
        pairs = [_unequal(names, mine, other) for mine in source[one] for other in target[one]]
        shown.append(RowDifference("different", {name: source[one][0][name][0] for name in key}, max(pairs, key=bool)))
    return shown


def _unequal(
    names: Sequence[str], source: Mapping[str, ColumnValues], target: Mapping[str, ColumnValues]
) -> dict[str, tuple[Any, Any]]:
    return {name: (source[name][0], target[name][0]) for name in names if not source[name].same(0, target[name], 0)}


def _difference(
    kind: Literal["missing", "extra"], key: Sequence[str], columns: Mapping[str, tuple[Any, Any]], side: Literal[0, 1]
) -> RowDifference:
    return RowDifference(
        kind, {name: columns[name][side] for name in key}, {n: pair for n, pair in columns.items() if n not in key}
    )


def _rows_of(side: _Side, names: Sequence[str], key: Sequence[str], wanted: Hashes) -> dict[int, list[dict[str, ColumnValues]]]:
    found: dict[int, list[dict[str, ColumnValues]]] = {}
    for keys, _, columns in _hashed(side, names, key):
        # Tables of counts, as NumPy 2.0 takes by itself, overflow with such numbers.
        for row in np.flatnonzero(np.isin(keys, wanted, kind="sort")).tolist():
            found.setdefault(int(keys[row]), []).append({name: _one(column, row) for name, column in columns.items()})
    return found


def _one(column: ColumnValues, row: int) -> ColumnValues:
    import pyarrow as pa

    values = pa.array([column.values[row].as_py()], column.values.type)
    return ColumnValues(values, {0: column.odd[row]} if row in column.odd else {})
