"""The options ``--metrics-port`` and ``--metrics-host`` of long commands."""

from __future__ import annotations

import click

from ..metrics import LOOPBACK
from .session import options

metrics_options = options(
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
)
