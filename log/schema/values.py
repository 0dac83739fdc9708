"""Turns users' rows into checked stored columns, field by field.

Arrow's own conversion is too lax: it cuts 1.5 to 1, and takes a time without a zone for UTC. So Arrow gets only values of expected types. Where that
fails, values are converted one by one, to name each bad row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from ..limits import SHOWN_CHARS_MAX, plain
from .arrow_types import arrow_type
from .checks import checked_years, repeated_keys
from .fields import ELEMENT, INTEGER_BITS, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .rules import is_name
from .topic_schema import TopicSchema

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of times without a zone
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = type(None)
_BLOCK_ROWS = 512
"""Rows converted at a time, for the processor's cache."""
_ALLOWED: dict[PrimitiveType, set[type]] = {
    PrimitiveType.BOOLEAN: {bool},
    **{kind: {int} for kind in INTEGER_BITS},
    PrimitiveType.FLOAT: {float, int},
    PrimitiveType.DOUBLE: {float, int},
    PrimitiveType.STRING: {str},
    PrimitiveType.BINARY: {bytes, bytearray, memoryview},
    PrimitiveType.DATE: {date},
    PrimitiveType.TIMESTAMP: {datetime},
    PrimitiveType.TIMESTAMP_NTZ: {datetime},
}
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Raised for a value that does not fit."""
_EXACT: tuple[tuple[type, Callable[[Any], Any]], ...] = ((str, str.__str__), (int, int.__int__), (float, float.__float__))
"""The plain value of a subclass."""


Values: TypeAlias = Sequence[Any]


class BadValue(NamedTuple):
    """The reason why a row cannot be stored."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, eq=False)
class ConvertedRows:
    """Rows as a column ``value``, by stored names."""

    value: pa.StructArray
    bad: Mapping[int, BadValue]
    """The first fault of each bad row, by place; such a row's values mean nothing."""


def convert(rows: Sequence[object], schema: TopicSchema, *, ignore_extra: bool = False) -> ConvertedRows:
    """Rows as the column ``value`` of this schema.

    A row is a mapping by field name, a dataclass, a named tuple or a pydantic model; None is NULL as a whole. A missing field is
    NULL. ``ignore_extra`` drops unknown fields.
    """
    bad: dict[int, BadValue] = {}
    at = np.arange(len(rows))
    value = _struct(rows, StructType(schema.fields), "", _Places(at, bad, ignore_extra))
    return ConvertedRows(value, bad)


def convert_fields(columns: Sequence[Values], schema: TopicSchema) -> ConvertedRows:
    """`convert` for the values of each field in use, None where the row has none."""
    bad: dict[int, BadValue] = {}
    places = _Places(np.arange(len(columns[0])), bad, ignore_extra=False)
    return ConvertedRows(_joined(columns, schema.live, "", places), bad)


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    at: np.ndarray[Any, np.dtype[np.int64]]
    bad: dict[int, BadValue]
    ignore_extra: bool

    def note(self, number: int, fault: BadValue) -> None:
        self.bad.setdefault(int(self.at[number]), fault)

    def of(self, numbers: np.ndarray[Any, np.dtype[np.int64]]) -> _Places:
        return _Places(self.at[numbers], self.bad, self.ignore_extra)


def _column(values: Values, field: Field, path: str, places: _Places) -> pa.Array:
    array = _of_type(values, field.type, path, places)
    if not field.nullable and array.null_count:
        for number in np.flatnonzero(np.asarray(array.is_null())):
            places.note(int(number), BadValue(path, f"{field.type} not null", "NULL"))
    return array


def _of_type(values: Values, type_: FieldType, path: str, places: _Places) -> pa.Array:
    match type_:
        case StructType():
            return _struct(values, type_, path, places)
        case ArrayType(element):
            return _array(values, type_, element, path, places)
        case MapType(key, value):
            return _map(values, type_, key, value, path, places)
        case _:
            return _plain(values, type_, path, places)


# --- Values without parts -------------------------------------------------------------------------------------------------------------


def _plain(values: Values, type_: PrimitiveType | DecimalType, path: str, places: _Places) -> pa.Array:
    allowed = {Decimal, int} if isinstance(type_, DecimalType) else _ALLOWED[type_]
    if set(map(type, values)) <= allowed | {_NULL}:
        try:
            return _arrow(values, type_)
        except _REFUSED:
            pass  # looked at one by one below
    kept = [None] * len(values)
    for number, value in enumerate(values):
        if value is None:
            continue
        try:
            kept[number] = _fitting(value, type_, allowed)
        except _REFUSED:
            places.note(number, BadValue(path, _wanted(type_, value), _shown(value)))
    return _arrow(kept, type_)


