"""The meaning of a field of Connect's schema. For an unknown name Connect's own type counts."""

from __future__ import annotations

from typing import NamedTuple

from ....log.schema.fields import DECIMAL_DIGITS_MAX, FieldType, PrimitiveType, array_of, decimal_of, is_number
from ..conversion import Convert, UnfitValue, each, unscaled
from ..target_types import element_of, target_type
from .schema import FieldSchema
from .times import days, local_times, structured_date, structured_time, structured_time_of_day, times_of_day, without_zone

_KINDS = {
    "int8": PrimitiveType.TINYINT,
    "int16": PrimitiveType.SMALLINT,
    "int32": PrimitiveType.INT,
    "int64": PrimitiveType.BIGINT,
    "float32": PrimitiveType.FLOAT,
    "float": PrimitiveType.FLOAT,
    "float64": PrimitiveType.DOUBLE,
    "double": PrimitiveType.DOUBLE,
    "boolean": PrimitiveType.BOOLEAN,
    "string": PrimitiveType.STRING,
    "bytes": PrimitiveType.BINARY,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"
_NUMERICS = ("NUMERIC", "DECIMAL", "DECIMAL UNSIGNED", "NUMBER")
"""Types at the source whose digits connectors may write as text (``decimal.handling.mode=string``)."""


class _Time(NamedTuple):
    type: PrimitiveType
    read: Convert | None


_OF_DEBEZIUM = {
    "Date": _Time(PrimitiveType.DATE, days),
    "IsoDate": _Time(PrimitiveType.DATE, without_zone),
    "StructuredDate": _Time(PrimitiveType.DATE, structured_date),
    "Timestamp": _Time(PrimitiveType.TIMESTAMP_NTZ, local_times(1_000)),
    "MicroTimestamp": _Time(PrimitiveType.TIMESTAMP_NTZ, local_times(1_000_000)),
    "NanoTimestamp": _Time(PrimitiveType.TIMESTAMP_NTZ, local_times(1_000_000_000)),
    "IsoTimestamp": _Time(PrimitiveType.TIMESTAMP_NTZ, without_zone),
    "StructuredTimestamp": _Time(PrimitiveType.TIMESTAMP_NTZ, structured_time),
    "ZonedTimestamp": _Time(PrimitiveType.TIMESTAMP, None),
    "StructuredZonedTimestamp": _Time(PrimitiveType.TIMESTAMP, structured_time),
    "Time": _Time(PrimitiveType.STRING, times_of_day(1_000)),
    "MicroTime": _Time(PrimitiveType.STRING, times_of_day(1_000_000)),
    "NanoTime": _Time(PrimitiveType.STRING, times_of_day(1_000_000_000)),
    "IsoTime": _Time(PrimitiveType.STRING, without_zone),
    "StructuredTime": _Time(PrimitiveType.STRING, structured_time_of_day),
    "ZonedTime": _Time(PrimitiveType.STRING, None),
    "StructuredZonedTime": _Time(PrimitiveType.STRING, structured_time_of_day),
}
_OF_CONNECT = {
    "Date": _OF_DEBEZIUM["Date"],
    "Timestamp": _OF_DEBEZIUM["Timestamp"],
    "Time": _OF_DEBEZIUM["Time"],
}
_TIMES = {f"io.debezium.time.{name}": time for name, time in _OF_DEBEZIUM.items()} | {
    f"org.apache.kafka.connect.data.{name}": time for name, time in _OF_CONNECT.items()
}


def column_type(field: FieldSchema) -> FieldType:
    if time := _TIMES.get(field.name):
        return time.type
    if field.name == _DECIMAL:
        return _decimal(field.precision, field.scale)
    if field.type == "array" and field.items is not None:
        return _array(field)
    if field.type == "string" and field.source_type in _NUMERICS and field.source_precision:
        return _decimal(field.source_precision, field.source_scale)
    return _KINDS.get(field.type, PrimitiveType.STRING)


def reader(field: FieldSchema, type_: FieldType) -> Convert | None:
    """The reader of a field's values for a column of this type, which raises `UnfitValue`; None where JSON's value is the value."""
    if (element := element_of(type_)) is not None:
        read = None if field.items is None else reader(field.items, element)
        return None if read is None else each(read)
    if time := _TIMES.get(field.name):
        return None if is_number(type_) else time.read  # a number of units, as it was declared
    if field.name == _DECIMAL:
        return lambda value: _unscaled(value, field.scale)
    return _variable_scale if field.name == _ANY_SCALE else None


def _array(field: FieldSchema) -> FieldType:
    """Text for more dimensions than any column holds."""
    levels, items = 0, field
    while items.type == "array" and items.items is not None:
        levels, items = levels + 1, items.items
    type_ = column_type(items)
    for _ in range(levels):
        type_ = array_of(type_)
    return target_type(type_) or PrimitiveType.STRING


def _decimal(precision: int | None, scale: int) -> FieldType:
    """Text for more digits than any column holds. PostgreSQL's scale may be negative, or above the precision."""
    digits = DECIMAL_DIGITS_MAX if precision is None else max(precision, scale, precision - scale, 1)
    return decimal_of(digits, max(scale, 0)) or PrimitiveType.STRING


def _unscaled(value: object, scale: int) -> object:
    if not isinstance(value, str):
        return value
    try:
        return unscaled(value, scale)
    except ValueError as error:
        raise UnfitValue(f"{value[:60]!r} is no base64, as the event's schema says of this decimal") from error


def _variable_scale(value: object) -> object:
    if not isinstance(value, dict):
        return value
    try:
        return unscaled(value["value"], int(value["scale"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnfitValue(f"{str(value)[:60]} is no decimal of any scale, as the event's schema says") from error
