"""Typed rows by the names and types of one schema version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ..errors import DataDamaged, InvalidArgument
from ..format.stored_json import shown
from ..message.columns import with_value
from ..message.message import MESSAGE_SCHEMA, VALUE
from ..schema.fields import StructType
from ..schema.stored_columns import shown_value
from ..schema.topic_schema import TopicSchema

_FIELD = f"{VALUE}."


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns that a reader asks for."""

    names: tuple[str, ...]
    schema: TopicSchema | None
    """The fields asked for; None: without ``value``."""

    @property
    def arrow(self) -> pa.Schema:
        whole = with_value(MESSAGE_SCHEMA, None if self.schema is None else self.schema.arrow)
        return pa.schema([whole.field(name) for name in self.names])

    @property
    def stored(self) -> list[str]:
        """Fields of ``value`` by their stored names."""
        plain = [name for name in self.names if name != VALUE]
        return plain if self.schema is None else [*plain, *(_FIELD + field.stored_name for field in self.schema.live)]

    def shown(self, batch: pa.RecordBatch, *, where: str) -> pa.RecordBatch:
        """Stored rows with these columns. Raises `DataDamaged` for rows that are not of the topic's schema."""
        if self.schema is None:
            return batch.select(list(self.names))
        wanted = self.schema.arrow
        if VALUE in batch.schema.names:
            stored = batch.column(VALUE)
            try:
                value = shown_value(stored, self.schema)
            except (pa.ArrowException, ValueError) as error:
                raise DataDamaged(
                    "rows are not of the topic's schema",
                    operation="read",
                    object=where,
                    expected=wanted,
                    observed=shown(stored.type),
                ) from error
        else:
            value = pa.nulls(batch.num_rows, wanted)
        arrays = [value if name == VALUE else batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Narrow rows shown with more columns to these."""
        arrow = self.arrow
        if VALUE not in self.names or batch.schema.field(VALUE).type == arrow.field(VALUE).type:
            return batch.select(list(self.names))
        value, fields = batch.column(VALUE), list(arrow.field(VALUE).type)
        mask = value.is_null() if value.null_count else None
        some = pa.StructArray.from_arrays([value.field(field.name) for field in fields], fields=fields, mask=mask)
        arrays = [some if name == VALUE else batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def projection_of(columns: Sequence[str] | None, schema: TopicSchema | None) -> Projection:
    """Columns by name: those of messages, ``value``, or some of its fields (``value.amount``, by present or former names). None: all. Raises
    `InvalidArgument` for an unknown name.
    """
    there = [*MESSAGE_SCHEMA.names, *([] if schema is None else [VALUE])]
    if columns is None:
        return Projection(tuple(there), schema)
    fields = {} if schema is None else {_FIELD + field.name: field for field in schema.live}
    former = {} if schema is None else {_FIELD + name: field for name, field in StructType(schema.fields).by_sent_name.items()}
    known = {*there, *(name for name, field in former.items() if not field.retired)}
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns):
        raise InvalidArgument("columns are a list of names", operation="read", expected=", ".join(there), observed=columns)
    if unknown := [name for name in columns if name not in known]:
        raise InvalidArgument(
            f"there are no columns {', '.join(unknown)}", operation="read", expected=", ".join([*there, *fields]), observed=columns
        )
    names = tuple(dict.fromkeys(name.partition(".")[0] for name in columns))
    if schema is None or VALUE not in names:
        return Projection(names, None)
    if VALUE in columns:
        return Projection(names, schema)
    asked = {former[name].id for name in columns if name in former}
    return Projection(names, replace(schema, fields=tuple(field for field in schema.fields if field.id in asked)))
