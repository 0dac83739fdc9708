"""Arrays as types of columns: names, and conversion of elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_ARRAY = re.compile(r"array\s*<\s*(.*\S)\s*>", re.DOTALL)
_DIMENSIONS = 16


def element_of(name: str) -> str | None:
    """None for a type that is no array."""
    found = _ARRAY.fullmatch(name)
    return None if found is None else found[1]


def array_of(element: str) -> str | None:
    """None for too many dimensions."""
    return f"array<{element}>" if dimensions(element) < _DIMENSIONS else None


def dimensions(name: str) -> int:
    """0 for a type that is no array."""
    return name.count("array")


def innermost(name: str) -> str:
    while (element := element_of(name)) is not None:
        name = element
    return name


def each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A converter of arrays; what is no array stays. Raises `ValueError`, which names the element."""

    def convert_all(value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, list):
            return value
        found = []
        for number, one in enumerate(value, start=1):
            try:
                found.append(None if one is None else convert(one))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ValueError(f"element {number}: {error}") from error
        return found

    return convert_all
