"""The processes of a gateway's command, and what it tells of them."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Final

import click

from ...terminal import output
from ...terminal.session import CommandSession
from ...terminal.stopper import Stopper

if TYPE_CHECKING:
    from ....gateway.server.options import GatewayOptions

_YOUNG_OBJECTS: Final = 5_000
"""Some calls' objects; Python's own default is 700."""
_COLLECTIONS_OF_YOUNG, _COLLECTIONS_OF_OLDER = 20, 10


def run_several(session: CommandSession, options: GatewayOptions, processes: int, stopper: Stopper) -> None:
    """Run processes of this same command, until told to stop."""
    from ....gateway.server.options import Endpoint
    from ....gateway.server.processes import supervise
    from ....log.runtime.portal import Portal

    if not 0 < options.port < 2**16 - processes:
        raise click.UsageError("With --processes, --port must be a number with as many free ones behind it.")
    shown = session.lake_shown  # a usage error is one of this process
    again = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')", *sys.argv[1:]]
    commands = [[*again, "--own-port", str(options.port + 1 + at)] for at in range(processes)]
    portal = Portal()
    try:
        where = str(Endpoint(options.host, options.port))
        output.note(f"Serving {output.printable(shown)} at {where} by {processes} processes. Ctrl-C or SIGTERM ends them.")
        portal.run(lambda: supervise(commands, stopper.attach(), drain=options.drain))
    finally:
        portal.stop()


def tell_places(session: CommandSession, options: GatewayOptions, *, port: int, tls_port: int, metrics_port: int | None) -> None:
    """Tell where clients connect. A port of 0 is not served."""
    from ....gateway.server.options import Endpoint

    if session.as_json:
        place = {"host": options.host, "port": port or None, "tls_port": tls_port or None, "metrics_port": metrics_port}
        output.emit({**place, "signed": options.access is not None, "lake": session.lake_shown})
        return
    ports = [str(Endpoint(options.host, port))] if options.plaintext else []
    ports += [f"{Endpoint(options.host, tls_port)} (TLS)"] if options.tls is not None else []
    signed = ", to clients that sign" if options.access is not None else ""
    counted = "" if metrics_port is None else f" Metrics: port {metrics_port}."
    lake_shown = output.printable(session.lake_shown)
    output.note(f"Serving {lake_shown} at {' and '.join(ports)}{signed}.{counted} Ctrl-C or SIGTERM ends it.")


def freeze_memory() -> None:
    """Exempt all present objects from garbage collection, and collect others a seventh as often: most go with their call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _COLLECTIONS_OF_YOUNG, _COLLECTIONS_OF_OLDER)
