"""The types of a sync's options. Fields carry type and help for the command line and the file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from ...log.errors import InvalidArgument

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class OptionType:
    """The values that an option takes; ``expected`` names them in errors."""

    expected: str

    def accepts(self, value: object) -> bool:
        raise NotImplementedError


@dataclass(frozen=True)
class Text(OptionType):
    """Text; with ``path`` also a path."""

    expected: str = "text"
    path: bool = False

    def accepts(self, value: object) -> bool:
        return isinstance(value, (str, os.PathLike) if self.path else str)


@dataclass(frozen=True)
class Flag(OptionType):
    """True or false."""

    expected: str = "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True, init=False)
class OneOf(OptionType):
    """One of some words."""

    words: tuple[str, ...]

    def __init__(self, literal: object) -> None:
        words = get_args(literal)
        *first, last = (repr(word) for word in words)
        object.__setattr__(self, "words", words)
        super().__init__(f"{', '.join(first)} or {last}")

    def accepts(self, value: object) -> bool:
        return value in self.words


@dataclass(frozen=True, init=False)
class Whole(OptionType):
    """A whole number of at least ``least``; with ``size`` it counts bytes."""

    least: int
    size: bool

    def __init__(self, least: int, *, size: bool = False) -> None:
        super().__init__(f"a whole number of {least} or more")
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "size", size)

    def accepts(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.least


@dataclass(frozen=True)
class Texts(OptionType):
    """A list of texts."""

    expected: str = "a list of texts"
    ordered: bool = False
    least: int = 0

    def accepts(self, value: object) -> bool:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        listed = isinstance(value, Sequence) or not self.ordered
        return listed and len(value) >= self.least and all(isinstance(one, str) and one for one in value)


@dataclass(frozen=True)
class TablesOrAll(OptionType):
    """Some tables, all or none."""

    expected: str = "true, false or a list of tables"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool) or Texts().accepts(value)


@dataclass(frozen=True)
class ByName(OptionType):
    """Values by the names of tables or columns. ``of``: the type of each."""

    of: OptionType | None = None

    def accepts(self, value: object) -> bool:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
            return False
        return self.of is None or all(self.of.accepts(one) for one in value.values())


@dataclass(frozen=True)
class Period(OptionType):
    """A duration, checked by the options' class."""

    expected: str = "a duration, such as 7d"

    def accepts(self, value: object) -> bool:
        return True


@dataclass(frozen=True)
class OptionField:
    """An option's type and help."""

    type: OptionType
    help: str = ""
    metavar: str | None = None
    in_file: bool = True


def option(type_: OptionType, help_: str = "", *, metavar: str | None = None, in_file: bool = True) -> Mapping[str, OptionField]:
    return {"option": OptionField(type_, help_, metavar, in_file)}


def options_of(options: type[DataclassInstance]) -> dict[str, tuple[OptionField, Any]]:
    """The options of a class by name, with defaults."""
    return {one.name: (one.metadata["option"], one.default) for one in fields(options) if "option" in one.metadata}


def check_options(options: DataclassInstance, *, of: str | None = None) -> None:
    """Raise `InvalidArgument` for the first value that its option does not take. ``of``: the options' owner."""
    for name, (one, default) in options_of(type(options)).items():
        value = getattr(options, name)
        if not (value is None and default is None) and not one.type.accepts(value):
            raise InvalidArgument(f"bad {name}", operation="sync", object=of, expected=one.type.expected, observed=repr(value))
