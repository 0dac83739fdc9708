"""Dataclasses as JSON values, and the schemas that describe them: what pages show is what programs get. Pure."""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from ...log.errors import InternalError

Json = dict[str, Any]

_PLAIN: dict[object, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "number", "description": "seconds"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    object: {},
    Any: {},
}


def document(value: object) -> Any:  # noqa: ANN401 - JSON
    """A value as JSON: fields by name, durations in seconds under a name that ends in ``_s``, times in UTC, bytes in base 64."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(name): document(one) for name, one in value.items()}
        case Sequence():
            return [document(one) for one in value]
    if dataclasses.is_dataclass(value):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if is_told(field))
        hints = _hints(type(value))
        return {_name(name, hints.get(name)): document(one) for name, one in fields}
    return str(value)


UNTOLD = {"told": False}
"""The metadata of a field that is for this process alone."""


def is_told(field: dataclasses.Field[Any]) -> bool:
    """Whether programs get a field."""
    return bool(field.metadata.get("told", True))


class JsonSchemas:
    """The JSON schemas of dataclasses, each once."""

    def __init__(self) -> None:
        self.components: dict[str, Json] = {}
        self._kinds: dict[str, Any] = {}

    def of(self, kind: Any) -> Json:  # noqa: ANN401 - a type, or what typing makes of several
        """The schema of a type; that of a dataclass is put among the components."""
        if kind in _PLAIN:
            return _PLAIN[kind]
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [{"type": "null"} if one is type(None) else self.of(one) for one in arguments]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if dataclasses.is_dataclass(origin or kind):
            return self._dataclass(kind, origin or kind, arguments)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"type": "string", "enum": [one.value for one in kind]}
        base = origin or kind
        if isinstance(base, type) and issubclass(base, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1]) if len(arguments) == 2 else {}}
        if isinstance(base, type) and issubclass(base, Sequence):
            return {"type": "array", "items": self.of(arguments[0]) if arguments else {}}
        return {}

    def _dataclass(self, kind: Any, origin: Any, arguments: tuple[Any, ...]) -> Json:  # noqa: ANN401 - types
        name = _title(kind)
        if self._kinds.setdefault(name, kind) != kind:
            raise InternalError(
                "two dataclasses have the same name among the schemas", operation="describe", object=name, observed=repr(kind)
            )
        if name not in self.components:
            schema: Json = {"type": "object", "required": []}
            self.components[name] = schema  # before its fields, which may name it
            bound = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
            hints = _hints(origin)
            schema["properties"] = {
                _name(field.name, hints[field.name]): self.of(_bound(hints[field.name], bound))
                for field in dataclasses.fields(origin)
                if is_told(field)
            }
            schema["required"] = list(schema["properties"])
        return {"$ref": f"#/components/schemas/{name}"}


def _hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    """The types of a dataclass's fields. Those of classes that import types for checkers alone are told by their names."""
    try:
        return typing.get_type_hints(kind)
    except NameError:
        return {field.name: field.type for field in dataclasses.fields(kind)}


def _name(name: str, hint: object) -> str:
    is_duration = hint is timedelta or timedelta in typing.get_args(hint)
    return f"{name}_s" if is_duration and not name.endswith("_s") else name


def _bound(hint: Any, bound: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - types
    """A hint with its type variables filled in."""
    if hint in bound:
        return bound[hint]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.Union[tuple(_bound(one, bound) for one in typing.get_args(hint))]  # noqa: UP007 - of a tuple
    return hint


def _title(kind: Any) -> str:  # noqa: ANN401 - a type
    """The name of a type among the components: ``Part_GroupRow_list``."""
    origin, arguments = typing.get_origin(kind), [one for one in typing.get_args(kind) if one is not ...]
    if origin is None:
        return getattr(kind, "__name__", str(kind))
    names = [_title(one) for one in arguments]
    return "_".join([*names, "list"]) if origin is tuple else "_".join([origin.__name__, *names])
