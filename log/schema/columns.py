"""Turns users' Arrow data into checked stored columns.

A column may be of another type of the same family, such as int64 for ``int``, where each value fits. Nothing is parsed, rounded or cut, and no zone
is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..limits import plain
from .arrow_types import arrow_type
from .checks import checked_years, repeated_keys
from .fields import INTEGER_BITS, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .stored_columns import FlattenedParts
from .topic_schema import TopicSchema
from .values import BadValue, ConvertedRows

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_FAMILIES: dict[PrimitiveType, tuple[Callable[[pa.DataType], bool], ...]] = {
    PrimitiveType.BOOLEAN: (pa.types.is_boolean,),
    **dict.fromkeys(INTEGER_BITS, (pa.types.is_integer,)),
    PrimitiveType.FLOAT: (pa.types.is_float16, pa.types.is_float32),
    PrimitiveType.DOUBLE: (pa.types.is_floating,),
    PrimitiveType.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    PrimitiveType.BINARY: (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    PrimitiveType.DATE: (pa.types.is_date32, pa.types.is_date64),
    PrimitiveType.TIMESTAMP: (lambda found: pa.types.is_timestamp(found) and found.tz is not None,),
    PrimitiveType.TIMESTAMP_NTZ: (lambda found: pa.types.is_timestamp(found) and found.tz is None,),
}
_WHOLE = pa.decimal128(20, 0)
"""Holds every 64-bit integer."""
_REFUSED = (pa.ArrowInvalid, OverflowError)
_OPERATION = "send_batch"


def convert_columns(data: pa.Table, schema: TopicSchema, *, ignore_extra: bool = False) -> ConvertedRows:
    """``data`` as the column ``value`` of this schema. A missing column is NULL; a row whose value does not fit is bad. Raises `InvalidArgument`,
    with the whole difference, for other names or types.
    """
    bad: dict[int, BadValue] = {}
    type_ = StructType(schema.fields)
    arrays = [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in data.columns]
    wrong = list(_misfits(data.schema, type_, "", ignore_extra))
    if wrong:
        raise InvalidArgument(
            "the columns are not those of the topic's schema",
            operation=_OPERATION,
            expected=schema.ddl,
            observed="; ".join(dict.fromkeys(wrong)),
            hint="nothing of the batch was sent",
        )
    given = dict(zip(data.column_names, map(_without_views, arrays), strict=True))
    value = _struct(given, type_, "", np.arange(data.num_rows), bad)
    return ConvertedRows(value, bad)


def _misfits(found: pa.Schema | pa.StructType, type_: StructType, under: str, ignore_extra: bool) -> list[str]:
    """Differences by path, whatever the values."""
    wrong: list[str] = []
    fields = type_.by_sent_name
    meant = [fields[name].id for name in found.names if name in fields]
    for number, name in enumerate(found.names):
        path = join(under, name)
        if name not in fields:
            near = next((field.name for field in type_.live if field.name.lower() == name.lower()), None)
            if not ignore_extra:
                wrong.append(f"{path} is not in the schema" + (f", which has {near}" if near else ""))
        elif meant.count(fields[name].id) > 1:
            wrong.append(f"{path} is there twice")
        else:
            wrong += _misfit(found.field(number).type, fields[name].type, path, ignore_extra)
    return wrong


def _misfit(found: pa.DataType, type_: FieldType, path: str, ignore_extra: bool) -> list[str]:
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_null(found):
        return []
    match type_:
        case StructType() if pa.types.is_struct(found):
            return _misfits(found, type_, path, ignore_extra)
        case ArrayType(element) if _is_list(found):
            return _misfit(found.value_type, element.type, join(path, element.name), ignore_extra)
        case MapType(key, value) if pa.types.is_map(found):
            keys = _misfit(found.key_type, key.type, join(path, key.name), ignore_extra)
            return keys + _misfit(found.item_type, value.type, join(path, value.name), ignore_extra)
        case DecimalType() if pa.types.is_decimal(found) or pa.types.is_integer(found):
            return []
        case PrimitiveType() if any(fits(found) for fits in _FAMILIES[type_]):
            return []
    kind = f"{found} without a zone" if pa.types.is_timestamp(found) and found.tz is None else found
    return [f"{path} is {kind}, not {type_}"]


def _is_list(found: pa.DataType) -> bool:
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


def _without_views(given: pa.Array) -> pa.Array:
    plain_type = _without_view_types(given.type)
    return given if plain_type == given.type else given.cast(plain_type)


def _without_view_types(found: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(found):
        return pa.large_string()
    if pa.types.is_binary_view(found):
        return pa.large_binary()
    if pa.types.is_struct(found):
        return pa.struct([part.with_type(_without_view_types(part.type)) for part in found])
    if pa.types.is_map(found):
        return pa.map_(_without_view_types(found.key_type), _without_view_types(found.item_type))
    if pa.types.is_list(found):
        return pa.list_(_without_view_types(found.value_type))
    if pa.types.is_large_list(found):
        return pa.large_list(_without_view_types(found.value_type))
    if pa.types.is_fixed_size_list(found):
        return pa.list_(_without_view_types(found.value_type), found.list_size)
    return found


def _struct(given: dict[str, pa.Array], type_: StructType, path: str, rows: Rows, bad: dict[int, BadValue]) -> pa.StructArray:
    meant = {field.id: name for name, field in type_.by_sent_name.items() if name in given}
    used = [field for field in type_.fields if not field.retired or field.id in meant]
    columns = [
        _column(
            given[meant[field.id]] if field.id in meant else None,
            replace(field, nullable=field.nullable or field.retired > 0),
            join(path, field.name),
            rows,
            bad,
        )
        for field in used
    ]
    stored = [pa.field(field.stored_name, column.type) for field, column in zip(used, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=stored)


def _column(given: pa.Array | None, field: Field, path: str, rows: Rows, bad: dict[int, BadValue]) -> pa.Array:
    array = (
        pa.nulls(len(rows), arrow_type(field.type, stored=True)) if given is None else _of_type(given, field.type, path, rows, bad)
    )
    if not field.nullable and array.null_count:
        for number in np.flatnonzero(np.asarray(array.is_null())):
            bad.setdefault(int(rows[number]), BadValue(path, f"{field.type} not null", "NULL"))
    return array


def _of_type(given: pa.Array, type_: FieldType, path: str, rows: Rows, bad: dict[int, BadValue]) -> pa.Array:
    if pa.types.is_dictionary(given.type):
        given = _without_views(given.dictionary).take(given.indices)
    if pa.types.is_null(given.type):
        return pa.nulls(len(given), arrow_type(type_, stored=True))
    mask = given.is_null() if given.null_count else None
    match type_:
        case StructType():
            inside = {given.type.field(number).name: part for number, part in enumerate(given.flatten())}
            # What is NULL as a whole has no NULL fields that count.
            below = rows if mask is None else rows[~np.asarray(mask)]
            if mask is not None:
                inside = {name: part.filter(pc.invert(mask)) for name, part in inside.items()}
            made = _struct(inside, type_, path, below, bad)
            return made if mask is None else _spread(made, mask)
        case ArrayType(element):
            lists = given.cast(pa.list_(given.type.value_type)) if not pa.types.is_list(given.type) else given
            flat = FlattenedParts(lists)
            items = _column(flat.of(lists.values), element, join(path, element.name), rows[flat.owners], bad)
            return pa.ListArray.from_arrays(flat.offsets, items, type=pa.list_(pa.field(element.name, items.type)), mask=mask)
        case MapType(key, value):
            flat = FlattenedParts(given)
            keys = _column(flat.of(given.keys), key, join(path, key.name), rows[flat.owners], bad)
            items = _column(flat.of(given.items), value, join(path, value.name), rows[flat.owners], bad)
            if keys.null_count:  # of rows that are refused; Arrow takes no map with a NULL among its keys
                spoiled = np.isin(np.arange(len(given)), flat.owners[np.asarray(keys.is_null())])
                return _of_type(given.take(pa.array(np.arange(len(given)), mask=spoiled)), type_, path, rows, bad)
            for part in repeated_keys(keys, flat.owners):
                fault = BadValue(join(path, key.name), "each key once", f"the {keys.type} {_shown(keys[int(part)])}")
                bad.setdefault(int(rows[flat.owners[part]]), fault)
            made_type = pa.map_(pa.field(key.name, keys.type, nullable=False), pa.field(value.name, items.type))
            return pa.MapArray.from_arrays(flat.offsets, keys, items, type=made_type, mask=mask)
        case _:
            return _plain(given, type_, path, rows, bad)


def _spread(made: pa.Array, mask: pa.Array) -> pa.Array:
    valid = ~np.asarray(mask)
    numbers = np.cumsum(valid) - 1
    return made.take(pa.array(numbers, mask=np.asarray(mask)))


def _plain(given: pa.Array, type_: PrimitiveType | DecimalType, path: str, rows: Rows, bad: dict[int, BadValue]) -> pa.Array:
    if isinstance(type_, DecimalType) and pa.types.is_integer(given.type):
        given = given.cast(_WHOLE)
    wanted = arrow_type(type_)
    try:
        return _cast(given, wanted)
    except _REFUSED:
        pass  # looked for below
    misfit = np.zeros(len(given), bool)
    for number in range(len(given)):
        try:
            _cast(given.slice(number, 1), wanted)
        except _REFUSED:
            misfit[number] = True
            bad.setdefault(int(rows[number]), BadValue(path, str(type_), f"the {given.type} {_shown(given[number])}"))
    return _spread(_cast(given.filter(pa.array(~misfit)), wanted), pa.array(misfit))


def _cast(given: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Raises the errors in ``_REFUSED``."""
    made = given if given.type == wanted else given.cast(wanted)
    if pa.types.is_date64(given.type) and not made.cast(given.type).equals(given):
        raise OverflowError("a time of day")
    if pa.types.is_string(wanted):
        made.validate(full=True)  # text that is none would make all rows of its entry unreadable
    return checked_years(made)


def _shown(value: pa.Scalar) -> str:
    try:
        return plain(value.as_py())
    except UnicodeDecodeError:
        return f"text that is no UTF-8: {plain(value.as_buffer().to_pybytes())}"
    except (OverflowError, ValueError):  # no year of Python's, or nanoseconds without pandas
        return str(value.value)
