"""The columns that a read was planned with, whatever happens to the topic's schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ...log.errors import DataDamaged, ReopenError
from ...log.read.projection import Projection, projection_of
from ...log.schema.fields import Field, FieldType, MapType, StructType, parts_of, with_parts
from ...log.schema.topic_schema import TopicSchema
from ...log.topic.topics import Topic


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """The schema at planning time: without retired fields, each field nullable."""

    schema: TopicSchema
    life: int


def planned_schema(topic: Topic) -> PlannedSchema | None:
    """The plan of a read of this topic now; None without a schema."""
    schema = topic.tail.state.schema
    return None if schema is None else PlannedSchema(replace(schema, fields=_nullable(schema.fields)), topic.life)


def _nullable(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(field, nullable=True, type=_type(field.type)) for field in fields if not field.retired)


def _type(type_: FieldType) -> FieldType:
    match type_:
        case MapType(key, value):
            return MapType(replace(key, type=_type(key.type)), *_nullable((value,)))
        case StructType(fields):
            return StructType(_nullable(fields))
        case _:
            return with_parts(type_, _nullable(parts_of(type_)))


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """The columns to give, and those to read for them."""

    given: Projection
    needed: Projection

    @classmethod
    def of(cls, columns: Sequence[str], more: Sequence[str], planned: PlannedSchema | None) -> PlannedColumns:
        schema = None if planned is None else planned.schema
        needed = list(dict.fromkeys([*columns, *more]))
        return cls(projection_of(list(columns), schema), projection_of(needed, schema))

    def check(self, topic: Topic, planned: PlannedSchema | None) -> None:
        """Raise `ReopenError` if the topic is a later one of its name."""
        if self.needed.schema is not None and planned is not None and planned.life != topic.life:
            raise ReopenError(
                "the topic was deleted and created again since the read was planned, so its fields may be others",
                operation="read",
                object=topic.paths.topic,
                hint="load the DataFrame again; a stream is started again, and goes on from its checkpoint",
            )

    def shown(self, batch: pa.RecordBatch, topic: Topic) -> pa.RecordBatch:
        """Stored rows by the planned schema. Raises `ReopenError` for a value of a later version."""
        try:
            return self.needed.shown(batch, where=topic.paths.topic)
        except DataDamaged as error:
            present, planned = topic.tail.state.schema, self.needed.schema
            if present is None or planned is None or present.version <= planned.version:
                raise
            raise ReopenError(
                "the topic's schema was widened since the read was planned, and a value does not fit the earlier type",
                operation="read",
                object=topic.paths.topic,
                expected=f"values of version {planned.version}: {planned.ddl}",
                observed=f"version {present.version}: {present.ddl}",
                hint="load the DataFrame again; a stream is started again, and goes on from its checkpoint with the new schema",
            ) from error
