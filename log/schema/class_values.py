"""Values of typed topics as objects of the users' classes (``message.as_(Order)``)."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, NotRequired, Required, TypeAlias, TypeVar, Union
from uuid import UUID

from ..errors import InvalidArgument
from ..limits import plain
from .python_types import hints_of, is_class_of_fields, is_model

T = TypeVar("T")
_OPERATION = "message.as_"

Convert: TypeAlias = Callable[[Any], Any]


def value_of_class(value: Mapping[str, Any] | None, cls: type[T]) -> T | None:
    """A message's value as a dataclass, a NamedTuple, a TypedDict or a pydantic model.

    Fields that the class lacks are left out. A missing field, or NULL against its annotation, takes its default, else None if allowed. Raises
    `InvalidArgument`, naming class and field.
    """
    if not is_class_of_fields(cls):
        raise InvalidArgument(
            "a value cannot become this",
            operation=_OPERATION,
            expected="a dataclass, a NamedTuple, a TypedDict or a pydantic model",
            observed=plain(cls),
        )
    if value is None:
        return None
    made: T = _of_class(cls, value)
    return made


def missing_fields(cls: type, names: Collection[str]) -> list[str]:
    """The fields without which no ``cls`` can be made, and that are not among ``names``. Raises `InvalidArgument` for a class that is none."""
    return [one.name for one in _wanted(cls) if one.name not in names and not (one.optional or one.spare)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    name: str
    given_as: str
    convert: Convert | None
    optional: bool
    spare: bool


@cache
def _reader(cls: type) -> Callable[[Mapping[str, Any]], Any]:
    wanted = _wanted(cls)
    make = _maker(cls)

    def read(value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a `cls`
        taken = {}
        for field in wanted:
            found = value.get(field.name)
            if found is not None:
                taken[field.given_as] = found if field.convert is None else field.convert(found)
            elif field.optional and (not field.spare or field.name in value):
                taken[field.given_as] = None
            elif not field.spare:
                raise InvalidArgument(
                    "the class needs a field that the message has not",
                    operation=_OPERATION,
                    object=f"{cls.__name__}.{field.name}",
                    expected="a value",
                    observed="NULL" if field.name in value else f"the fields {', '.join(value)}",
                    hint="give the class's field a default, or let its annotation allow None",
                )
        return make(taken)

    return read


def _maker(cls: type) -> Callable[[dict[str, Any]], Any]:
    if not is_model(cls):
        return lambda taken: cls(**taken)

    def validated(taken: dict[str, Any]) -> Any:  # noqa: ANN401 - a `cls`
        try:
            return cls.model_validate(taken)  # type: ignore[attr-defined]
        except ValueError as error:  # of pydantic, which need not be installed
            raise InvalidArgument(
                "the model refuses the message's value", operation=_OPERATION, object=cls.__name__, observed=str(error)
            ) from error

    return validated


def _wanted(cls: type) -> tuple[_Wanted, ...]:
    hints = hints_of(cls, operation=_OPERATION, where=cls.__name__)
    return tuple(_field(cls, name, given_as, hints[name], spare) for name, given_as, spare in _given(cls, hints))


def _field(cls: type, name: str, given_as: str, hint: object, spare: bool) -> _Wanted:
    inner, optional = _without_none(hint)
    return _Wanted(name, given_as, _convert(inner, f"{cls.__name__}.{name}"), optional, spare)


def _given(cls: type, hints: Mapping[str, object]) -> list[tuple[str, str, bool]]:
    """Names, names in the constructor, and whether each is optional."""
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        return [
            (one.name, one.name, one.default is not missing or one.default_factory is not missing)
            for one in dataclasses.fields(cls)
            if one.init
        ]
    if is_model(cls):
        models: Mapping[str, Any] = cls.model_fields  # type: ignore[attr-defined]
        return [(name, _alias(name, model), not model.is_required()) for name, model in models.items()]
    if typing.is_typeddict(cls):
        return [(name, name, _may_be_left_out(cls, name, hint)) for name, hint in hints.items()]
    defaults: Mapping[str, object] = cls._field_defaults  # type: ignore[attr-defined]
    return [(name, name, name in defaults) for name in cls._fields]  # type: ignore[attr-defined]


def _may_be_left_out(cls: type, name: str, hint: object) -> bool:
    """``__optional_keys__`` is wrong for annotations that are texts."""
    origin = typing.get_origin(hint)
    return origin is NotRequired or (origin is not Required and name in cls.__optional_keys__)  # type: ignore[attr-defined]


def _alias(name: str, model: Any) -> str:  # noqa: ANN401 - a field of pydantic
    alias = getattr(model, "validation_alias", None)
    return alias if isinstance(alias, str) else name


def _without_none(hint: object) -> tuple[object, bool]:
    """An annotation without its qualifiers, and whether it allows None."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Annotated, Required, NotRequired):
        return _without_none(arguments[0])
    if origin in (Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        inner = _without_none(others[0]) if len(others) == 1 else (object, False)
        return inner[0], len(others) < len(arguments) or inner[1]
    return hint, hint in (Any, object, None, type(None))


def _convert(hint: object, where: str) -> Convert | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and is_class_of_fields(hint):
        return partial(_of_class, hint)
    if hint is UUID or (isinstance(hint, type) and issubclass(hint, Enum)):
        return _parsed(hint, where)
    if origin in (list, Sequence, tuple) and arguments:
        return _sequence(tuple if origin is tuple else list, arguments[0], where)
    if origin in (dict, Mapping) and arguments:
        key, item = (_part(one, where) for one in arguments)
        if key is not None or item is not None:
            keys, items = key or _same, item or _same
            return lambda value: {keys(name): items(one) for name, one in value.items()}
    return None


def _of_class(cls: type, value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a `cls`
    """The class's plan is looked up late, as classes may name themselves."""
    return _reader(cls)(value)


def _sequence(make: type, element: object, where: str) -> Convert | None:
    convert = _part(element, where)
    if convert is None:
        return None if make is list else make
    return lambda value: make(map(convert, value))


def _part(hint: object, where: str) -> Convert | None:
    convert = _convert(_without_none(hint)[0], where)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _parsed(cls: type, where: str) -> Convert:
    def parse(value: object) -> object:
        try:
            return cls(value)
        except (ValueError, AttributeError) as error:  # the latter by UUID
            raise InvalidArgument(
                "the message's value does not fit the class",
                operation=_OPERATION,
                object=where,
                expected=cls.__name__,
                observed=plain(value),
            ) from error

    return parse


def _same(value: object) -> object:
    return value
