"""The column ``value`` as one dict for each message, made on demand.

Lists of plain values, one for each field, spare the garbage collector long-lived dicts. No Arrow data is kept in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate, chain, pairwise, repeat
from operator import itemgetter, setitem
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .stored_columns import FlattenedParts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row: TypeAlias = "dict[str, Any]"


class ValueColumn(Sequence["Row | None"]):
    """The rows of a struct column."""

    __slots__ = ("_columns", "_length", "_names", "_there")

    def __init__(self, names: Sequence[str], columns: Sequence[_Column], length: int, there: list[bool] | None) -> None:
        """``there``: which structs are not NULL."""
        self._names = tuple(names)
        self._columns = columns
        self._length = length
        self._there = there

    @staticmethod
    def of(structs: pa.StructArray | pa.ChunkedArray) -> ValueColumn:
        one = structs.combine_chunks() if isinstance(structs, pa.ChunkedArray) else structs
        return _structs(one)

    def only(self, places: Sequence[int]) -> ValueColumn:
        """Keeps no other rows in memory."""
        columns = [_only(column, places) for column in self._columns]
        return ValueColumn(self._names, columns, len(places), None if self._there is None else _picked(self._there, places))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row | None]:
        return iter(self[:])

    @overload
    def __getitem__(self, at: int) -> Row | None: ...

    @overload
    def __getitem__(self, at: slice) -> list[Row | None]: ...

    def __getitem__(self, at: int | slice) -> Row | list[Row | None] | None:
        if not isinstance(at, slice):
            place = at if 0 <= at < self._length else range(self._length)[at]
            if self._there is not None and not self._there[place]:
                return None
            return dict(zip(self._names, [column[place] for column in self._columns], strict=True))
        start, stop, step = at.indices(self._length)
        if step != 1:
            return [self[place] for place in range(start, stop, step)]
        # A copy has the size that it needs; filling it column by column takes no call in Python for each row.
        rows = list(map(dict.copy, repeat(dict.fromkeys(self._names), max(stop - start, 0))))
        for name, column in zip(self._names, self._columns, strict=True):
            _exhausted(map(setitem, rows, repeat(name), column[start:stop]))
        return _with_nulls(rows, self._there, start, stop)


class _Column(Protocol):
    """The values of one field. Places are never negative, slices have no step."""

    @overload
    def __getitem__(self, at: int, /) -> Any: ...  # noqa: ANN401 - a value of any type
    @overload
    def __getitem__(self, at: slice, /) -> list[Any]: ...


class _Parts:
    """Lists or maps: their parts in a row, and each value's offset."""

    __slots__ = ("_offsets", "_there")

    def __init__(self, offsets: list[int], there: list[bool] | None) -> None:
        self._offsets = offsets
        self._there = there

    def _made(self, start: int, stop: int) -> list[Any]:
        """The values as if none were NULL."""
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int, /) -> Any: ...  # noqa: ANN401 - a list or a dict
    @overload
    def __getitem__(self, at: slice, /) -> list[Any]: ...

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self._offsets) - 1)
            return _with_nulls(self._made(start, stop), self._there, start, stop)
        return self[at : at + 1][0]

    def _picked(self, places: Sequence[int]) -> tuple[list[int], list[int], list[bool] | None]:
        """Offsets and places of the parts of some values, and which values are not NULL."""
        spans = [range(self._offsets[place], self._offsets[place + 1]) for place in places]
        offsets = list(accumulate(map(len, spans), initial=0))
        return offsets, list(chain.from_iterable(spans)), None if self._there is None else _picked(self._there, places)


class _Lists(_Parts):
    __slots__ = ("_elements",)

    def __init__(self, offsets: list[int], there: list[bool] | None, elements: _Column) -> None:
        super().__init__(offsets, there)
        self._elements = elements

    def _made(self, start: int, stop: int) -> list[Any]:
        offsets = self._offsets[start : stop + 1]
        first = offsets[0]
        elements = self._elements[first : offsets[-1]]
        return [elements[begin - first : end - first] for begin, end in pairwise(offsets)]

    def only(self, places: Sequence[int]) -> _Lists:
        offsets, parts, there = self._picked(places)
        return _Lists(offsets, there, _only(self._elements, parts))


