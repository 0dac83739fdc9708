"""Schemas from Python classes: dataclasses, TypedDicts, NamedTuples and pydantic models.

A field is nullable if its annotation allows None or a TypedDict may lack it; a default makes no field nullable. ``Annotated`` has types that Python
lacks: ``Annotated[Decimal, "decimal(12,2)"]``, ``Annotated[int, "int"]``.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union
from uuid import UUID

from ..errors import InvalidArgument
from ..limits import plain
from .ddl import parse_type
from .fields import ELEMENT, KEY, VALUE, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .rules import Descent

_OPERATION = "read a schema"
_KINDS: dict[object, PrimitiveType] = {
    bool: PrimitiveType.BOOLEAN,
    int: PrimitiveType.BIGINT,
    float: PrimitiveType.DOUBLE,
    str: PrimitiveType.STRING,
    bytes: PrimitiveType.BINARY,
    date: PrimitiveType.DATE,
    datetime: PrimitiveType.TIMESTAMP,
    UUID: PrimitiveType.STRING,
}
_MODEL_KINDS = {"AwareDatetime": PrimitiveType.TIMESTAMP, "NaiveDatetime": PrimitiveType.TIMESTAMP_NTZ}
"""Pydantic's own types."""


def is_class_of_fields(source: object) -> bool:
    """Whether `fields_of_class` reads a class."""
    return isinstance(source, type) and (
        dataclasses.is_dataclass(source) or typing.is_typeddict(source) or _is_named_tuple(source) or is_model(source)
    )


def fields_of_class(source: type) -> tuple[Field, ...]:
    """The fields of a class. Raises `InvalidArgument`, naming the path."""
    return _Converter().fields(source, "", 1)


def hints_of(source: type, *, operation: str, where: str) -> dict[str, Any]:
    """Annotations by name. Raises `InvalidArgument` for an unreadable one."""
    try:
        return typing.get_type_hints(source, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise InvalidArgument(
            "the class's annotations cannot be read",
            operation=operation,
            object=where,
            observed=plain(error),
            hint="define the classes that it names at the top of a module",
        ) from error


def is_model(source: type) -> bool:
    """Does not import pydantic."""
    return isinstance(getattr(source, "model_fields", None), Mapping)


class _Converter:
    def __init__(self) -> None:
        self._descent = Descent(_OPERATION)

    def fields(self, source: type, under: str, depth: int) -> tuple[Field, ...]:
        self._descent.step(under, depth)
        hints = _with_absence(source, hints_of(source, operation=_OPERATION, where=under or source.__name__))
        return tuple(
            self._field(name, _with_metadata(hints[name], extra), join(under, name), depth) for name, extra in _names(source, hints)
        )

    def _field(self, name: str, hint: object, path: str, depth: int) -> Field:
        type_, nullable = self._type(hint, path, depth)
        return Field(name, type_, nullable)

    def _type(self, hint: object, path: str, depth: int, extra: tuple[object, ...] = ()) -> tuple[FieldType, bool]:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self._type(arguments[0], path, depth, (*arguments[1:], *extra))
        if origin in (Required, NotRequired):
            type_, nullable = self._type(arguments[0], path, depth, extra)
            return type_, nullable or origin is NotRequired
        if origin in (Union, types.UnionType):
            others = [one for one in arguments if one is not type(None)]
            if len(others) != 1:
                raise _refusal(hint, path, "one type, or one type or None")
            return self._type(others[0], path, depth, extra)[0], len(others) < len(arguments)
        for said in extra:
            if isinstance(said, str):
                return parse_type(said, path=path), False
        return self._plain_type(hint, origin, arguments, path, depth, extra), False

    def _plain_type(
        self, hint: object, origin: object, arguments: tuple[Any, ...], path: str, depth: int, extra: tuple[object, ...]
    ) -> FieldType:
        if hint is Decimal:
            return _decimal(extra, path)
        if hint in _KINDS:
            return _KINDS[hint]
        if isinstance(hint, type) and hint.__module__ == "pydantic.types" and hint.__name__ in _MODEL_KINDS:
            return _MODEL_KINDS[hint.__name__]
        if origin is Literal and all(isinstance(one, str) for one in arguments):
            return PrimitiveType.STRING
        if isinstance(hint, type) and issubclass(hint, Enum) and all(isinstance(one.value, str) for one in hint):
            return PrimitiveType.STRING
        if isinstance(hint, type) and is_class_of_fields(hint):
            return StructType(self.fields(hint, path, depth + 1))
        if origin in (list, Sequence) or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
            type_, nullable = self._type(arguments[0], join(path, ELEMENT), depth + 1)
            return ArrayType(Field(ELEMENT, type_, nullable))
        if origin in (dict, Mapping):
            key, key_nullable = self._type(arguments[0], join(path, KEY), depth + 1)
            value, nullable = self._type(arguments[1], join(path, VALUE), depth + 1)
            return MapType(Field(KEY, key, key_nullable), Field(VALUE, value, nullable))
        raise _refusal(
            hint,
            path,
            "bool, int, float, str, bytes, date, datetime, Decimal, UUID, an enum of texts, list, dict or a class of fields",
        )


def _names(source: type, hints: Mapping[str, object]) -> list[tuple[str, Sequence[object]]]:
    if dataclasses.is_dataclass(source):
        return [(field.name, ()) for field in dataclasses.fields(source)]
    if is_model(source):
        models: Mapping[str, Any] = source.model_fields  # type: ignore[attr-defined]
        return [(name, tuple(model.metadata)) for name, model in models.items()]
    return [(name, ()) for name in hints]


def _with_absence(source: type, hints: Mapping[str, Any]) -> Mapping[str, Any]:
    """Optional keys of a TypedDict become ``NotRequired``."""
    absent: frozenset[str] = getattr(source, "__optional_keys__", frozenset())
    said = (Required, NotRequired)
    return {
        name: NotRequired[hint] if name in absent and typing.get_origin(hint) not in said else hint for name, hint in hints.items()
    }


def _with_metadata(hint: object, extra: Sequence[object]) -> object:
    return Annotated[(hint, *extra)] if extra else hint


def _decimal(extra: tuple[object, ...], path: str) -> DecimalType:
    digits, places = (_said(extra, name) for name in ("max_digits", "decimal_places"))
    if digits is None:
        raise InvalidArgument(
            "a Decimal needs its digits",
            operation=_OPERATION,
            object=path,
            hint='write Annotated[Decimal, "decimal(12,2)"]',
        )
    return DecimalType(digits, places or 0)


def _said(extra: tuple[object, ...], name: str) -> int | None:
    found = (getattr(one, name, None) for one in extra)
    return next((value for value in found if isinstance(value, int)), None)


def _is_named_tuple(source: type) -> bool:
    return issubclass(source, tuple) and hasattr(source, "_fields") and bool(getattr(source, "__annotations__", None))


def _refusal(hint: object, path: str, expected: str) -> InvalidArgument:
    return InvalidArgument(
        "no type of a topic fits this annotation",
        operation=_OPERATION,
        object=path,
        expected=expected,
        observed=plain(hint),
        hint='Annotated[…, "bigint"] names a type of Spark SQL',
    )
