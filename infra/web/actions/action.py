"""The seam of the actions. An action is one value of `Action`: its arguments as a dataclass, what it would do, and the doing.

To add an action: write a module with a frozen dataclass of arguments, a ``preview`` and a ``do``, and an `Action`. Name it in `registry.py`. Its
page (preview, confirmation, result), its JSON below ``/api``, the check of who may, and its lines in the audit topic follow.
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
    """One figure of what an action does."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedRows:
    """A table of some of what an action touches."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview:
    """What an action would do now."""

    summary: str
    """One sentence."""
    stamp: str
    """The state of what it touches, as a text of any length: when it is another one at the doing, the viewer sees the preview again
    instead. The `Runner` makes a short stamp of it that holds for this action alone.
    """
    counts: tuple[ActionCount, ...] = ()
    samples: tuple[AffectedRows, ...] = ()
    is_nothing: bool = False
    """Whether there is nothing to do."""
    type_name: str | None = None
    """The name that must be typed first, as this destroys; None: a press of the button does."""
    meant: object = field(default=None, metadata=UNTOLD)
    """What exactly it was about, for the doing: nothing else may be touched, whatever has come since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What was done."""

    summary: str
    counts: tuple[ActionCount, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Action(Generic[A]):
    """Something that an operator may do to a lake."""

    name: str
    """A word for URLs, programs and the audit topic."""
    title: str
    """The title of its page, and the text of its button."""
    about: str
    arguments: type[A]
    """A frozen dataclass with fields of type `str`, ``str | None``, `int` and ``int | None``."""
    preview: Callable[[PageContext, A], Awaitable[ActionPreview]]
    """Tells what would be done; writes nothing. `Runner.preview` calls it, which makes the stamp that viewers get."""
    do: Callable[[PageContext, A, ActionPreview], Awaitable[ActionResult]]
    """Does what the preview was about, which was confirmed."""
    command: Callable[[A], Sequence[str]]
    """The words behind ``penstock`` that do the same in a shell."""
    back: Callable[[A], Breadcrumb]
    """The page to which a viewer returns."""

    def parse_arguments(self, values: Mapping[str, str]) -> A:
        """The arguments from a query or a JSON object of texts. Raises `InvalidArgument`."""
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
        """The arguments as texts, for URLs and the audit topic: those that are given."""
        values = {one.name: getattr(arguments, one.name) for one in dataclasses.fields(self.arguments)}  # type: ignore[arg-type]
        return {name: str(value) for name, value in values.items() if value is not None}
