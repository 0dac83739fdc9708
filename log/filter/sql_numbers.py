"""Texts read as numbers, whole columns at a time; any other text becomes NULL."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_INTEGER = r"^[+-]?[0-9]+$"
_DOUBLE = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SURE_DIGITS = 18
"""Digits that always fit 64 bits."""


def integers(texts: pa.Array) -> pa.Array:
    return _read(texts, _INTEGER, pa.int64(), _integer)


def doubles(texts: pa.Array) -> pa.Array:
    """Decimal numbers, with or without an exponent."""
    return _read(texts, _DOUBLE, pa.float64(), float)


def number_of(value: str | float, *, whole: bool) -> int | float | None:
    """A literal as a number, or None."""
    if not isinstance(value, str):
        return value
    if whole:
        return _integer(value) if re.fullmatch(_INTEGER, value) else None
    return float(value) if re.fullmatch(_DOUBLE, value) else None


def _read(texts: pa.Array, pattern: str, type: pa.DataType, one: Callable[[str], int | float | None]) -> pa.Array:
    numbers = pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))
    long = pc.fill_null(pc.greater(pc.binary_length(numbers), _SURE_DIGITS), False)
    short = pc.if_else(long, pa.scalar(None, pa.string()), numbers)
    found = pc.utf8_ltrim(short, "+").cast(type)
    if not pc.any(long).as_py():
        return found
    return pc.replace_with_mask(found, long, pa.array([one(text) for text in numbers.filter(long).to_pylist()], type))


def _integer(text: str) -> int | None:
    number = int(text)
    return number if number in range(-(2**63), 2**63) else None
