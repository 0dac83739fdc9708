"""`penstock gateway`."""

from __future__ import annotations

import click

from ...terminal.session import group_options
from .all_protocols import all_protocols
from .kafka import kafka
from .listed import listed
from .rocketmq import rocketmq


@click.group()
@group_options
def command() -> None:
    """Serve another system's protocol for a lake, so that its unmodified clients send and consume here; list gateways and their clients."""


command.add_command(rocketmq)
command.add_command(kafka)
command.add_command(all_protocols)
command.add_command(listed)
