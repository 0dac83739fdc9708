"""`penstock tail`."""

from __future__ import annotations

from typing import Any

import click

from ...terminal import completion
from ...terminal.session import CommandSession, command_options
from ...terminal.values import PositionParam
from .read import conditions
from .rendering import JsonLineOutput, LineOutput


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@conditions
@click.option("--start", type=PositionParam(), default="latest", show_default=True, help="Where to begin, e.g. -10m.")
@command_options
@click.pass_obj
def command(session: CommandSession, /, topic: str, **where: Any) -> None:  # noqa: ANN401 - the fields of a Selection
    """Show messages as they arrive, until Ctrl-C or --limit."""
    from .export import write_batches
    from .selection import MessageSelection, check_selection

    with session.connect(read_only=True) as lake, lake.reader(topic) as reader:
        selection = check_selection(MessageSelection(**where), reader)
        write_batches(selection.batches(reader, follow=True), JsonLineOutput(topic) if session.as_json else LineOutput(topic))
