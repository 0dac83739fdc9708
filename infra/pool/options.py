"""The options of commands that several processes may run."""

from __future__ import annotations

from collections.abc import Callable
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


def processes_options(help: str) -> Callable[[F], F]:
    """``--processes``, and ``worker``: the `Seat` of this process in a pool, which its parent gives it."""
    return options(
        click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help=help),
        click.option("--worker", type=_SeatParam(), hidden=True, callback=_take_seat),
    )
