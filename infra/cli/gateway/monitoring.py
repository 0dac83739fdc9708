"""The options of each gateway's command about what it tells of its calls."""

from __future__ import annotations

import click

from ...terminal.metrics_options import metrics_options
from ...terminal.session import options

watching_options = options(
    metrics_options,
    click.option("--audit", is_flag=True, help="Log every call, with who made it; otherwise those that are refused or rare."),
)
"""``--metrics-port``, ``--metrics-host`` and ``--audit``."""
