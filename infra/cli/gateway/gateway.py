"""`penstock gateway`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ....log.errors import MissingDependency
from ...console import output
from ...console.log_options import log_options
from ...console.session import Session, group_options
from ...console.stopper import Stopper
from ...console.values import Duration
from ..lake.stored import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.server.options import GatewayOptions, Place

_LOOPBACK = "127.0.0.1"


@click.group(invoke_without_command=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="The port to listen at; 0: any free one."
)
@click.option("--host", default=_LOOPBACK, show_default=True, help="The address to listen at; 0.0.0.0: all of the machine.")
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The one address of all gateways that clients are told, such as a load balancer's. Default: each gateway's own.",
)
@click.option("--address", metavar="HOST", help="The host by which clients reach this gateway, if not the one to listen at.")
@click.option("--create-topics", is_flag=True, help="Make a topic of type NORMAL when a client names one that there is not.")
@click.option(
    "--create-groups",
    type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
    help="Make a consumer group of this order when a client names one that there is not.",
)
@click.option("--drain", type=Duration(), default="5s", show_default=True, help="How long calls under way may last at the end.")
@log_options
@group_options
@click.pass_context
def command(
    ctx: click.Context,
    port: int,
    host: str,
    advertise: str | None,
    address: str | None,
    create_topics: bool,
    create_groups: str | None,
    drain: timedelta,
) -> None:
    """Serve RocketMQ 5's gRPC protocol for a lake, until Ctrl-C or SIGTERM: its official SDKs send and consume here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ....coordinator import DeliveryOrder

    session = ctx.ensure_object(Session)
    try:
        from ....gateway.server.options import GatewayOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs gRPC", operation="gateway", observed=str(error), hint="pip install 'penstock[gateway]'"
        ) from error
    options = GatewayOptions(
        host=host,
        port=port,
        advertise=None if advertise is None else _place(advertise),
        address=address,
        create_topics=create_topics,
        create_groups=None if create_groups is None else DeliveryOrder(create_groups),
        drain=drain,
    )
    stopper = Stopper()
    with session.signals.held(stopper.stop):
        run_async(session, lambda lake: _serve(session, lake, options, stopper))


def _place(text: str) -> Place:
    from ....gateway.server.options import Place

    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise click.UsageError(f"--advertise is HOST:PORT, not {text!r}.")
    return Place(host.removeprefix("[").removesuffix("]"), int(port))


async def _serve(session: Session, lake: Lake, options: GatewayOptions, stopper: Stopper) -> None:
    from ....gateway.gateway import Gateway

    stopped = stopper.attach()
    async with Gateway(lake, options) as gateway:
        if session.as_json:
            output.emit({"host": options.host, "port": gateway.port, "lake": session.lake_shown})
        else:
            output.note(
                f"Serving {output.printable(session.lake_shown)} at {options.host}:{gateway.port}. Ctrl-C or SIGTERM ends it."
            )
        await stopped.wait()
