"""The options of each gateway's command about what it tells of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from ...metrics import LOOPBACK

F = TypeVar("F", bound=Callable[..., object])


def watching_options(function: F) -> F:
    """Add ``--metrics-port``, ``--metrics-host`` and ``--audit``."""
    for option in reversed(
        (
            click.option(
                "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve /metrics for Prometheus on this port."
            ),
            click.option(
                "--metrics-host",
                default=LOOPBACK,
                show_default=True,
                metavar="ADDRESS",
                help="The address to serve them at; 0.0.0.0: all of the machine.",
            ),
            click.option(
                "--audit", is_flag=True, help="Log every call, with who made it; otherwise those that are refused or rare."
            ),
        )
    ):
        function = option(function)
    return function
