"""Arrays as types of columns: their names, and conversion element by element."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_ARRAY = re.compile(r"array\s*<\s*(.*\S)\s*>", re.DOTALL)
_DIMENSIONS = 16
"""More than any database has."""


def element_of(name: str) -> str | None:
    """The type of an array's elements; None for a type that is no array."""
    found = _ARRAY.fullmatch(name)
    return None if found is None else found[1]


def array_of(element: str) -> str | None:
    """An array of elements of this type; None for one of too many dimensions."""
    return f"array<{element}>" if dimensions(element) < _DIMENSIONS else None


def dimensions(name: str) -> int:
    """The number of dimensions; 0 for a type that is no array."""
    return name.count("array")


def innermost(name: str) -> str:
    """The type of what is in an array, whatever its dimensions; a type that is no array as it is."""
    while (element := element_of(name)) is not None:
        name = element
    return name


def each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A converter of arrays whose elements this one converts. NULL stays NULL, and so does what is no array. Raises `ValueError`, which
    names the element.
    """

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
