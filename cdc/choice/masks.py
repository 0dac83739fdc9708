"""Masks of columns: functions that replace an event's values first of all."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self, TypeAlias

from ...log.errors import InvalidArgument
from ..events.conversion import text_of

_SHOWN = 4
_STARS = "*" * 4
_CONSTANT = "constant:"


@dataclass(frozen=True)
class Mask:
    """A function of a column's values in events, before their conversion to the column's type. NULL stays NULL."""

    function: Callable[[Any], Any]
    keeps_apart: bool = False
    """Whether different values stay different, as a key column needs."""
    keeps_type: bool = False
    """Whether the column keeps its events' type. Otherwise masked values give it, or the user."""
    name: str = "a function"

    @classmethod
    def of(cls, mask: MaskLike) -> Self:
        """The mask of a name or a function. Raises `InvalidArgument`."""
        if isinstance(mask, cls):
            return mask
        if callable(mask):
            return cls(mask, name=getattr(mask, "__qualname__", cls.name))
        if isinstance(mask, str) and mask.startswith(_CONSTANT):
            constant = mask.removeprefix(_CONSTANT)
            return cls(_Constant(constant), name=mask)
        found = _NAMED.get(mask) if isinstance(mask, str) else None
        if found is None:
            near = difflib.get_close_matches(str(mask), _NAMED, 1)
            raise InvalidArgument(
                "there is no such mask",
                operation="sync",
                expected=f"{', '.join(_NAMED)}, {_CONSTANT}TEXT, or from Python a function of one value",
                observed=repr(mask),
                hint=f"did you mean {near[0]}?" if near else None,
            )
        function, keeps_apart, keeps_type = found
        return cls(function, keeps_apart, keeps_type, str(mask))


MaskLike: TypeAlias = "Mask | str | Callable[[Any], Any]"


@dataclass(frozen=True)
class _Constant:
    """One text for all values; a class, to be pickled."""

    text: str

    def __call__(self, value: object) -> str:
        return self.text


def sha256(value: object) -> str:
    """The SHA-256 of a value, as hexadecimal text, the same however events write it: for 1, 1.0 and "1"."""
    data = value if isinstance(value, bytes) else plain_text(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()


def last4(value: object) -> str:
    """Four stars and the last four characters; only stars for fewer than eight."""
    text = plain_text(value)
    return _STARS + text[-_SHOWN:] if len(text) >= 2 * _SHOWN else _STARS


def null(value: object) -> None:
    """NULL."""


def plain_text(value: object) -> str:
    """A value as text, the same for equal numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and value.is_finite():
        value = value.normalize() if value else Decimal(0)
    return text_of(value) if not isinstance(value, Decimal) or value.is_finite() else str(value)


_NAMED: Mapping[str, tuple[Callable[[Any], Any], bool, bool]] = {
    "sha256": (sha256, True, False),
    "last4": (last4, False, False),
    "null": (null, False, True),
}
"""Functions by name, each with ``keeps_apart`` and ``keeps_type``."""