def _arrow(values: Values, type_: PrimitiveType | DecimalType) -> pa.Array:
    """Values of allowed types. Raises Arrow's errors."""
    arrow = arrow_type(type_)
    if type_ is PrimitiveType.TIMESTAMP or type_ is PrimitiveType.TIMESTAMP_NTZ:
        # Arrow's own way from aware datetimes is three times slower, and takes naive ones for UTC; here they raise TypeError.
        epoch = _EPOCH_UTC if type_ is PrimitiveType.TIMESTAMP else _EPOCH
        since = [None if value is None else value - epoch for value in values]
        return checked_years(pa.array(since, pa.duration("us")).view(arrow))
    made = pa.array(values, arrow)
    if type_ is PrimitiveType.FLOAT:  # Arrow makes infinity of what is too large
        endless = np.flatnonzero(np.isinf(made.to_numpy(zero_copy_only=False)))
        if any(math.isfinite(values[int(number)]) for number in endless):
            raise OverflowError
    return made


def _fitting(value: object, type_: PrimitiveType | DecimalType, allowed: set[type]) -> Any:  # noqa: ANN401 - what Arrow takes
    """A value of an unusual class as Arrow takes it. Raises."""
    made: Any = value
    if isinstance(value, Enum):
        made = value.value
    elif isinstance(value, UUID):
        made = str(value)
    elif isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        made = value.item()
    elif type(value) not in allowed:
        made = next((exact(value) for one, exact in _EXACT if isinstance(value, one) and not isinstance(value, bool)), value)
    if getattr(made, "nanosecond", 0):  # of pandas; a microsecond is the least that is stored
        raise ValueError
    if type(made) not in allowed and not (isinstance(made, datetime) and datetime in allowed):
        raise TypeError
    _arrow([made], type_)
    return made


def _wanted(type_: FieldType, value: object) -> str:
    match type_:
        case DecimalType() if isinstance(value, float):
            return f"{type_} (a Decimal or an int)"
        case PrimitiveType.TIMESTAMP:
            return "timestamp (a datetime with a zone)"
        case PrimitiveType.TIMESTAMP_NTZ:
            return "timestamp_ntz (a datetime without a zone)"
        case _:
            return str(type_)


