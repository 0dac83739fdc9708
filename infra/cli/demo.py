"""`penstock demo`: handed to the demo, which takes its arguments itself."""

from __future__ import annotations

import importlib.util

import click

from ...log.errors import NotSupported
from .session import Session

_MODULE = "penstock.infra.demo.main"


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(session: Session, arguments: tuple[str, ...]) -> int | None:
    """A shop's change stream, in order, through a topic into Delta tables."""
    if importlib.util.find_spec(_MODULE) is None:
        raise NotSupported("this installation comes without the demo", operation="demo")
    run = importlib.import_module(_MODULE).main
    lake = ["--lake", session.url] if session.url and "--lake" not in arguments else []
    code: int | None = run([*lake, *arguments])
    return code
