"""`penstock mcp`."""

from __future__ import annotations

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.stopper import Stopper


@click.command()
@click.option("--allow-writes", is_flag=True, help="Offer the actions, too: each with a preview that comes first.")
@log_options
@group_options
@click.pass_obj
def command(session: CommandSession, *, allow_writes: bool) -> None:
    """Serve the lake to a program that speaks the Model Context Protocol, over standard input and output.

    Its tools list, describe, read, trace and verify, as the console's pages do. Without --allow-writes nothing can be changed. Actions are
    logged in the lake's topic penstock-audit.
    """
    try:
        from ...web.tools.mcp_server import serve
    except ImportError as error:
        raise MissingDependency(
            "the server needs the package mcp", operation="mcp", observed=str(error), hint=install_hint("mcp")
        ) from error
    from ....log.runtime.portal import Portal
    from ....log.runtime.runtime import Runtime
    from ...web.lakes.lakes import DEFAULT_NAME, LakeOptions

    options = LakeOptions(name=DEFAULT_NAME, url=session.lake_url, coordination=session.coordination)
    stopper, portal = Stopper(), Portal()
    try:
        with session.signals.held(stopper.stop):
            portal.run(lambda: serve(options, Runtime(), stopper.attach(), writes=allow_writes))
    finally:
        portal.stop()
