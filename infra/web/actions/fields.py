"""Fields of forms, in the forms of values that the command line has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ....log.errors import InvalidArgument
from .action import FormField, FormFieldKind

YES_NO = ("yes", "no")


def lines(text: str | None) -> list[str]:
    """The lines of a field that are not empty."""
    return [one for one in (text or "").split("\n") if one.strip()]


def names(text: str | None) -> tuple[str, ...]:
    """The names of a field, with commas between them."""
    return tuple(one.strip() for one in (text or "").split(",") if one.strip())


def value_of(kind: click.ParamType[Any], name: str, text: str | None, *, operation: str) -> Any:  # noqa: ANN401 - as click parses it
    """The value of a field; None: it is empty. Raises `InvalidArgument`."""
    if text is None or not text.strip():
        return None
    try:
        return kind.convert(text.strip(), None, None)
    except click.UsageError as error:
        raise InvalidArgument(f"{name.replace('_', ' ')}: {error.format_message()}", operation=operation) from error


def flag_of(name: str, text: str | None, *, operation: str) -> bool | None:
    """Whether a field says yes; None: it is empty. Raises `InvalidArgument`."""
    if text is None:
        return None
    if text not in YES_NO:
        raise InvalidArgument(f"{name}: neither yes nor no", operation=operation, expected="yes, no", observed=text[:200])
    return text == "yes"


def choice(name: str, label: str, values: tuple[str, ...], *, empty: str = "", about: str = "") -> FormField:
    """A choice among values. ``empty`` tells what no choice means; without it one must be made."""
    choices = ("", *values) if empty else values
    return FormField(name=name, label=label, kind=FormFieldKind.CHOICE, choices=choices, placeholder=empty, about=about)


def settings_fields(kinds: Mapping[str, tuple[object, str]], present: Mapping[str, str]) -> list[FormField]:
    """A field for each setting. What there is, or is by default, stands in it while it is empty."""
    return [
        FormField(name=name, label=name.replace("_", " ").capitalize(), about=about, placeholder=present.get(name, ""))
        for name, (_, about) in kinds.items()
    ]
