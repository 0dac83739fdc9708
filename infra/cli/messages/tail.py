"""`penstock tail`."""

from __future__ import annotations

from typing import Any

import click

from ...console import completion
from ...console.session import Session, command_options
from ...console.values import Position
from .read import conditions
from .rendering import JsonLines, Lines


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@conditions
@click.option("--start", type=Position(), default="latest", show_default=True, help="Where to begin, e.g. -10m.")
@command_options
@click.pass_obj
def command(session: Session, /, topic: str, **where: Any) -> None:  # noqa: ANN401 - the fields of a Selection
    """Show messages as they arrive, until Ctrl-C or --limit."""
    from .export import written
    from .selection import Selection, checked

    with session.connect(read_only=True) as lake, lake.reader(topic) as reader:
        selection = checked(Selection(**where), reader)
        written(selection.batches(reader, follow=True), JsonLines(topic) if session.as_json else Lines(topic))
