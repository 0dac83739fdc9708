"""The types that columns of targets can have: a schema's, without structs and maps."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from ...log.errors import CallError, InvalidArgument
from ...log.schema.ddl import parse_type
from ...log.schema.fields import ArrayType, DecimalType, FieldType, PrimitiveType, array_of, decimal_of

if TYPE_CHECKING:
    import pyarrow as pa

_DIMENSIONS = 16
_SHOWN = 200
_LARGE_INTEGERS = DecimalType(38, 0)


def target_type(type_: FieldType, dimensions: int = _DIMENSIONS) -> FieldType | None:
    """A type as a column of a target has it, whose elements may be NULL. None: no column can have it."""
    match type_:
        case PrimitiveType():
            return type_
        case DecimalType(precision, scale):
            return decimal_of(precision, scale)
        case ArrayType(element) if dimensions and (found := target_type(element.type, dimensions - 1)) is not None:
            return array_of(found)
        case _:
            return None


def parse_target_type(text: str) -> FieldType:
    """Raises `InvalidArgument` for a type that no target's column can have."""
    try:
        found = target_type(parse_type(text, path=""))
    except CallError:
        found = None
    if found is None:
        raise InvalidArgument(
            "this is no type that a column of a target can have",
            expected=f"decimal(p,s), {', '.join(sorted(PrimitiveType))}, or array<…> of these",
            observed=repr(text[:_SHOWN]),
            hint="maps and structs are written as JSON text: string",
        )
    return found


def target_type_of_arrow(kind: pa.DataType) -> FieldType | None:
    """None: no column of a target can have the type."""
    from ...log.schema.arrow_types import type_of_arrow

    try:
        return target_type(type_of_arrow(kind, ""))
    except InvalidArgument:
        return None


def element_of(type_: FieldType) -> FieldType | None:
    """None for a type that is no array."""
    return type_.element.type if isinstance(type_, ArrayType) else None


def innermost(type_: FieldType) -> FieldType:
    while isinstance(type_, ArrayType):
        type_ = type_.element.type
    return type_


def infer(value: object) -> FieldType | None:
    """The type of a JSON value."""
    match value:
        case None:
            return None
        case bool():
            return PrimitiveType.BOOLEAN
        case int():
            return PrimitiveType.BIGINT if -(2**63) <= value < 2**63 else _LARGE_INTEGERS
        case float() | Decimal():
            return PrimitiveType.DOUBLE
        case _:
            return PrimitiveType.STRING


def joined(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    """The narrowest type that holds both."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    for narrow, wide in ((PrimitiveType.BIGINT, _LARGE_INTEGERS), (PrimitiveType.BIGINT, PrimitiveType.DOUBLE)):
        if {one, other} == {narrow, wide}:
            return wide
    return PrimitiveType.STRING
