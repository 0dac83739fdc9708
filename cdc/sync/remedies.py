"""What to do about a column whose type does not hold a value: what a table says that stands still, or a wider type. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from shlex import join
from urllib.parse import unquote, urlsplit

from ..events.sources import Source, united
from ..events.types import TEMPORAL
from ..events.wider import holds, widest
from ..fold.folded import Refused
from ..targets import Column, Target
from .options import Options

_DECLARE = "declare"
"""The word in a reason that says itself what to do."""
_NULL = "; or start the sync with --unfit-times null, which makes such times NULL"


def explained(options: Options, target: Target | None, table: str, refused: Refused, told: Mapping[str, str]) -> Refused:
    """The same with the line to run, where a column's type is the cause. ``told``: the types of the source's columns, as far as its catalogue
    tells them.
    """
    if target is None or refused.column is None or (has := target.type_of(refused.column)) is None:
        return refused
    calls_for = told.get(refused.column)
    if calls_for is None and _DECLARE in refused.reason:
        return refused
    return replace(
        refused, reason=refused.reason + _remedy(options, target.source, table, refused.column, has=has, calls_for=calls_for)
    )


def _remedy(options: Options, source: Source, table: str, column: str, *, has: str, calls_for: str | None) -> str:
    """The end of the sentence that names the value: why it does not fit, and the line to run.

    ``has``: the type of the target's column. ``calls_for``: that of the source's, where its catalogue tells it.
    """
    same = " (with the same --config)" if options.choices.by_name else ""
    line = [
        "penstock",
        "sync",
        options.topic,
        *_where(options),
        "--retype",
        "--table",
        table,
        *_declared(options, source, table, column),
    ]
    if calls_for is not None and not holds(has, calls_for):
        return f". The source's column calls for {calls_for}, the target's has {has}{same}: {join(line)}"
    null = _NULL if has in TEMPORAL else ""
    if calls_for is None:
        return f". Give the column a type that holds it{same}: {join(line)} --column {join([f'{table}.{column}'])}=TYPE{null}"
    text = join([*line, "--column", f"{table}.{column}=string"])
    return f". The source's type has values that {has} has not{same}: {text}{null}"


def _where(options: Options) -> list[str]:
    place, into = options.place, ["--into", options.into]
    parts = urlsplit(place.url)
    lake = ["--lake", unquote(parts.path) if parts.scheme == "file" else place.url]
    table = [] if place.coordination is None else ["--coordination", place.coordination]
    return [*lake, *table, *into, *([] if options.name == options.topic.replace("%", "") else ["--name", options.name])]


def _declared(options: Options, source: Source, table: str, column: str) -> list[str]:
    """The types of other columns that the user has declared: they would get the source's else. Those of a file are there with the file."""
    types, of_file = united(options.declared.columns, source), options.choices.of(source).columns
    return [
        part for name, type_ in types.items() if name not in (column, *of_file) for part in ("--column", f"{table}.{name}={type_}")
    ]


def kept_types(path: str, target: Target, declared: Mapping[str, str]) -> str | None:
    """What to tell of columns that keep another type than the one that is ``declared``; None if there are none."""
    kept = [
        f"{column.name} is {column.type}, and {wanted} is declared"
        for column in target.columns
        if not holds(column.type, wanted := declared.get(column.name, column.type))
    ]
    return f"the target {path} keeps its types: {'; '.join(kept)}. The same line with --retype gives it these" if kept else None


def as_text(table: str, column: str | None) -> str:
    """The end of the sentence that names a value that a target has, and the type that it is to have does not: what takes it."""
    return "" if column is None else f". Text holds it: {join(['--column', f'{table}.{column}=string'])}"


def wider_columns(target: Target, refused: Iterable[Refused], told: Callable[[Refused], Mapping[str, str]]) -> list[Column]:
    """The columns of a target whose source has become wider, with types that hold the values of both. ``told``: the types of the source's
    columns by the time of an event.
    """
    wider: dict[str, str] = {}
    for one in refused:
        has = None if one.column is None else target.type_of(one.column)
        if one.column is not None and has is not None:
            both = widest(wider.get(one.column, has), told(one).get(one.column, has))
            if both not in ("string", has):
                wider[one.column] = both
    return [Column(name, type_) for name, type_ in wider.items()]
