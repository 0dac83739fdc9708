"""`penstock gateway rocketmq`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ....log.errors import MissingDependency
from ....log.metrics import MemoryMetrics
from ...metrics import metrics_server
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.stopper import Stopper
from ...terminal.values import DurationParam
from ..lake.stored_topics import run_async
from .check import check
from .options import balanced_options, listening_options, options_of, process_number, security_options, watching_options
from .serving import freeze_memory, run_several, tell_places

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.rocketmq.options import RocketMQOptions


@click.group("rocketmq", invoke_without_command=True)
@listening_options(8081, topics="NORMAL")
@balanced_options
@click.option(
    "--first-check",
    type=DurationParam(),
    default="60s",
    show_default=True,
    help="When the sender of a transaction that it left open is asked first.",
)
@security_options
@click.option(
    "--utc-signatures",
    is_flag=True,
    help="Take signatures within 15 minutes of UTC only. SDKs sign their local time, so by default it may be any zone's.",
)
@watching_options
@log_options
@group_options
@click.pass_context
def rocketmq(
    ctx: click.Context,
    /,
    *,
    first_check: timedelta,
    utc_signatures: bool,
    processes: int,
    **given: Any,  # noqa: ANN401 - as click parsed them
) -> None:
    """Serve RocketMQ 5's gRPC protocol for a lake, until Ctrl-C or SIGTERM: its official SDKs send and consume here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    if ctx.invoked_subcommand is not None:
        return
    session = ctx.ensure_object(CommandSession)
    try:
        from ....gateway.rocketmq.options import RocketMQOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs gRPC", operation="gateway", observed=str(error), hint="pip install 'penstock[gateway]'"
        ) from error
    options = RocketMQOptions(**options_of(given), first_check=first_check, utc_signatures=utc_signatures)
    if utc_signatures and options.access is None:
        raise click.UsageError("--utc-signatures is about principals; give --access-key-file, too.")
    stopper, metrics = Stopper(), MemoryMetrics()
    if processes > 1 and options.own_port is None:
        with session.signals.held(stopper.stop):
            run_several(session, options, processes, stopper)
        return
    metrics_port = given["metrics_port"] + process_number(given) if given["metrics_port"] else given["metrics_port"]
    with metrics_server(metrics, metrics_port, given["metrics_host"]) as shown, session.signals.held(stopper.stop):
        run_async(session, lambda lake: _serve(session, lake, options, stopper, metrics, shown))


rocketmq.add_command(check)


async def _serve(
    session: CommandSession,
    lake: Lake,
    options: RocketMQOptions,
    stopper: Stopper,
    metrics: MemoryMetrics,
    metrics_port: int | None,
) -> None:
    from ....gateway.rocketmq.gateway import Gateway
    from ....gateway.server.processes import end_with_parent

    stopped = stopper.attach()
    if options.own_port is not None:
        end_with_parent(stopper.stop)
    async with Gateway(lake, options, metrics=metrics) as gateway:
        ports = {"port": gateway.port, "tls_port": gateway.server.tls_port}
        tell_places(session, options, **ports, metrics_port=metrics_port)
        freeze_memory()
        await stopped.wait()
