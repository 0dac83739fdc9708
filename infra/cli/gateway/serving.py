"""The processes of a gateway's command, and what it tells of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ....log.metrics import MemoryMetrics
from ...pool.running import run_pool
from ...pool.seat import ParentLink, parent_link
from ...terminal import output
from ...terminal.session import CommandSession
from ...terminal.stopper import Stopper
from ..lake.stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.protocol_gateway import ProtocolGateway
    from ....gateway.server.options import GatewayOptions

_PATIENCE: Final = timedelta(seconds=30)
"""The time beside the drain before one of several processes is killed."""
_YOUNG_OBJECTS: Final = 5_000
"""Some calls' objects; Python's own default is 700."""
_COLLECTIONS_OF_YOUNG, _COLLECTIONS_OF_OLDER = 20, 10


CommandGateway: TypeAlias = "tuple[GatewayOptions, Callable[[Lake, MemoryMetrics], ProtocolGateway]]"
"""The options of a gateway, and what makes it."""


def run_gateways(session: CommandSession, gateways: Sequence[CommandGateway], processes: int, given: Mapping[str, Any]) -> int:
    """Serve until told to stop. ``given``: what click parsed, of which the metrics' port and host, and the place among several processes count
    here. Returns the exit code.
    """
    seat, metrics_port, metrics_host = given["worker"], given["metrics_port"], given["metrics_host"]
    if processes > 1 and seat is None:
        served = [one for one, _ in gateways]
        tell_processes(session, served, processes)
        patience = served[0].drain + _PATIENCE
        return run_pool(session, processes, metrics_port=metrics_port, metrics_host=metrics_host, patience=patience)
    stopper, metrics = Stopper(), MemoryMetrics()
    with session.signals.held(stopper.stop), parent_link(seat, metrics, metrics_port, metrics_host) as parent:
        run_async(session, lambda lake: _serve(session, lake, gateways, stopper, metrics, parent))
    return 0


async def _serve(
    session: CommandSession,
    lake: Lake,
    gateways: Sequence[CommandGateway],
    stopper: Stopper,
    metrics: MemoryMetrics,
    parent: ParentLink,
) -> None:
    stopped = stopper.attach()
    async with AsyncExitStack() as stack:
        for options, made in gateways:
            gateway = await stack.enter_async_context(made(lake, metrics))
            if not parent.has_parent:
                tell_places(session, options, port=gateway.port, tls_port=gateway.tls_port, metrics_port=parent.metrics_port)
        freeze_memory()
        parent.ready()
        await stopped.wait()


def tell_processes(session: CommandSession, served: Sequence[GatewayOptions], processes: int) -> None:
    """Tell where several processes serve together. Raises a usage error for ports that cannot be theirs."""
    from ....gateway.server.options import Endpoint

    if not all(0 < options.port < 2**16 - processes for options in served):
        raise click.UsageError("With --processes, --port must be a number with as many free ones behind it.")
    shown = session.lake_shown  # a usage error is one of this process
    where = " and ".join(str(Endpoint(options.host, options.port)) for options in served)
    output.note(f"Serving {output.printable(shown)} at {where} by {processes} processes. Ctrl-C or SIGTERM ends them.")


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
