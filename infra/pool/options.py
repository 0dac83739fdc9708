"""The options of commands that several processes may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..terminal.session import CommandSession, F, options
from .seat import Seat

if TYPE_CHECKING:
    ParamType = click.ParamType[Seat]
else:
    ParamType = click.ParamType


class _SeatParam(ParamType):
    """A worker's number and the number of the open file that leads to its parent."""

    name = "number:file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Seat:
        try:
            return value if isinstance(value, Seat) else Seat.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is no place of a worker.", param, ctx)


def _take_seat(ctx: click.Context, _: click.Parameter, seat: Seat | None) -> Seat | None:
    if seat is not None:
        session = ctx.find_object(CommandSession)
        assert session is not None, "main made it"
        session.signals.of_worker = True
    return seat


def _take_folders(ctx: click.Context, _: click.Parameter, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    return (Path(), *folders) if ctx.params.pop("reload") else folders


def processes_options(help: str) -> Callable[[F], F]:
    """``--processes``, and ``worker``: the `Seat` of this process in a pool, which its parent gives it."""
    return options(
        click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help=help),
        click.option("--worker", type=_SeatParam(), hidden=True, callback=_take_seat),
    )


pool_options = options(
    processes_options("The number of processes. A parent starts, watches and replaces them."),
    click.option(
        "--reload", is_flag=True, is_eager=True, help="Start anew when a Python file of this folder changes: while you write."
    ),
    click.option(
        "--reload-dir",
        "watched",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        callback=_take_folders,
        help="The same for another folder; may be given again.",
    ),
    click.option("--setup", metavar="MODULE:FUNCTION", help="Call a function in each process before its work, async ones too."),
    click.option("--teardown", metavar="MODULE:FUNCTION", help="Call a function in each process after its work."),
)
"""The options of processes that call the user's code: also ``watched`` (folders), ``setup`` and ``teardown``."""
