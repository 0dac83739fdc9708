"""The seam of the actions, each one value of `Action`.

To add an action: write a module with a frozen dataclass of arguments, a ``preview`` and a ``do``, and an `Action`; name it in `registry.py`. Its page
(preview, confirmation, result), its JSON below ``/api``, the check of rights, and its lines in the audit topic follow. One with a ``form`` has a page
to fill in, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
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


class FormFieldKind(StrEnum):
    """The look of a field."""

    LINE = "line"
    TEXT = "text"
    """Several lines."""
    CHOICE = "choice"
    FIXED = "fixed"
    """Shown, and not to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """An argument of an action, to be filled in."""

    name: str
    label: str
    kind: FormFieldKind = FormFieldKind.LINE
    value: str = ""
    about: str = ""
    placeholder: str = ""
    choices: tuple[str, ...] = ()
    """The first one means the default where it is empty."""
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """The page to fill in before the preview."""

    about: str
    fields: tuple[FormField, ...]

    def filled(self, given: Mapping[str, str], *, is_sent: bool) -> ActionForm:
        """The same with the values that were given. Of a form that was sent, fields without a value are empty."""

        def value(one: FormField) -> str:
            return given.get(one.name, "" if is_sent and one.kind is not FormFieldKind.FIXED else one.value)

        return replace(self, fields=tuple(replace(one, value=value(one)) for one in self.fields))


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
    form: Callable[[PageContext, Mapping[str, str]], Awaitable[ActionForm]] | None = None
    """The page to fill in, by the arguments that are known. None: links lead to the preview."""
    unlogged: frozenset[str] = frozenset()
    """Arguments of which the audit topic has size and digest alone."""
    is_for_tools: bool = True
    """Whether assistants may do it, to whom bodies of messages may have told what to do."""

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
        """The given arguments, for URLs and forms."""
        values = {one.name: getattr(arguments, one.name) for one in dataclasses.fields(self.arguments)}  # type: ignore[arg-type]
        return {name: str(value) for name, value in values.items() if value is not None}

    def logged(self, arguments: A) -> dict[str, str]:
        """The given arguments, for the audit topic."""
        return {name: _digest(text) if name in self.unlogged else text for name, text in self.texts(arguments).items()}


def _digest(text: str) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"
