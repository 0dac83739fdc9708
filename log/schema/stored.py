"""Stored columns as a schema shows them now: by the names and types of today, whatever version wrote them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .arrow_types import arrow_type
from .fields import ArrayType, Field, FieldType, MapType, StructType
from .topic_schema import TopicSchema


def shown_value(stored: pa.StructArray | pa.ChunkedArray, schema: TopicSchema) -> pa.Array | pa.ChunkedArray:
    """A stored column ``value`` with the fields in use of ``schema``, which is that of the writer or a later one.

    Fields that the writer did not know are NULL, narrower values are widened, renamed fields have their new names, retired ones are left
    out.
    """
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
            flat = Flat(stored)
            return pa.ListArray.from_arrays(flat.offsets, _shown(flat.of(stored.values), element.type), type=wanted, mask=mask)
        case MapType(key, value):
            flat = Flat(stored)
            keys, items = _shown(flat.of(stored.keys), key.type), _shown(flat.of(stored.items), value.type)
            return pa.MapArray.from_arrays(flat.offsets, keys, items, type=wanted, mask=mask)
        case _:
            return stored.cast(wanted)


def _field(stored: pa.StructArray, field: Field) -> pa.Array:
    number = stored.type.get_field_index(field.stored_name)
    if number < 0:
        return pa.nulls(len(stored), arrow_type(field.type))
    return _shown(stored.field(number), field.type)


class Flat:
    """The parts of lists or maps, one after the other, without what lies before a slice or under a NULL."""

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
        """The list that each part belongs to."""
        self.offsets = pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32))
        self._taken = None
        if hidden:
            before = np.asarray(self.offsets)[:-1]
            self._taken = pa.array(np.arange(len(self.owners)) + (ends[:-1] - before)[self.owners])

    def of(self, parts: pa.Array) -> pa.Array:
        """The parts of all the lists, out of a child array: elements, keys or values."""
        return parts.slice(self._first, len(self.owners)) if self._taken is None else parts.take(self._taken)
