"""Stored columns of any version in the present names and types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from .arrow_types import arrow_type, type_of_arrow
from .fields import ArrayType, Field, FieldType, MapType, StructType
from .topic_schema import TopicSchema
from .widening import holds_stored


def shown_value(stored: pa.StructArray | pa.ChunkedArray, schema: TopicSchema) -> pa.Array | pa.ChunkedArray:
    """A stored column ``value`` by its writer's or a later ``schema``: new fields are NULL, narrower values widened, retired fields left out."""
    type_ = StructType(schema.fields)
    if isinstance(stored, pa.ChunkedArray):
        return pa.chunked_array([_shown(chunk, type_) for chunk in stored.chunks], schema.arrow)
    return _shown(stored, type_)


def _shown(stored: pa.Array, type_: FieldType) -> pa.Array:
    wanted = arrow_type(type_)
    # Types that are equal say nothing where a name was used again: the fields behind it may be others.
    if stored.type == wanted == arrow_type(type_, stored=True):
        return stored
    mask = stored.is_null() if stored.null_count else None
    match type_:
        case StructType():
            columns = [_field(stored, field) for field in type_.live]
            fields = [wanted.field(number) for number in range(wanted.num_fields)]
            return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
        case ArrayType(element):
            flat = FlattenedParts(stored)
            return pa.ListArray.from_arrays(flat.offsets, _shown(flat.of(stored.values), element.type), type=wanted, mask=mask)
        case MapType(key, value):
            flat = FlattenedParts(stored)
            keys, items = _shown(flat.of(stored.keys), key.type), _shown(flat.of(stored.items), value.type)
            return pa.MapArray.from_arrays(flat.offsets, keys, items, type=wanted, mask=mask)
        case _:
            return _cast(stored, wanted)


def _cast(stored: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Raises `ValueError` for a value that does not fit."""
    made = stored.cast(wanted)
    # Arrow itself refuses what integers and decimals cannot hold, but rounds floats.
    if pa.types.is_float32(wanted) and pa.types.is_float64(stored.type):
        lost = pc.and_(pc.not_equal(made.cast(stored.type), stored), pc.invert(pc.is_nan(stored)))
        if pc.any(lost).as_py():
            raise ValueError("a double does not fit a float")
    return made


def _field(stored: pa.StructArray, field: Field) -> pa.Array:
    number = stored.type.get_field_index(field.stored_name)
    if number < 0:
        return pa.nulls(len(stored), arrow_type(field.type))
    return _shown(stored.field(number), field.type)


def aligned(stored: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Stored values in a wider stored type of the same topic."""
    if stored.type == wanted:
        return stored
    if isinstance(stored, pa.ChunkedArray):
        return pa.chunked_array([aligned(chunk, wanted) for chunk in stored.chunks], wanted)
    mask = stored.is_null() if stored.null_count else None
    if pa.types.is_struct(wanted):
        found = {field.name: stored.field(number) for number, field in enumerate(stored.type)}
        columns = [
            aligned(found[field.name], field.type) if field.name in found else pa.nulls(len(stored), field.type) for field in wanted
        ]
        return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted):
        flat = FlattenedParts(stored)
        return pa.ListArray.from_arrays(flat.offsets, aligned(flat.of(stored.values), wanted.value_type), type=wanted, mask=mask)
    if pa.types.is_map(wanted):
        flat = FlattenedParts(stored)
        keys, items = aligned(flat.of(stored.keys), wanted.key_type), aligned(flat.of(stored.items), wanted.item_type)
        return pa.MapArray.from_arrays(flat.offsets, keys, items, type=wanted, mask=mask)
    return stored.cast(wanted)


def concatenated(values: Sequence[pa.Array]) -> pa.Array:
    types = dict.fromkeys(one.type for one in values)
    if len(types) > 1:
        widest = reduce(wider_type, types)
        values = [aligned(one, widest) for one in values]
    return values[0] if len(values) == 1 else pa.concat_arrays(values)


def wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The least stored type for both. Raises `ValueError` for two topics' types."""
    if one == other:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = wider_type(fields.get(field.name, field.type), field.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(one.value_field.with_type(wider_type(one.value_type, other.value_type)))
    if pa.types.is_map(one) and pa.types.is_map(other):
        keys, items = wider_type(one.key_type, other.key_type), wider_type(one.item_type, other.item_type)
        return pa.map_(one.key_field.with_type(keys), one.item_field.with_type(items))
    for wide, narrow in ((one, other), (other, one)):
        if is_stored_by(narrow, wide):
            return wide
    raise ValueError(f"no type holds {one} and {other}")


def is_stored_by(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a file may have a column of type ``found``, with fewer or narrower fields than ``wanted``."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        places = [wanted.get_field_index(field.name) for field in found]
        return len({*places} - {-1}) == len(places) and all(
            field.nullable and is_stored_by(field.type, wanted.field(place).type)
            for field, place in zip(found, places, strict=True)
        )
    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return is_stored_by(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted) and pa.types.is_map(found):
        return is_stored_by(found.key_type, wanted.key_type) and is_stored_by(found.item_type, wanted.item_type)
    if pa.types.is_nested(wanted) or pa.types.is_nested(found):
        return False
    try:
        return wanted == found or holds_stored(type_of_arrow(wanted, ""), type_of_arrow(found, ""))
    except InvalidArgument:
        return False


class FlattenedParts:
    """The parts of lists or maps, without parts before a slice or under a NULL."""

    def __init__(self, lists: pa.ListArray | pa.MapArray) -> None:
        ends = np.asarray(lists.offsets, np.int64)
        self._first = int(ends[0])
        lengths = np.diff(ends)
        hidden = 0
        if lists.null_count:
            nulls = np.asarray(lists.is_null())
            hidden = int(lengths[nulls].sum())
            lengths = np.where(nulls, 0, lengths)
        self.owners = np.repeat(np.arange(len(lists)), lengths)
        self.offsets = pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32))
        self._taken = None
        if hidden:
            before = np.asarray(self.offsets)[:-1]
            self._taken = pa.array(np.arange(len(self.owners)) + (ends[:-1] - before)[self.owners])

    def of(self, parts: pa.Array) -> pa.Array:
        return parts.slice(self._first, len(self.owners)) if self._taken is None else parts.take(self._taken)
