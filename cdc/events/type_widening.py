"""Types that hold all values of others, unchanged."""

from __future__ import annotations

import re
from typing import NamedTuple

from .arrays import element_of

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WIDER = (tuple(_DIGITS), ("float", "double"))
"""Each type holds all values of the one before."""
_NUMBERS = (*_DIGITS, "decimal", "float", "double")
_PRECISION_MAX = 38


class _Digits(NamedTuple):
    before_point: int
    after_point: int


def holds(wide: str, narrow: str) -> bool:
    """Whether a column of one `normal_type` holds all values of another, as they are. Text holds only text."""
    if wide == narrow:
        return True
    elements = element_of(wide), element_of(narrow)
    if elements[0] is not None and elements[1] is not None:
        return holds(elements[0], elements[1])
    if any(wide in chain and narrow in chain and chain.index(wide) > chain.index(narrow) for chain in _WIDER):
        return True
    digits, needed = _digits(wide), _digits(narrow)
    is_decimal = _DECIMAL.fullmatch(wide) is not None
    return is_decimal and digits is not None and needed is not None and all(a >= b for a, b in zip(digits, needed, strict=True))


def widest(one: str, other: str) -> str:
    """The narrowest type that holds the values of both, or else text."""
    if holds(one, other):
        return one
    if holds(other, one):
        return other
    elements = element_of(one), element_of(other)
    if elements[0] is not None and elements[1] is not None:
        return f"array<{widest(elements[0], elements[1])}>"
    first, second = _digits(one), _digits(other)
    if first is None or second is None:
        return "string"
    before, after = (max(pair) for pair in zip(first, second, strict=True))
    return f"decimal({before + after},{after})" if before + after <= _PRECISION_MAX else "string"


def required_type(has: str, told: str) -> str:
    """The type for a column whose source has another type: the same where it holds the source's values.

    A number becomes one that holds both: earlier rows may have values that the source's type has not.
    """
    if holds(has, told):
        return has
    if _is_number(has) and _is_number(told):
        both = widest(has, told)
        return told if both == "string" else both
    return told


def _is_number(type_: str) -> bool:
    return type_.partition("(")[0] in _NUMBERS


def _digits(type_: str) -> _Digits | None:
    """The digits before and after the point; None for other types."""
    if found := _DECIMAL.fullmatch(type_):
        return _Digits(int(found[1]) - int(found[2]), int(found[2]))
    return _Digits(_DIGITS[type_], 0) if type_ in _DIGITS else None
