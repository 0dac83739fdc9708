"""Exact conversion of a target's values; one that does not fit refuses the target. Pure."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from ...log.schema.arrow_types import arrow_type
from ...log.schema.fields import TIMES, FieldType, PrimitiveType
from ..events.connect import ColumnForm
from ..events.conversion import KEEP, Convert, UnfitTime, UnfitValue, converter, each, exact_json, key_converter
from ..events.floats import nearest_single
from ..events.placeholders import UnavailablePlaceholder
from ..events.target_types import element_of
from ..target import CURRENT
from .changes import TypeChange

_DEBEZIUM = UnavailablePlaceholder.of()
_DATE_TIMES = (PrimitiveType.TIMESTAMP, PrimitiveType.TIMESTAMP_NTZ)
_SINGLE_DIGITS = range(6, 10)
"""The digits of which one number identifies a 32-bit float."""


class TargetConverter:
    """Converts a target, batch by batch."""

    def __init__(
        self,
        schema: pa.Schema,
        changes: Iterable[TypeChange],
        key: Sequence[str],
        *,
        forms: Mapping[str, ColumnForm] | None = None,
        nulls: bool = False,
        unavailable: UnavailablePlaceholder = _DEBEZIUM,
    ) -> None:
        """``schema``: the target's. ``forms``: the encoding of values in text. ``nulls``: times that no column holds become
        NULL, except in a key.
        """
        self._key, self._nulls = key, nulls
        self._converts: dict[str, Convert] = {}
        for change in changes:
            form = (forms or {}).get(change.column)
            self._converts[change.column] = stored_converter(change, form, in_key=change.column in key, unavailable=unavailable)
            place = schema.get_field_index(change.column)
            schema = schema.set(place, schema.field(place).with_type(arrow_type(change.new)))
        self.schema = schema
        self.rows = 0
        self._keys = array("Q") if any(name in self._converts for name in key) else None

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The converted rows. Raises `UnfitValue`, which names row and column."""
        self.rows += len(given)
        columns = {field.name: self._column(given, field) for field in self.schema}
        if self._keys is not None:
            current = columns[CURRENT].to_pylist() if CURRENT in columns else [True] * len(given)
            keys = zip(*(columns[name].to_pylist() for name in self._key), strict=True)
            self._keys.extend(
                xxhash.xxh3_64_intdigest(repr(key).encode()) for key, counts in zip(keys, current, strict=True) if counts
            )
        return pa.record_batch(list(columns.values()), schema=self.schema)

    def check_keys(self) -> None:
        """Raise `UnfitValue` if two converted rows have one key."""
        if self._keys:
            hashes = pa.Array.from_buffers(pa.uint64(), len(self._keys), [None, pa.py_buffer(self._keys)])
            if doubled := len(hashes) - pc.count_distinct(hashes).as_py():
                raise UnfitValue(f"{doubled:,} rows would have the key ({', '.join(self._key)}) of another row")

    def _column(self, given: pa.RecordBatch, field: pa.Field) -> pa.Array:
        column = given.column(field.name)
        convert = self._converts.get(field.name)
        if convert is None:
            return column if column.type == field.type else column.cast(field.type)
        values: list[Any] = []
        try:
            for value in column.to_pylist():
                values.append(None if value is None else self._value(convert, value, field.name))  # noqa: PERF401 - tells the place
            return pa.array(values, field.type)
        except (ValueError, TypeError, ArithmeticError) as error:
            row = ", ".join(f"{name}={given.column(name)[min(len(values), len(given) - 1)].as_py()!r}" for name in self._key)
            raise UnfitValue(f"row {row}: column {field.name}: {error}").of(field.name) from error

    def _value(self, convert: Convert, value: Any, name: str) -> Any:  # noqa: ANN401
        try:
            found = convert(value)
        except UnfitTime:
            if not self._nulls or name in self._key:
                raise
            return None
        if found is KEEP:
            raise UnfitValue(f"{value!r} stands for a value that was not logged")
        return found


def stored_converter(
    change: TypeChange, form: ColumnForm | None = None, *, in_key: bool = False, unavailable: UnavailablePlaceholder = _DEBEZIUM
) -> Convert:
    """The converter of a target's values (never None) from Arrow. It raises as `converter` does."""
    if change.new is PrimitiveType.STRING:
        return _texts(change.old)
    convert = (key_converter if in_key else converter)(change.new, unavailable)
    read = _readers(change) if form is None else _formed(change, form)
    return convert if read is None else lambda value: convert(read(value))


def _formed(change: TypeChange, form: ColumnForm) -> Callable[[Any], Any]:
    read = form.reader()
    if element_of(change.new) is not None and change.old is PrimitiveType.STRING:
        return lambda text: read(_json_array(text))
    return read


def _readers(change: TypeChange) -> Callable[[Any], Any] | None:
    element = element_of(change.new)
    if element is not None and change.old is PrimitiveType.STRING:
        return _json_array
    if element is not None and (old := element_of(change.old)) is not None:
        read = _texts(old) if element is PrimitiveType.STRING else _readers(TypeChange(change.column, old, element))
        return None if read is None else each(read)
    if change.old is PrimitiveType.DATE and change.new in _DATE_TIMES:
        return _midnight
    if change.old in _DATE_TIMES and change.new is PrimitiveType.DATE:
        return _day
    if change.old is PrimitiveType.FLOAT and change.new is not PrimitiveType.DOUBLE:
        return lambda value: Decimal(_single_text(value))
    if change.old is PrimitiveType.DOUBLE and change.new is not PrimitiveType.FLOAT:
        return lambda value: Decimal(repr(value))
    return None


def _json_array(text: str) -> Any:  # noqa: ANN401
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, list) else text


def _midnight(value: date) -> datetime:
    return datetime.combine(value, time())


def _day(value: datetime) -> date:
    if value.time() != time():
        raise UnfitValue(f"{value.isoformat()} is no date: it has a time of day")
    return value.date()


def _texts(old: FieldType) -> Callable[[Any], str]:
    if (element := element_of(old)) is not None:
        texts = each(_of_json(element))
        return lambda value: exact_json(texts(value))
    kinds: Mapping[FieldType, Callable[[Any], str]] = {
        PrimitiveType.TIMESTAMP: lambda value: _time_text(value.astimezone(UTC).replace(tzinfo=None)) + "Z",
        PrimitiveType.TIMESTAMP_NTZ: _time_text,
        PrimitiveType.DATE: lambda value: value.isoformat(),
        PrimitiveType.BINARY: lambda value: base64.b64encode(value).decode(),
        PrimitiveType.FLOAT: _single_text,
    }
    return kinds.get(old, exact_json)


def _of_json(element: FieldType) -> Callable[[Any], Any]:
    if (inner := element_of(element)) is not None:
        return each(_of_json(inner))
    return _texts(element) if element in (*TIMES, PrimitiveType.BINARY) else lambda value: value


def _time_text(value: datetime) -> str:
    text = value.isoformat()
    return text.rstrip("0") if value.microsecond else text


def _single_text(value: float) -> str:
    if value - value != 0:
        return exact_json(value)
    texts = (f"{value:.{digits}g}" for digits in _SINGLE_DIGITS)
    return next(text for text in texts if nearest_single(text) == value)