def _shown(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"the float {value}"
    return f"the {type(value).__name__} {plain(value)}"


# --- Values with parts ----------------------------------------------------------------------------------------------------------------


def _struct(values: Values, type_: StructType, path: str, places: _Places) -> pa.StructArray:
    used: dict[Any, Field] = {field.name: field for field in type_.live}  # by what rows call them
    rows = _mappings(values, type_, path, places)
    mask = None if None not in rows else np.fromiter((row is None for row in rows), bool, len(rows))
    inside, numbers = (rows, None) if mask is None else ([row for row in rows if row is not None], np.flatnonzero(~mask))
    below = places if numbers is None else places.of(numbers)
    if older := {name: field for name, field in type_.by_sent_name.items() if name != field.name or field.retired}:
        inside = [_by_present_names(row, older) for row in inside]
        # A retired field is asked of nobody: rows of producers of several versions may be side by side.
        retired = {_present_name(field): replace(field, nullable=True) for field in older.values() if field.retired}
        used |= {name: field for name, field in retired.items() if any(name in row for row in inside)}
    names = list(used)
    try:
        taken_out: list[Values] = _columns_of(inside, names)
        whole = set(map(len, inside)) <= {len(names)}
    except KeyError:
        taken_out, whole = [[row.get(name) for row in inside] for name in names], False
    if not whole and not places.ignore_extra:
        _note_extra(inside, names, path, below)
    made = _joined(taken_out, tuple(used.values()), path, below)
    if numbers is None:
        return made
    spread = np.full(len(rows), -1)
    spread[numbers] = np.arange(len(numbers))
    return made.take(pa.array(spread, mask=mask))


def _joined(columns: Sequence[Values], used: Sequence[Field], path: str, places: _Places) -> pa.StructArray:
    made = [_column(column, field, join(path, field.name), places) for field, column in zip(used, columns, strict=True)]
    stored = [pa.field(field.stored_name, column.type) for field, column in zip(used, made, strict=True)]
    return pa.StructArray.from_arrays(made, fields=stored)


def _columns_of(rows: Sequence[Mapping[Any, Any]], names: Sequence[Any]) -> list[Values]:
    """The values of each name. Raises `KeyError` for a row without one."""
    if len(names) == 1 or not rows:
        return [[row[name] for row in rows] for name in names]
    columns: list[list[Any]] = [[] for _ in names]
    of_row = itemgetter(*names)  # one call for a row, and not one for each of its values
    for start in range(0, len(rows), _BLOCK_ROWS):
        for column, values in zip(columns, zip(*map(of_row, rows[start : start + _BLOCK_ROWS]), strict=True), strict=True):
            column += values
    return list(columns)


def _by_present_names(row: Mapping[str, Any], older: Mapping[str, Field]) -> Mapping[Any, Any]:
    """An earlier producer's row by present names."""
    if older.keys().isdisjoint(row):
        return row
    made: dict[Any, Any] = {name: value for name, value in row.items() if name not in older}
    for name in filter(older.__contains__, row):
        present = _present_name(older[name])
        made[name if present in made else present] = row[name]
    return made


def _present_name(field: Field) -> Any:  # noqa: ANN401 - a text, or what no row has
    return (field.id,) if field.retired else field.name


def _mappings(values: Values, type_: StructType, path: str, places: _Places) -> list[Any]:
    if set(map(type, values)) <= {dict}:
        return list(values)
    made: list[Any] = []
    readers: dict[type, Callable[[Any], Mapping[str, Any] | None]] = {}
    for number, value in enumerate(values):
        try:
            if (reader := readers.get(type(value))) is None:
                reader = readers[type(value)] = row_reader(value)
            row = reader(value)
        except AttributeError:  # of a dataclass whose field was never set
            row = None
        if row is None and value is not None:
            places.note(number, BadValue(path or "the row", f"a row with {_names(type_)}", _shown(value)))
        made.append(row)
    return made


def row_reader(value: object) -> Callable[[Any], Mapping[str, Any] | None]:
    """Reads rows of this class as mappings, or None for no row. Raises `AttributeError` for missing fields."""
    if isinstance(value, Mapping):
        return dict
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return lambda row: {name: getattr(row, name) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return lambda row: row._asdict()
    if isinstance(getattr(type(value), "model_fields", None), Mapping):
        models = list(type(value).model_fields)  # type: ignore[attr-defined]
        return lambda row: {**(getattr(row, "model_extra", None) or {}), **{name: getattr(row, name) for name in models}}
    return lambda _: None


def _names(type_: StructType) -> str:
    return ", ".join(field.name for field in type_.live)


def _note_extra(rows: Iterable[Mapping[Any, Any]], names: Sequence[Any], path: str, places: _Places) -> None:
    known = frozenset(names)
    for number, row in enumerate(rows):
        if row.keys() <= known:
            continue
        extra = sorted(map(str, row.keys() - known))
        near = next((name for name in names if isinstance(name, str) and name.lower() == extra[0].lower()), None)
        found = f"the field {plain(extra[0])}" + (f" (the schema has {near})" if near else "")
        name = extra[0] if is_name(extra[0]) and len(extra[0]) <= SHOWN_CHARS_MAX else plain(extra[0])
        places.note(number, BadValue(join(path, name), "a field of the schema", found))


def _array(values: Values, type_: ArrayType, element: Field, path: str, places: _Places) -> pa.Array:
    lists = _checked(values, (list, tuple), type_, path, places)
    if not set(map(type, lists)) <= {list, tuple, _NULL}:
        lists = [None if one is None else list(one) for one in lists]
    offsets, numbers = _flat(lists)
    flat = list(chain.from_iterable(one for one in lists if one is not None))
    items = _column(flat, element, join(path, ELEMENT), places.of(numbers))
    field = pa.field(ELEMENT, items.type)
    return pa.ListArray.from_arrays(offsets, items, type=pa.list_(field), mask=_mask(lists))


def _map(values: Values, type_: MapType, key: Field, value: Field, path: str, places: _Places) -> pa.Array:
    maps = [None if one is None else list(one.items()) for one in _checked(values, (Mapping,), type_, path, places)]
    offsets, numbers = _flat(maps)
    below = places.of(numbers)
    pairs = list(chain.from_iterable(one for one in maps if one is not None))
    keys = _column([pair[0] for pair in pairs], key, join(path, key.name), below)
    items = _column([pair[1] for pair in pairs], value, join(path, value.name), below)
    for part in repeated_keys(keys, numbers):
        below.note(int(part), BadValue(join(path, key.name), "each key once", _shown(pairs[part][0])))
    if keys.null_count:  # a row that is refused; Arrow takes no map with a NULL among its keys
        valid = keys.is_valid()
        spoiled = np.unique(numbers[~np.asarray(valid)])
        gone = set(spoiled.tolist())
        maps = [None if number in gone else one for number, one in enumerate(maps)]
        keep = pa.array(~np.isin(numbers, spoiled))
        keys, items, (offsets, _) = keys.filter(keep), items.filter(keep), _flat(maps)
    made = pa.map_(pa.field(key.name, keys.type, nullable=False), pa.field(value.name, items.type))
    return pa.MapArray.from_arrays(offsets, keys, items, type=made, mask=_mask(maps))


def _checked(values: Values, classes: tuple[type, ...], type_: FieldType, path: str, places: _Places) -> list[Any]:
    if all(one is _NULL or issubclass(one, classes) for one in set(map(type, values))):
        return list(values)
    made: list[Any] = []
    for number, value in enumerate(values):
        fits = isinstance(value, classes)
        if not fits and value is not None:
            places.note(number, BadValue(path, str(type_), _shown(value)))
        made.append(value if fits else None)
    return made


def _flat(values: Sequence[Any]) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    sizes = map(len, values) if None not in values else (0 if value is None else len(value) for value in values)
    lengths = np.fromiter(sizes, np.int64, len(values))
    return pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32)), np.repeat(np.arange(len(values)), lengths)


def _mask(values: Sequence[Any]) -> pa.Array | None:
    return pa.array([value is None for value in values]) if None in values else None
