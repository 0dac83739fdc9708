"""Values as JSON, the same for the command line, the HTTP API and the tools of assistants. Pure."""

from __future__ import annotations

import base64
import dataclasses
import typing
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any

UNTOLD = {"told": False}
"""The metadata of a field that is for this process alone."""


def json_value(value: object) -> Any:  # noqa: ANN401 - JSON
    """A value as JSON: fields by name, durations in seconds under a name that ends in ``_s``, times in UTC, bytes in base 64. A time without
    a zone, as databases have them, stays without one.
    """
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(name): json_value(one) for name, one in value.items()}
        case Sequence():
            return [json_value(one) for one in value]
    if dataclasses.is_dataclass(value):
        kind: type = type(value)
        return {name: json_value(getattr(value, field)) for field, (name, _) in json_fields(kind).items()}
    return str(value)


@cache
def json_fields(kind: type) -> Mapping[str, tuple[str, Any]]:
    """The fields that programs get: the name in JSON and the type of each."""
    hints = _hints(kind)
    told = (one.name for one in dataclasses.fields(kind) if one.metadata.get("told", True))
    return {name: (_name(name, hints.get(name)), hints.get(name)) for name in told}


def _hints(kind: type) -> dict[str, Any]:
    """Types imported for checkers alone are given by their names."""
    try:
        return typing.get_type_hints(kind)
    except NameError:
        return {field.name: field.type for field in dataclasses.fields(kind)}


def _name(name: str, hint: object) -> str:
    is_duration = hint is timedelta or timedelta in typing.get_args(hint)
    return f"{name}_s" if is_duration and not name.endswith("_s") else name
