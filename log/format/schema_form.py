"""The stored form of a schema."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..schema.fields import ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, parts_of
from ..schema.rules import DEPTH_MAX
from ..schema.topic_schema import TopicSchema
from .digest import digest
from .stored_json import Name, Number, StoredForm


class FieldForm(StoredForm, frozen=True, omit_defaults=True):
    """The stored form of a field. ``of`` are the parts of its type."""

    id: Number
    name: Name
    type: Name
    nullable: bool = True
    stored: Name = ""
    """Empty: the field's name."""
    retired: Number = 0
    doc: Name = ""
    former: tuple[Name, ...] = ()
    of: tuple[FieldForm, ...] = ()


class SchemaForm(StoredForm, frozen=True):
    """The stored form of a schema."""

    version: Number
    last_id: Number
    fields: tuple[FieldForm, ...]


_STRUCT, _ARRAY, _MAP = "struct", "array", "map"
_NESTED: dict[str, tuple[int | None, Callable[[tuple[Field, ...]], FieldType]]] = {
    _STRUCT: (None, StructType),
    _ARRAY: (1, lambda parts: ArrayType(*parts)),
    _MAP: (2, lambda parts: MapType(*parts)),
}


def schema_form(schema: TopicSchema) -> SchemaForm:
    return SchemaForm(schema.version, schema.last_id, tuple(map(_field_form, schema.fields)))


def fields_digest(fields: tuple[Field, ...]) -> str:
    """A digest of names, types and NOT NULLs of the fields in use."""
    return digest(msgspec.json.encode([_shape(field) for field in fields if not field.retired]))


def _shape(field: Field) -> tuple[object, ...]:
    parts = [_shape(part) for part in parts_of(field.type) if not part.retired]
    return field.name, _type_name(field.type), field.nullable, parts


def _field_form(field: Field) -> FieldForm:
    return FieldForm(
        id=field.id,
        name=field.name,
        type=_type_name(field.type),
        nullable=field.nullable,
        stored="" if field.stored_name == field.name else field.stored_name,
        retired=field.retired,
        doc=field.doc,
        former=field.former_names,
        of=tuple(map(_field_form, parts_of(field.type))),
    )


def _type_name(type_: FieldType) -> str:
    match type_:
        case StructType():
            return _STRUCT
        case ArrayType():
            return _ARRAY
        case MapType():
            return _MAP
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case kind:
            return str(kind)


def schema_of(form: SchemaForm) -> TopicSchema:
    """Raises `ValueError` for a type that does not exist."""
    return TopicSchema(form.version, tuple(_field_of(one, 1) for one in form.fields), form.last_id)


def _field_of(form: FieldForm, depth: int) -> Field:
    if depth > DEPTH_MAX:
        raise ValueError(f"more than {DEPTH_MAX} levels")
    return Field(
        name=form.name,
        type=_type_of(form, depth),
        nullable=form.nullable,
        doc=form.doc,
        id=form.id,
        stored_name=form.stored or form.name,
        retired=form.retired,
        former_names=form.former,
    )


def _type_of(form: FieldForm, depth: int) -> FieldType:
    if form.type in _NESTED:
        count, make = _NESTED[form.type]
        if count is not None and len(form.of) != count:
            raise ValueError(f"{form.type} with {len(form.of)} parts")
        return make(tuple(_field_of(one, depth + 1) for one in form.of))
    if form.of:
        raise ValueError(f"{form.type} with parts")
    return _stored_type(form.type)


def _stored_type(name: str) -> FieldType:
    if name in list(PrimitiveType):
        return PrimitiveType(name)
    digits = name.removeprefix("decimal(").removesuffix(")").split(",")
    type_ = DecimalType(int(digits[0]), int(digits[-1])) if len(digits) == 2 and all(map(str.isdecimal, digits)) else None
    if type_ is None or _type_name(type_) != name:
        raise ValueError(f"no type: {name}")
    return type_
