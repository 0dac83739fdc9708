"""Binary floating point for the numbers of events."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import inf, isfinite, nextafter
from typing import Any


def double(value: Any) -> float:  # noqa: ANN401 - JSON
    """Raises `ValueError`, `TypeError` or `OverflowError`."""
    return _floating(value, float)


def single(value: Any) -> float:  # noqa: ANN401
    """The nearest float of 32 bits. Raises as `double` does."""
    return _floating(value, nearest_single)


def nearest_single(said: float | Decimal | str) -> float:
    """Rounded once, as a database reads digits. Infinity beyond all floats."""
    near = float(said)
    exact = Decimal(said)
    if exact.is_finite() and isfinite(near) and exact != near and not struct.unpack("q", struct.pack("d", near))[0] & 1:
        # This rounds to odd: only a double whose digits said so lies half way between two floats.
        near = nextafter(near, inf if exact > near else -inf)
    return float(struct.unpack("f", struct.pack("f", near))[0])


def _floating(value: Any, nearest: Callable[[Any], float]) -> float:  # noqa: ANN401
    """The number, if it agrees with all digits written: 0.1 does, 12345678901234567.89 does not."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError
    number = nearest(value)
    said = Decimal(value)
    if not said.is_finite():
        return number
    digits = len(said.as_tuple().digits)
    held = Decimal(number)
    if said != held and (
        isinstance(value, int) or all(said != Context(digits, rounding=how).plus(held) for how in (ROUND_HALF_EVEN, ROUND_HALF_UP))
    ):
        raise ValueError("it would be rounded")
    return number
