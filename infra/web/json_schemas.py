"""The JSON schemas of dataclasses. Pure."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from ...log.errors import InternalError
from ..json_values import json_fields

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


class JsonSchemas:
    """JSON schemas, each once."""

    def __init__(self) -> None:
        self.components: dict[str, Json] = {}
        self._kinds: dict[str, Any] = {}

    def of(self, kind: Any) -> Json:  # noqa: ANN401 - a type, or what typing makes of several
        """A dataclass's schema is put among the components."""
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
            schema["properties"] = {name: self.of(_bound(hint, bound)) for name, hint in json_fields(origin).values()}
            schema["required"] = list(schema["properties"])
        return {"$ref": f"#/components/schemas/{name}"}


def _bound(hint: Any, bound: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - types
    if hint in bound:
        return bound[hint]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.Union[tuple(_bound(one, bound) for one in typing.get_args(hint))]  # noqa: UP007 - of a tuple
    return hint


def _title(kind: Any) -> str:  # noqa: ANN401 - a type
    """Such as ``Part_GroupRow_list``."""
    origin, arguments = typing.get_origin(kind), [one for one in typing.get_args(kind) if one is not ...]
    if origin is None:
        return getattr(kind, "__name__", str(kind))
    names = [_title(one) for one in arguments]
    return "_".join([*names, "list"]) if origin is tuple else "_".join([origin.__name__, *names])
