"""Fields to Arrow and back."""

from __future__ import annotations

import pyarrow as pa

from ..errors import InvalidArgument
from .fields import ELEMENT, KEY, VALUE, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join

_ARROW: dict[FieldType, pa.DataType] = {
    PrimitiveType.BOOLEAN: pa.bool_(),
    PrimitiveType.TINYINT: pa.int8(),
    PrimitiveType.SMALLINT: pa.int16(),
    PrimitiveType.INT: pa.int32(),
    PrimitiveType.BIGINT: pa.int64(),
    PrimitiveType.FLOAT: pa.float32(),
    PrimitiveType.DOUBLE: pa.float64(),
    PrimitiveType.STRING: pa.string(),
    PrimitiveType.BINARY: pa.binary(),
    PrimitiveType.DATE: pa.date32(),
    PrimitiveType.TIMESTAMP: pa.timestamp("us", "UTC"),
    PrimitiveType.TIMESTAMP_NTZ: pa.timestamp("us"),
}
_KINDS: dict[pa.DataType, PrimitiveType] = {
    **{arrow: kind for kind, arrow in _ARROW.items() if isinstance(kind, PrimitiveType)},
    pa.uint8(): PrimitiveType.SMALLINT,
    pa.uint16(): PrimitiveType.INT,
    pa.uint32(): PrimitiveType.BIGINT,
    pa.float16(): PrimitiveType.FLOAT,
    pa.large_string(): PrimitiveType.STRING,
    pa.string_view(): PrimitiveType.STRING,
    pa.large_binary(): PrimitiveType.BINARY,
    pa.binary_view(): PrimitiveType.BINARY,
    pa.date64(): PrimitiveType.DATE,
}
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
_DOC = b"comment"
"""Where Spark writes a field's description."""


def arrow_fields(fields: tuple[Field, ...], *, stored: bool = False) -> list[pa.Field]:
    """The fields in use. ``stored``: retired ones too, by stored names, all nullable."""
    return [_arrow_field(field, stored) for field in fields if stored or not field.retired]


def _arrow_field(field: Field, stored: bool) -> pa.Field:
    name = field.stored_name if stored else field.name
    return pa.field(name, arrow_type(field.type, stored=stored), field.nullable or stored)


def arrow_type(type_: FieldType, *, stored: bool = False) -> pa.DataType:
    match type_:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case StructType(fields):
            return pa.struct(arrow_fields(fields, stored=stored))
        case ArrayType(element):
            return pa.list_(pa.field(ELEMENT, arrow_type(element.type, stored=stored), element.nullable or stored))
        case MapType(key, value):
            item = pa.field(VALUE, arrow_type(value.type, stored=stored), value.nullable or stored)
            return pa.map_(pa.field(KEY, arrow_type(key.type, stored=stored), nullable=False), item)
        case kind:
            return _ARROW[kind]


def fields_of_arrow(schema: pa.Schema | pa.StructType) -> tuple[Field, ...]:
    """Raises `InvalidArgument`, naming the path, for a type that no topic can have."""
    return tuple(_field(schema.field(number), "") for number in range(len(schema.names)))


def _field(arrow: pa.Field, under: str) -> Field:
    doc = (arrow.metadata or {}).get(_DOC, b"").decode("utf-8", "replace")
    return Field(arrow.name, type_of_arrow(arrow.type, join(under, arrow.name)), arrow.nullable, doc)


def type_of_arrow(arrow: pa.DataType, path: str) -> FieldType:
    """The type that holds all values of an Arrow type. Raises `InvalidArgument`."""
    if (kind := _KINDS.get(arrow)) is not None:
        return kind
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return PrimitiveType.TIMESTAMP_NTZ if arrow.tz is None else PrimitiveType.TIMESTAMP
    if pa.types.is_fixed_size_binary(arrow):
        return PrimitiveType.BINARY
    if pa.types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type, path)
    if pa.types.is_struct(arrow):
        return StructType(tuple(_field(arrow.field(number), path) for number in range(arrow.num_fields)))
    if pa.types.is_map(arrow):
        key = Field(KEY, type_of_arrow(arrow.key_type, join(path, KEY)), nullable=False)
        return MapType(key, Field(VALUE, type_of_arrow(arrow.item_type, join(path, VALUE)), arrow.item_field.nullable))
    if any(is_list(arrow) for is_list in _LISTS):
        return ArrayType(Field(ELEMENT, type_of_arrow(arrow.value_type, join(path, ELEMENT)), arrow.value_field.nullable))
    raise _refusal(arrow, path)


def _refusal(arrow: pa.DataType, path: str) -> InvalidArgument:
    return InvalidArgument(
        "a topic has no such type",
        operation="read a schema",
        object=path,
        expected=f"what {', '.join(PrimitiveType)}, decimal(p,s), array, map or struct can hold",
        observed=str(arrow),
        hint="use decimal(20,0)" if arrow == pa.uint64() else None,
    )
