"""The table's columns in Iceberg: numbered for ever, and found in files by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...schema.fields import (
    ELEMENT,
    KEY,
    VALUE,
    ArrayType,
    DecimalType,
    Field,
    FieldType,
    MapType,
    PrimitiveType,
    StructType,
    parts_of,
    with_parts,
)
from ...schema.topic_schema import TopicSchema

Json: TypeAlias = dict[str, Any]
UNTYPED_SCHEMA = 0
"""The schema id of an untyped topic; a typed topic's are from 1."""
FIRST_VALUE_ID = 1000
"""Added to a field's number for its id in the table."""
_VALUE_ID = 999
"""The id of the column ``value``; 1000 is the partition's."""


def _field(name: str, type_: FieldType, number: int, *, nullable: bool = True) -> Field:
    return Field(name, type_, nullable, id=number, stored_name=name)


MESSAGE_FIELDS = (
    _field("queue", PrimitiveType.INT, 1),
    _field("offset", PrimitiveType.BIGINT, 2),
    _field("message_id", PrimitiveType.STRING, 3),
    _field("message_group", PrimitiveType.STRING, 4),
    _field("tag", PrimitiveType.STRING, 5),
    _field("keys", ArrayType(_field(ELEMENT, PrimitiveType.STRING, 101)), 6),
    _field(
        "properties", MapType(_field(KEY, PrimitiveType.STRING, 102, nullable=False), _field(VALUE, PrimitiveType.STRING, 103)), 7
    ),
    _field("body", PrimitiveType.BINARY, 8),
    _field("born_timestamp", PrimitiveType.TIMESTAMP, 9),
    _field("store_timestamp", PrimitiveType.TIMESTAMP, 10),
    _field("delivery_timestamp", PrimitiveType.TIMESTAMP, 11),
    _field("producer", PrimitiveType.STRING, 12),
    _field("key", PrimitiveType.BINARY, 13),
    _field(
        "headers",
        ArrayType(
            _field(ELEMENT, StructType((_field(KEY, PrimitiveType.STRING, 105), _field(VALUE, PrimitiveType.BINARY, 106))), 104)
        ),
        14,
    ),
)
"""Columns of every message; older files lack the last two. Their ids never change, and none is used again."""
_LAST_MESSAGE_ID = 106
QUEUE_ID, OFFSET_ID, STORE_TIMESTAMP_ID = 1, 2, 10

_KINDS = {
    PrimitiveType.BOOLEAN: "boolean",
    PrimitiveType.TINYINT: "int",
    PrimitiveType.SMALLINT: "int",
    PrimitiveType.INT: "int",
    PrimitiveType.BIGINT: "long",
    PrimitiveType.FLOAT: "float",
    PrimitiveType.DOUBLE: "double",
    PrimitiveType.STRING: "string",
    PrimitiveType.BINARY: "binary",
    PrimitiveType.DATE: "date",
    PrimitiveType.TIMESTAMP: "timestamptz",
    PrimitiveType.TIMESTAMP_NTZ: "timestamp",
}


@dataclass(frozen=True, slots=True)
class IcebergColumns:
    """The columns at one version of the topic's schema."""

    schema_id: int
    fields: tuple[Field, ...]
    """All fields, retired ones included."""
    last_id: int

    @property
    def schema(self) -> Json:
        return {"type": "struct", "schema-id": self.schema_id, "fields": struct_fields(self.fields)}

    @property
    def name_mapping(self) -> list[Json]:
        return _mapping(self.fields)


def columns_of(schema: TopicSchema | None) -> IcebergColumns:
    if schema is None:
        return IcebergColumns(UNTYPED_SCHEMA, MESSAGE_FIELDS, _LAST_MESSAGE_ID)
    value = _field(VALUE, StructType(_shifted(schema.fields)), _VALUE_ID)
    return IcebergColumns(schema.version, (*MESSAGE_FIELDS, value), FIRST_VALUE_ID + schema.last_id)


def _shifted(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(
        replace(field, id=FIRST_VALUE_ID + field.id, type=with_parts(field.type, _shifted(parts_of(field.type))))
        for field in fields
    )


def struct_fields(fields: tuple[Field, ...]) -> list[Json]:
    made = []
    for field in StructType(fields).live:
        shown: Json = {"id": field.id, "name": field.name, "required": False, "type": _type(field.type)}
        made.append({**shown, "doc": field.doc} if field.doc else shown)
    return made


def _type(type_: FieldType) -> str | Json:
    """Only the key of a map is required, as files may be older than a NOT NULL."""
    match type_:
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case StructType(fields):
            return {"type": "struct", "fields": struct_fields(fields)}
        case ArrayType(element):
            return {"type": "list", "element-id": element.id, "element": _type(element.type), "element-required": False}
        case MapType(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": _type(key.type),
                "value-id": value.id,
                "value": _type(value.type),
                "value-required": False,
            }
        case kind:
            return _KINDS[kind]


def _mapping(fields: tuple[Field, ...]) -> list[Json]:
    made = []
    for field in fields:
        mapped: Json = {"field-id": field.id, "names": [field.stored_name]}
        parts = _mapping(parts_of(field.type))
        made.append({**mapped, "fields": parts} if parts else mapped)
    return made
