"""Types that hold all values of others, unchanged."""

from __future__ import annotations

from typing import NamedTuple

from .fields import (
    DECIMAL_DIGITS_MAX,
    FLOATS,
    INTEGER_BITS,
    ArrayType,
    DecimalType,
    FieldType,
    PrimitiveType,
    array_of,
    integer_bits,
    is_number,
)

_WIDER = (tuple(INTEGER_BITS), FLOATS)
"""Each type holds all values of the one before."""


class _Digits(NamedTuple):
    before_point: int
    after_point: int


def holds(wide: FieldType, narrow: FieldType) -> bool:
    """Whether one type holds all values of another, as they are. Text holds only text."""
    match wide, narrow:
        case ArrayType(), ArrayType():
            return holds(wide.element.type, narrow.element.type)
        case DecimalType(), _:
            needed = _digits(narrow)
            return needed is not None and all(a >= b for a, b in zip(_of_decimal(wide), needed, strict=True))
        case _:
            return wide == narrow or wide in wider_types(narrow)


def holds_stored(wide: FieldType, narrow: FieldType) -> bool:
    """Whether a column of one type without parts holds another's values in files that are there already.

    Unlike `holds`, integers do not become decimals, and decimals keep their scale: readers take stored digits as they are.
    """
    match wide, narrow:
        case DecimalType(), DecimalType():
            return wide.scale == narrow.scale and holds(wide, narrow)
        case PrimitiveType(), PrimitiveType():
            return holds(wide, narrow)
        case _:
            return False


def wider_types(type_: FieldType) -> tuple[PrimitiveType, ...]:
    """The wider integers, or floats."""
    return next((chain[chain.index(type_) + 1 :] for chain in _WIDER if type_ in chain), ())


def widest(one: FieldType, other: FieldType) -> FieldType:
    """The narrowest type that holds the values of both, or else text."""
    if holds(one, other):
        return one
    if holds(other, one):
        return other
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return array_of(widest(one.element.type, other.element.type))
    first, second = _digits(one), _digits(other)
    if first is None or second is None:
        return PrimitiveType.STRING
    before, after = (max(pair) for pair in zip(first, second, strict=True))
    return DecimalType(before + after, after) if before + after <= DECIMAL_DIGITS_MAX else PrimitiveType.STRING


def required_type(has: FieldType, told: FieldType) -> FieldType:
    """The type for a column whose source has another type: the same where it holds the source's values.

    A number becomes one that holds both: earlier rows may have values that the source's type has not.
    """
    if holds(has, told):
        return has
    if is_number(has) and is_number(told):
        both = widest(has, told)
        return told if both is PrimitiveType.STRING else both
    return told


def _digits(type_: FieldType) -> _Digits | None:
    """The digits before and after the point; None for other types."""
    if isinstance(type_, DecimalType):
        return _of_decimal(type_)
    bits = integer_bits(type_)
    return None if bits is None else _Digits(len(f"{1 << bits - 1}"), 0)


def _of_decimal(type_: DecimalType) -> _Digits:
    return _Digits(type_.precision - type_.scale, type_.scale)
