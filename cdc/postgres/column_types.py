"""The types of target and topic columns for PostgreSQL's types. Pure."""

from __future__ import annotations

from ...log.schema.fields import FieldType, PrimitiveType, decimal_of

BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8, TIMESTAMP, TIMESTAMPTZ = 16, 17, 20, 21, 23, 26, 700, 701, 1114, 1184
DATE, NUMERIC = 1082, 1700
_MODIFIER_BASE = 4
"""The header's length in a numeric's modifier."""

_TYPES: tuple[tuple[int, str, PrimitiveType], ...] = (
    (BOOL, "boolean", PrimitiveType.BOOLEAN),
    (BYTEA, "bytea", PrimitiveType.BINARY),
    (INT2, "smallint", PrimitiveType.SMALLINT),
    (INT4, "integer", PrimitiveType.INT),
    (INT8, "bigint", PrimitiveType.BIGINT),
    (OID, "oid", PrimitiveType.BIGINT),
    (FLOAT4, "real", PrimitiveType.FLOAT),
    (FLOAT8, "double precision", PrimitiveType.DOUBLE),
    (DATE, "date", PrimitiveType.DATE),
    (TIMESTAMP, "timestamp without time zone", PrimitiveType.TIMESTAMP_NTZ),
    (TIMESTAMPTZ, "timestamp with time zone", PrimitiveType.TIMESTAMP),
)
"""Types by OID and by name in ``information_schema``. Except for numerics, others are text."""
TYPES_BY_OID = {oid: type_ for oid, _, type_ in _TYPES}
TYPES_BY_NAME = {name: type_ for _, name, type_ in _TYPES}


def numeric_type(precision: int | None, scale: int) -> FieldType:
    """The type of a numeric: text without a precision, or with more digits than a decimal's."""
    return (None if precision is None else decimal_of(precision, scale)) or PrimitiveType.STRING


def numeric_type_of(modifier: int) -> FieldType:
    """The same by the modifier in the catalogue or the log."""
    if modifier < _MODIFIER_BASE:
        return numeric_type(None, 0)
    precision, scale = divmod(modifier - _MODIFIER_BASE, 1 << 16)
    return numeric_type(precision, (scale & 0x7FF ^ 0x400) - 0x400)  # since PostgreSQL 15 it may be negative
