"""The seam of the actions, each one value of `Action`.

To add an action: write a module with a frozen dataclass of arguments, a ``preview`` and a ``do``, and an `Action`; name it in `registry.py`. Its page
(preview, confirmation, result), its JSON below ``/api``, the check of rights, and its lines in the audit topic follow.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ....log.errors import InvalidArgument
from ...json_values import UNTOLD
from ..views.page import Breadcrumb, PageContext

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCount:
    """One figure of an action."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedRows:
    """Some of an action's objects."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview:
    """The present effect of an action."""

    summary: str
    stamp: str
    """The touched state as a text of any length: if it changes, the viewer gets a new preview."""
    counts: tuple[ActionCount, ...] = ()
    samples: tuple[AffectedRows, ...] = ()
    is_nothing: bool = False
    type_name: str | None = None
    """The name to type first, as this destroys."""
    meant: object = field(default=None, metadata=UNTOLD)
    """The action's exact objects: later ones are not touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The outcome of an action."""

    summary: str
    counts: tuple[ActionCount, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Action(Generic[A]):
    """An operator's action on a lake."""

    name: str
    """A word for URLs, programs and the audit topic."""
    title: str
    """The text of its page's head and its button."""
    about: str
    arguments: type[A]
    """A frozen dataclass of `str`, ``str | None``, `int` and ``int | None``."""
    preview: Callable[[PageContext, A], Awaitable[ActionPreview]]
    """Writes nothing. `Runner.preview` calls it, and makes the viewers' stamp."""
    do: Callable[[PageContext, A, ActionPreview], Awaitable[ActionResult]]
    """Does the confirmed preview."""
    command: Callable[[A], Sequence[str]]
    """The same as words behind ``penstock``."""
    back: Callable[[A], Breadcrumb]

    def parse_arguments(self, values: Mapping[str, str]) -> A:
        """The arguments of a query or a JSON object of texts. Raises `InvalidArgument`."""
        hints = typing.get_type_hints(self.arguments)
        fields = dataclasses.fields(self.arguments)  # type: ignore[arg-type] # a dataclass, as its docstring says
        if unknown := values.keys() - {one.name for one in fields}:
            raise self._bad("the action has no such argument", ", ".join(one.name for one in fields), ", ".join(sorted(unknown)))
        found: dict[str, Any] = {}
        for one in fields:
            text = values.get(one.name)
            if text is None:
                if one.default is dataclasses.MISSING:
                    raise self._bad("an argument is missing", one.name, "none")
                continue
            found[one.name] = self._value(one.name, hints[one.name], text)
        return self.arguments(**found)

    def _value(self, name: str, hint: Any, text: str) -> object:  # noqa: ANN401 - a type
        kinds = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
        if int not in kinds:
            return text
        if text == "" and type(None) in kinds:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise self._bad("an argument is no whole number", name, text[:200])
        return int(text)

    def _bad(self, message: str, expected: str, observed: str) -> InvalidArgument:
        return InvalidArgument(message, operation=self.name, expected=expected, observed=observed)

    def texts(self, arguments: A) -> dict[str, str]:
        """The given arguments, for URLs and the audit topic."""
        values = {one.name: getattr(arguments, one.name) for one in dataclasses.fields(self.arguments)}  # type: ignore[arg-type]
        return {name: str(value) for name, value in values.items() if value is not None}
