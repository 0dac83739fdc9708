"""The form of a topic's table for Delta's readers: columns, properties and protocol.

Files have every field under its stored name, which never changes. While each field in use has that name, and every time a zone, the protocol is (1,
2). A rename, or reuse of a retired field's name, brings column mapping by name for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from ...errors import DataDamaged
from ...format.forms import converted
from ...format.stored_json import shown, whole_number
from ...message.message import MESSAGE_SCHEMA
from ...schema.arrow_types import fields_of_arrow
from ...schema.fields import (
    ELEMENT,
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
from .table_metadata import (
    COLUMN_MAPPING,
    TIMESTAMP_NTZ,
    Action,
    Protocol,
    TableMetadata,
    fields_of,
    joined,
    with_features,
)

VERSION_PROPERTY = "penstock.schemaVersion"
"""The property with the version of the topic's schema."""
MAPPING_PROPERTY = "delta.columnMapping.mode"
MAX_ID_PROPERTY = "delta.columnMapping.maxColumnId"
_ID, _PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_VALUE_COLUMN = "value"
_VALUE_ID = 1_000
"""The number under column mapping, below those of its fields."""
_HEADER_PARTS_ID = 900
_KINDS = {
    PrimitiveType.TINYINT: "byte",
    PrimitiveType.SMALLINT: "short",
    PrimitiveType.INT: "integer",
    PrimitiveType.BIGINT: "long",
}
_HEADER = StructType(
    (
        Field("key", PrimitiveType.STRING, id=_HEADER_PARTS_ID + 1, stored_name="key"),
        Field("value", PrimitiveType.BINARY, id=_HEADER_PARTS_ID + 2, stored_name="value"),
    )
)
_LATER_COLUMNS: tuple[tuple[str, FieldType], ...] = (("key", PrimitiveType.BINARY), ("headers", ArrayType(Field(ELEMENT, _HEADER))))
"""Columns that older files lack."""


def _message_columns() -> tuple[Field, ...]:
    later = {*dict(_LATER_COLUMNS), _VALUE_COLUMN}
    first = [(field.name, field.type) for field in fields_of_arrow(MESSAGE_SCHEMA) if field.name not in later]
    columns = enumerate([*first, *_LATER_COLUMNS], start=1)
    return tuple(Field(name, type_, id=number, stored_name=name) for number, (name, type_) in columns)


_MESSAGE_COLUMNS = _message_columns()


@dataclass(frozen=True)
class TableForm:
    """The table's form for one version of the topic's schema."""

    columns: tuple[Field, ...]
    version: int
    """0: no schema."""
    last_id: int
    """The highest number, retired fields included."""
    mapped: bool

    @cached_property
    def delta_columns(self) -> list[dict[str, Any]]:
        return [_delta_field(column, self.mapped) for column in self.columns]

    @property
    def schema_string(self) -> str:
        return _schema_string(self.delta_columns)

    @property
    def configuration(self) -> Mapping[str, str]:
        of_mapping = {MAPPING_PROPERTY: "name", MAX_ID_PROPERTY: str(self.last_id)} if self.mapped else {}
        return {VERSION_PROPERTY: str(self.version), **of_mapping} if self.version else of_mapping

    @property
    def protocol(self) -> Protocol:
        without_zone = any(field.type is PrimitiveType.TIMESTAMP_NTZ for field in _live(self.columns))
        return with_features(*[COLUMN_MAPPING] * self.mapped, *[TIMESTAMP_NTZ] * without_zone)


def table_form(schema: TopicSchema | None) -> TableForm:
    if schema is None:
        return TableForm(_MESSAGE_COLUMNS, 0, _VALUE_ID, mapped=False)
    value = Field(_VALUE_COLUMN, StructType(schema.fields), stored_name=_VALUE_COLUMN)
    columns = (*_MESSAGE_COLUMNS, replace(_moved(value), id=_VALUE_ID))
    mapped = any(field.name != field.stored_name for field in _live(schema.fields))
    return TableForm(columns, schema.version, _VALUE_ID + schema.last_id, mapped)


def _moved(field: Field) -> Field:
    """A field with the numbers of a part of the column `value`."""
    parts = tuple(_moved(part) for part in parts_of(field.type))
    return replace(field, id=_VALUE_ID + field.id, type=with_parts(field.type, parts))


UNTYPED = table_form(None)


def is_of_schema(found: TableMetadata, version: int) -> bool:
    """Whether a table has what this version of the schema needs (0: no schema)."""
    return _version(found) >= version


def _version(found: TableMetadata) -> int:
    return whole_number(found.configuration.get(VERSION_PROPERTY) or "0") or 0


def table_update(found: TableMetadata, found_protocol: Protocol, wanted: TableForm) -> tuple[Action, ...]:
    """The actions that a table lacks for files of the form ``wanted``.

    A table of a later version stays as it is. So do others' name, description, properties, and comments of columns. A protocol is never lowered, and
    column mapping never ends. Raises `DataDamaged` for an unreadable schema.
    """
    if _version(found) > wanted.version:
        return ()
    wanted = replace(wanted, mapped=wanted.mapped or found.configuration.get(MAPPING_PROPERTY, "none") != "none")
    columns = _with_theirs(wanted.delta_columns, _columns(found))
    configuration = {**found.configuration, **wanted.configuration}
    protocol = joined(found_protocol, wanted.protocol)
    actions: list[Action] = []
    if protocol != found_protocol:
        actions.append({"protocol": fields_of(protocol)})
    if columns != _columns(found) or configuration != found.configuration:
        made = msgspec.structs.replace(found, schema_string=_schema_string(columns), configuration=configuration)
        actions.append({"metaData": fields_of(made)})
    return tuple(actions)


def _columns(found: TableMetadata) -> list[dict[str, Any]]:
    try:
        fields = msgspec.json.decode(found.schema_string)["fields"]
        return converted(fields, list[dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError) as error:
        raise DataDamaged("the table has no schema that can be read", object=found.id, observed=shown(error)) from error


def _with_theirs(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The wanted columns, with others' notes on columns of these names."""
    notes = {column.get("name"): column.get("metadata") for column in found}
    made = []
    for column in wanted:
        theirs = notes.get(column["name"])
        made.append({**column, "metadata": {**(theirs if isinstance(theirs, dict) else {}), **column["metadata"]}})
    return made


def _schema_string(columns: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": columns}, separators=(",", ":"))


def _live(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in StructType(fields).live:
        yield field
        yield from _live(parts_of(field.type))


def _delta_field(field: Field, mapped: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"comment": field.doc} if field.doc else {}
    if mapped:
        metadata |= {_ID: field.id, _PHYSICAL_NAME: field.stored_name}
    return {"name": field.name, "type": _delta_type(field.type, mapped), "nullable": True, "metadata": metadata}


def _delta_type(type_: FieldType, mapped: bool) -> str | dict[str, Any]:
    match type_:
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case StructType():
            return {"type": "struct", "fields": [_delta_field(field, mapped) for field in type_.live]}
        case ArrayType(element):
            return {"type": "array", "elementType": _delta_type(element.type, mapped), "containsNull": True}
        case MapType(key, value):
            key_type, value_type = _delta_type(key.type, mapped), _delta_type(value.type, mapped)
            return {"type": "map", "keyType": key_type, "valueType": value_type, "valueContainsNull": True}
        case kind:
            return _KINDS.get(kind, str(kind))
