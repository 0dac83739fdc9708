"""The options of `penstock sync`, made from the fields of `SyncOptions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import click

from ....cdc.choice.option_types import ByName, Flag, OneOf, OptionField, OptionType, Period, TablesOrAll, Texts, Whole, options_of
from ....cdc.choice.tables import TableOptions
from ....cdc.sync.options import SyncOptions
from ....log.limits import MIB
from ...terminal.session import options
from ...terminal.values import DurationParam, SizeParam

Engine: TypeAlias = Literal["spark", "deltalake"]
_OF_SYNC = options_of(SyncOptions)
_OF_COMMAND: Mapping[str, tuple[OptionField, object]] = {
    "engine": (
        OptionField(OneOf(Engine), "The engine: Spark, or one process without it, for small tables; no history then."),
        "spark",
    ),
    "interval": (OptionField(Period(), "The time between the beginnings of two batches."), timedelta(seconds=5)),
}
"""Options that replace those of `SyncOptions`."""
SETTINGS: Mapping[str, OptionType] = {
    name: one.type for name, (one, _) in {**_OF_SYNC, **_OF_COMMAND}.items() if one.in_file and not isinstance(one.type, ByName)
}


def _flag(name: str, one: OptionField) -> str:
    """The option on the command line, in the singular if repeatable."""
    return f"--{(name.removesuffix('s') if _is_repeated(one.type) else name).replace('_', '-')}"


def _is_repeated(type_: OptionType) -> bool:
    return isinstance(type_, Texts | TablesOrAll | ByName)


def _form(type_: OptionType, default: Any) -> dict[str, Any]:  # noqa: ANN401 - as click takes it
    if isinstance(type_, Flag):
        return {"is_flag": True}
    if _is_repeated(type_):
        return {"multiple": True}
    shown: dict[str, Any] = {"show_default": True, "default": default} if isinstance(default, str | int) else {}
    if isinstance(type_, OneOf):
        return {"type": click.Choice(type_.words), **shown}
    if isinstance(type_, Period):
        days = default // timedelta(days=1)
        return {"type": DurationParam(), "default": f"{days}d" if days else f"{default.seconds}s", "show_default": True}
    if isinstance(type_, Whole):
        if type_.size:
            return {"type": SizeParam(), "default": f"{default // MIB}MiB", "show_default": True}
        return {"type": click.IntRange(min=type_.least), **shown}
    return shown


sync_options = options(
    *(
        click.option(_flag(name, one), name, help=one.help, metavar=one.metavar, **_form(one.type, default))
        for name, (one, default) in [*_OF_SYNC.items(), *_OF_COMMAND.items()]
    )
)


def values_of(given: Mapping[str, Any], rename: Mapping[str, str], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of a sync's options, as JSON takes them. ``given``: click's; the others are the file's."""
    values: dict[str, Any] = {name: _value(name, one, given[name], default) for name, (one, default) in _OF_SYNC.items()}
    values["trigger"] = "available_now" if given["once"] else given["interval"].total_seconds()
    return {**values, "rename": {**rename, **values["rename"]}, "table_options": tables}


def options_from(values: Mapping[str, Any]) -> SyncOptions:
    """Raises `InvalidArgument`."""
    return SyncOptions(
        **{**values, "table_options": {table: TableOptions(**one) for table, one in values["table_options"].items()}}
    )


def _value(name: str, one: OptionField, given: Any, default: object) -> object:  # noqa: ANN401 - as click parsed it
    if isinstance(one.type, TablesOrAll):
        return "all" in given or list(given)
    if isinstance(one.type, Texts):
        return list(given) or default
    if isinstance(one.type, Period):
        return given.total_seconds()
    return _by_name(_flag(name, one), one, one.type, given) if isinstance(one.type, ByName) else given


def _by_name(flag: str, one: OptionField, type_: ByName, given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        table, _, column = name.rpartition(".") if isinstance(type_.of, ByName) else (name, "", name)
        if not table or not column or not value:
            raise click.UsageError(f"{flag} is {one.metavar}, not {text!r}.")
        if isinstance(type_.of, ByName):
            found.setdefault(table, {})[column] = value
        else:
            found[table] = [part.strip() for part in value.split(",")] if isinstance(type_.of, Texts) else value
    return found
