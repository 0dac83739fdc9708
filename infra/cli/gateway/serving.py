"""The processes of a gateway's command, and what it tells of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ....log.metrics import MemoryMetrics
from ...metrics import metrics_server
from ...terminal import output
from ...terminal.session import CommandSession
from ...terminal.stopper import Stopper
from ..lake.stored_topics import run_async
from .options import process_number

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.protocol_gateway import ProtocolGateway
    from ....gateway.server.options import GatewayOptions

_YOUNG_OBJECTS: Final = 5_000
"""Some calls' objects; Python's own default is 700."""
_COLLECTIONS_OF_YOUNG, _COLLECTIONS_OF_OLDER = 20, 10


CommandGateway: TypeAlias = "tuple[GatewayOptions, Callable[[Lake, MemoryMetrics], ProtocolGateway]]"
"""The options of a gateway, and what makes it."""


def run_gateways(session: CommandSession, gateways: Sequence[CommandGateway], processes: int, given: Mapping[str, Any]) -> None:
    """Serve until told to stop. ``given``: what click parsed, of which the metrics' port and host count here."""
    stopper, metrics = Stopper(), MemoryMetrics()
    options = gateways[0][0]
    if processes > 1 and options.own_port is None:
        with session.signals.held(stopper.stop):
            run_several(session, [one for one, _ in gateways], processes, stopper)
        return
    port = given["metrics_port"] + process_number(given) if given["metrics_port"] else given["metrics_port"]
    with metrics_server(metrics, port, given["metrics_host"]) as shown, session.signals.held(stopper.stop):
        run_async(session, lambda lake: _serve(session, lake, gateways, stopper, metrics, shown))


async def _serve(
    session: CommandSession,
    lake: Lake,
    gateways: Sequence[CommandGateway],
    stopper: Stopper,
    metrics: MemoryMetrics,
    metrics_port: int | None,
) -> None:
    from ....gateway.server.processes import end_with_parent

    stopped = stopper.attach()
    if gateways[0][0].own_port is not None:
        end_with_parent(stopper.stop)
    async with AsyncExitStack() as stack:
        for options, made in gateways:
            gateway = await stack.enter_async_context(made(lake, metrics))
            tell_places(session, options, port=gateway.port, tls_port=gateway.tls_port, metrics_port=metrics_port)
        freeze_memory()
        await stopped.wait()


def run_several(session: CommandSession, served: Sequence[GatewayOptions], processes: int, stopper: Stopper) -> None:
    """Run processes of this same command, until told to stop."""
    from ....gateway.server.options import Endpoint
    from ....gateway.server.processes import supervise
    from ....log.runtime.portal import Portal

    if not all(0 < options.port < 2**16 - processes for options in served):
        raise click.UsageError("With --processes, --port must be a number with as many free ones behind it.")
    first = served[0]
    shown = session.lake_shown  # a usage error is one of this process
    again = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')", *sys.argv[1:]]
    commands = [[*again, "--own-port", str(first.port + 1 + at)] for at in range(processes)]
    portal = Portal()
    try:
        where = " and ".join(str(Endpoint(options.host, options.port)) for options in served)
        output.note(f"Serving {output.printable(shown)} at {where} by {processes} processes. Ctrl-C or SIGTERM ends them.")
        portal.run(lambda: supervise(commands, stopper.attach(), drain=first.drain))
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