class _Maps(_Parts):
    __slots__ = ("_items", "_keys")

    def __init__(self, offsets: list[int], there: list[bool] | None, keys: _Column, items: _Column) -> None:
        super().__init__(offsets, there)
        self._keys = keys
        self._items = items

    def _made(self, start: int, stop: int) -> list[Any]:
        offsets = self._offsets[start : stop + 1]
        pairs = zip(self._keys[offsets[0] : offsets[-1]], self._items[offsets[0] : offsets[-1]], strict=True)
        return [dict(next(pairs) for _ in range(begin, end)) for begin, end in pairwise(offsets)]

    def only(self, places: Sequence[int]) -> _Maps:
        offsets, parts, there = self._picked(places)
        return _Maps(offsets, there, _only(self._keys, parts), _only(self._items, parts))


def _exhausted(values: Iterable[Any]) -> None:
    deque(values, maxlen=0)


def _with_nulls(values: list[Any], there: list[bool] | None, start: int, stop: int) -> list[Any]:
    if there is None:
        return values
    return [value if here else None for value, here in zip(values, there[start:stop], strict=True)]


def _only(column: Any, places: Sequence[int]) -> Any:  # noqa: ANN401 - a `_Column`
    return _picked(column, places) if isinstance(column, list) else column.only(places)


def _picked(values: list[Any], places: Sequence[int]) -> list[Any]:
    return list(itemgetter(*places)(values)) if len(places) > 1 else [values[place] for place in places]


# --- From Arrow -----------------------------------------------------------------------------------------------------------------------


def _column(array: pa.Array) -> Any:  # noqa: ANN401 - a `_Column`
    type_ = array.type
    if pa.types.is_struct(type_):
        return _structs(array)
    if pa.types.is_map(type_):
        flat = FlattenedParts(array)
        return _Maps(flat.offsets.to_numpy().tolist(), _there(array), _column(flat.of(array.keys)), _column(flat.of(array.items)))
    if pa.types.is_list(type_):
        flat = FlattenedParts(array)
        return _Lists(flat.offsets.to_numpy().tolist(), _there(array), _column(flat.of(array.values)))
    return _plain(array)


def _structs(array: pa.StructArray) -> ValueColumn:
    names = [field.name for field in array.type]
    return ValueColumn(names, [_column(array.field(number)) for number in range(len(names))], len(array), _there(array))


def _there(array: pa.Array) -> list[bool] | None:
    if not array.null_count:
        return None
    flags: list[bool] = array.is_valid().to_numpy(zero_copy_only=False).tolist()
    return flags


def _plain(array: pa.Array) -> list[Any]:
    """The values of a type without parts, with fewer Python objects than ``to_pylist`` makes."""
    if array.null_count == len(array):
        return [None] * len(array)
    read = next((one for fits, one in _READERS if fits(array.type)), pa.Array.to_pylist)
    if not array.null_count:
        return read(array)
    values = read(array.drop_null())
    spread = np.full(len(array), None)
    spread[array.is_valid().to_numpy(zero_copy_only=False)] = values
    return list(spread.tolist())


def _numpy(array: pa.Array) -> list[Any]:
    return list(array.to_numpy(zero_copy_only=False).tolist())


def _decimals(array: pa.Array) -> list[Any]:
    return list(map(Decimal, _numpy(array.cast(pa.string()))))


def _dates(array: pa.Array) -> list[Any]:
    return list(array.view(pa.int32()).to_numpy().astype("datetime64[D]").tolist())


def _times(array: pa.Array) -> list[Any]:
    ticks = pc.cast(array, pa.timestamp("us", array.type.tz)).view(pa.int64()).to_numpy()
    if array.type.tz is None:
        return list(ticks.view("datetime64[us]").tolist())
    return list(map(_EPOCH.__add__, ticks.view("timedelta64[us]").tolist()))


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...] = (
    (pa.types.is_timestamp, _times),
    (pa.types.is_date32, _dates),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_primitive, _numpy),
    (pa.types.is_string, _numpy),
    (pa.types.is_binary, _numpy),
)
