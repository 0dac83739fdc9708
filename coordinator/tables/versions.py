"""Versions that count a cell's writes."""

from __future__ import annotations

from ...log.errors import InvalidArgument
from ...log.format.stored_json import whole_number
from ...log.runtime.runtime import Runtime
from .protocol import CellVersion

_FIRST_BITS = 62
"""Leaves room to count below 2**63."""


def first_number(runtime: Runtime) -> int:
    """A random start of a cell's count, so that a recreated cell has no former version."""
    return runtime.random.getrandbits(_FIRST_BITS)


def number_of(version: CellVersion) -> int:
    number = whole_number(version.token)
    if number is None:
        raise InvalidArgument("the version is of another table", observed=version.token)
    return number


def version_of(number: object) -> CellVersion:
    return CellVersion(str(number))
