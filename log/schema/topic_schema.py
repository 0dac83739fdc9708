"""The schema of a topic in one version: numbered fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from .fields import Field, StructType, field_text, parts_of, walk, with_parts
from .rules import folded

if TYPE_CHECKING:
    import pyarrow as pa

    from .sources import SchemaLike  # what lists topics needs no Arrow


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The fields of a typed topic from one entry of its log on."""

    version: int
    """1 at first, one more with every evolution."""
    fields: tuple[Field, ...]
    """All fields, retired ones included, as in older files."""
    last_id: int
    """The highest number ever given."""

    def __str__(self) -> str:
        return self.ddl

    @staticmethod
    def of(source: SchemaLike) -> TopicSchema:
        """The first version, for `TopicSettings`. Raises `InvalidArgument` or `LimitExceeded`, naming the field."""
        return schema_of_source(source)

    @property
    def live(self) -> tuple[Field, ...]:
        """The fields in use."""
        return StructType(self.fields).live

    @property
    def arrow(self) -> pa.StructType:
        """The type of the column ``value`` for readers and producers."""
        from .arrow_types import arrow_type

        return arrow_type(StructType(self.fields))

    @property
    def stored_arrow(self) -> pa.StructType:
        """The type of the stored column ``value`` of all versions: stored names, all nullable, with retired fields."""
        from .arrow_types import arrow_type

        return arrow_type(StructType(self.fields), stored=True)

    @property
    def ddl(self) -> str:
        """The fields in use, in Spark's SQL."""
        return ", ".join(field_text(field) for field in self.live)


def schema_of_source(source: SchemaLike) -> TopicSchema:
    from .sources import fields_of

    return first_schema(fields_of(source))


def first_schema(fields: tuple[Field, ...]) -> TopicSchema:
    """The first version: checked fields, numbered and named."""
    numbered, last_id = numbered_from(fields, 0)
    return TopicSchema(1, numbered, last_id)


def with_stored_names(schema: TopicSchema, names: Mapping[int, str] = MappingProxyType({})) -> TopicSchema:
    """The same fields, retired ones too, by stored names, which never change: for rows kept elsewhere for a while. ``names`` are those of
    `other_names` at that time.
    """
    return replace(schema, fields=_stored_fields(schema.fields, names))


def other_names(schema: TopicSchema) -> dict[int, str]:
    """The names, by number, of fields in use that differ from stored ones."""
    return {field.id: field.name for _, field in walk(schema.fields) if not field.retired and field.name != field.stored_name}


def _stored_fields(fields: tuple[Field, ...], names: Mapping[int, str]) -> tuple[Field, ...]:
    taken = {names[field.id] for field in fields if field.id in names}
    return tuple(
        replace(
            field,
            name=names.get(field.id, field.stored_name),
            type=with_parts(field.type, _stored_fields(parts_of(field.type), names)),
            nullable=field.nullable or field.retired > 0,
            # A field whose stored name is another one's name was retired when the rows were kept.
            retired=int(field.id not in names and field.stored_name in taken),
            former_names=(),
        )
        for field in fields
    )


def numbered_from(fields: tuple[Field, ...], last_id: int, *, beside: tuple[Field, ...] = ()) -> tuple[tuple[Field, ...], int]:
    """New fields with numbers above ``last_id``, and the last number given. A stored name is the field's, unless one of ``beside``, the struct's
    older fields, has it.
    """
    taken = {folded(one.stored_name) for one in beside}
    made: list[Field] = []
    for field in fields:
        last_id += 1
        own_id = last_id
        parts, last_id = numbered_from(parts_of(field.type), last_id)
        stored_name = field.name
        while folded(stored_name) in taken:
            stored_name += f"__{own_id}"
        taken.add(folded(stored_name))
        made.append(replace(field, id=own_id, stored_name=stored_name, type=with_parts(field.type, parts)))
    return tuple(made), last_id
