#!/usr/bin/env python3
"""Writes the page of all commands and their options anew, `make reference`: from what their `--help` is made of."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.infra.cli.main import main as penstock
from penstock.infra.terminal.values import DurationParam, InstantParam, PositionParam, SizeParam

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
COMMON = ("--lake", "--coordination", "--json")
"""Options of the program itself, which commands take, too."""
WIDTH = 140
VALUES = (DurationParam, InstantParam, PositionParam, SizeParam)
ABOVE = """# Commands and options

What `--help` says of every command. [The command line](../cli.md) explains them, with examples.

`--lake` and `--json` stand before a command or behind it. So does `--coordination`, for commands that use the table of consumer groups.
They are in the first table only.

| value | how it is written |
| --- | --- |
"""


def page() -> str:
    """The page as the code has it."""
    kinds = "".join(f"| `{one.name.upper()}` | {inspect.getdoc(one)} |\n".replace("``", "`") for one in VALUES)
    return "\n".join(
        [ABOVE + kinds, *(part for one in commands(click.Context(penstock, info_name="penstock")) for part in section(one))]
    )


def commands(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from commands(click.Context(command, info_name=name, parent=context))


def section(context: click.Context) -> Iterator[str]:
    command, is_program = context.command, context.parent is None
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    options = [one for one in options if is_program or not {*COMMON} & {*one.opts}]
    yield f"{'##' if is_program or context.parent.parent is None else '###'} {context.command_path}\n"
    yield f"{textwrap.fill(_prose(_sentence(command.help or '')), WIDTH)}\n"
    if not isinstance(command, click.Group) or command.invoke_without_command:
        arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
        yield f"`{' '.join([context.command_path, *(['[OPTIONS]'] if options else []), *arguments])}`\n"
    if options:
        yield "| option | default | |\n| --- | --- | --- |"
        yield from (row(one, context) for one in options)
        yield ""


def row(option: click.Option, context: click.Context) -> str:
    """The line of an option in the table."""
    takes = "" if option.is_flag else f" {value(option, context)}"
    names = ", ".join(_code(name + takes) for name in (*option.opts, *option.secondary_opts))
    text, default = option.help or "", _default(option)
    if found := re.search(r"\s*\[default: (.*)\]$", text):
        text, default = text[: found.start()], found[1]
    if option.envvar and isinstance(option.envvar, str):
        text += f" Environment: `{option.envvar}`."
    return f"| {names} | {'required' if option.required else default} | {_prose(text)} |"


def value(option: click.Option, context: click.Context) -> str:
    """The placeholder of an option's value."""
    match option.metavar, option.type:
        case None, click.IntRange(min=int(low), max=int(high)):
            return f"{low}…{high}"
        case None, click.INT | click.IntRange() | click.FLOAT | click.FloatRange():
            return "NUMBER"
        case _:
            return option.make_metavar(context).strip("[]")


def _default(option: click.Option) -> str:
    known = option.to_info_dict()["default"]
    if isinstance(option.show_default, str):
        return option.show_default
    return "" if option.is_flag or option.multiple or known in (None, "") else _code(str(known))


def _sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z-])", " ".join(text.partition("\n\n")[0].split()))[0]


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _prose(text: str) -> str:
    return re.sub(r"([*<|])", r"\\\1", " ".join(text.split()))


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    sys.exit(main())
