"""`penstock gateway rocketmq`."""

from __future__ import annotations

import gc
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ....log.errors import MissingDependency
from ....log.metrics import MemoryMetrics
from ...console import output
from ...console.log_options import log_options
from ...console.session import CommandSession, group_options
from ...console.stopper import Stopper
from ...console.values import DurationParam
from ...metrics import served
from ..lake.stored_topics import run_async
from .check import check
from .endpoints import endpoint_of
from .monitoring import watching_options
from .security import access_of, security_options, tls_of

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.server.options import GatewayOptions

_LOOPBACK = "127.0.0.1"


@click.group("rocketmq", invoke_without_command=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="The port to listen at; 0: any free one."
)
@click.option("--host", default=_LOOPBACK, show_default=True, help="The address to listen at; 0.0.0.0: all of the machine.")
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The one address of all gateways that clients are told, such as a load balancer's. Default: each gateway's own.",
)
@click.option(
    "--address",
    metavar="HOST",
    help="The host by which clients reach this gateway, if not --host. At 0.0.0.0 and :: one must be given, or --advertise.",
)
@click.option("--create-topics", is_flag=True, help="Make a topic of type NORMAL when a client names one that there is not.")
@click.option(
    "--create-groups",
    type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
    help="Make a consumer group of this order when a client names one that there is not.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="The number of processes; several listen at the port together, and each at one of its own behind it.",
)
@click.option("--own-port", type=click.IntRange(0, 65535), hidden=True, help="The second port of one of several processes.")
@click.option(
    "--first-check",
    type=DurationParam(),
    default="60s",
    show_default=True,
    help="When the sender of a transaction that it left open is asked first.",
)
@click.option(
    "--drain", type=DurationParam(), default="5s", show_default=True, help="How long calls under way may last at the end."
)
@security_options
@watching_options
@log_options
@group_options
@click.pass_context
def rocketmq(
    ctx: click.Context,
    /,
    *,
    port: int,
    host: str,
    advertise: str | None,
    address: str | None,
    create_topics: bool,
    create_groups: str | None,
    processes: int,
    own_port: int | None,
    first_check: timedelta,
    drain: timedelta,
    **given: Any,  # noqa: ANN401 - as click parsed them
) -> None:
    """Serve RocketMQ 5's gRPC protocol for a lake, until Ctrl-C or SIGTERM: its official SDKs send and consume here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ....coordinator import DeliveryOrder

    session = ctx.ensure_object(CommandSession)
    try:
        from ....gateway.server.options import GatewayOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs gRPC", operation="gateway", observed=str(error), hint="pip install 'penstock[gateway]'"
        ) from error
    at = 0 if own_port is None else max(0, own_port - port - 1)  # the number of this process among several
    options = GatewayOptions(
        host=host,
        port=port,
        advertise=None if advertise is None else endpoint_of(advertise, "--advertise"),
        address=address,
        create_topics=create_topics,
        create_groups=None if create_groups is None else DeliveryOrder(create_groups),
        own_port=own_port,
        first_check=first_check,
        drain=drain,
        access=access_of(given),
        tls=tls_of(given, None if own_port is None else at),
        plaintext=not given["tls_only"],
        audit=given["audit"],
    )
    stopper, metrics = Stopper(), MemoryMetrics()
    if processes > 1 and own_port is None:
        with session.signals.held(stopper.stop):
            _run_several(session, options, processes, stopper)
        return
    metrics_port = given["metrics_port"] + at if given["metrics_port"] else given["metrics_port"]
    with served(metrics, metrics_port, given["metrics_host"]) as shown, session.signals.held(stopper.stop):
        run_async(session, lambda lake: _serve(session, lake, options, stopper, metrics, shown))


def _run_several(session: CommandSession, options: GatewayOptions, processes: int, stopper: Stopper) -> None:
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


rocketmq.add_command(check)


async def _serve(
    session: CommandSession, lake: Lake, options: GatewayOptions, stopper: Stopper, metrics: MemoryMetrics, metrics_port: int | None
) -> None:
    from ....gateway.rocketmq.gateway import Gateway
    from ....gateway.server.options import Endpoint
    from ....gateway.server.processes import end_with_parent

    stopped = stopper.attach()
    if options.own_port is not None:
        end_with_parent(stopper.stop)
    async with Gateway(lake, options, metrics=metrics) as gateway:
        if session.as_json:
            place = {
                "host": options.host,
                "port": gateway.port or None,
                "tls_port": gateway.server.tls_port or None,
                "metrics_port": metrics_port,
            }
            output.emit({**place, "signed": options.access is not None, "lake": session.lake_shown})
        else:
            ports = [str(Endpoint(options.host, gateway.port))] if options.plaintext else []
            ports += [f"{Endpoint(options.host, gateway.server.tls_port)} (TLS)"] if options.tls is not None else []
            signed = ", to clients that sign" if options.access is not None else ""
            counted = "" if metrics_port is None else f" Metrics: port {metrics_port}."
            lake_shown = output.printable(session.lake_shown)
            output.note(f"Serving {lake_shown} at {' and '.join(ports)}{signed}.{counted} Ctrl-C or SIGTERM ends it.")
        gc.collect()
        gc.freeze()  # what is there now stays: looking at it again and again costs a tenth of the processor
        await stopped.wait()
