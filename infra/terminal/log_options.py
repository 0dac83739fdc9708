"""The options ``--log-format`` and ``--log-level`` of long commands."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TypeVar, cast

import click

from ..logs import LogFormat, logging_to

C = TypeVar("C", bound=Callable[..., object])

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_options(command: C) -> C:
    """Give a command the two options, and write the library's log to stderr while it runs. Stands right above the function.

    A worker of a pool (``worker`` of `processes_options`) writes its number into every line.
    """

    @functools.wraps(command)
    def run(*args: object, log_format: LogFormat, log_level: str, **options: object) -> object:
        seat = options.get("worker")
        with logging_to(format=log_format, level=_LEVELS[log_level], worker=getattr(seat, "number", None)):
            return command(*args, **options)

    level = click.option(
        "--log-level", type=click.Choice(list(_LEVELS)), default="info", show_default=True, help="The lowest level that is logged."
    )
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The format of the log on stderr.",
    )
    return cast("C", form(level(run)))
