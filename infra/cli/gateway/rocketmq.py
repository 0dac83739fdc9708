"""`penstock gateway rocketmq`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.values import DurationParam
from .check import check
from .options import balanced_options, listening_options, options_of, security_options, watching_options
from .serving import CommandGateway, run_gateways

first_check_option = click.option(
    "--first-check",
    type=DurationParam(),
    default="60s",
    show_default=True,
    help="When the sender of a transaction that it left open is asked first.",
)
utc_option = click.option(
    "--utc-signatures",
    is_flag=True,
    help="Take signatures within 15 minutes of UTC only. SDKs sign their local time, so by default it may be any zone's.",
)


@click.group("rocketmq", invoke_without_command=True)
@listening_options(8081, topics="NORMAL")
@balanced_options
@first_check_option
@security_options
@utc_option
@watching_options
@log_options
@group_options
@click.pass_context
def rocketmq(ctx: click.Context, /, *, processes: int, **given: Any) -> int:  # noqa: ANN401 - as click parsed them
    """Serve RocketMQ 5's gRPC protocol for a lake, until Ctrl-C or SIGTERM: its official SDKs send and consume here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    if ctx.invoked_subcommand is None:
        return run_gateways(ctx.ensure_object(CommandSession), [rocketmq_gateway(given)], processes, given)
    return 0


rocketmq.add_command(check)


def rocketmq_gateway(given: Mapping[str, Any]) -> CommandGateway:
    """The gateway of a command's options. Raises `MissingDependency`, or a usage error."""
    try:
        from ....gateway.rocketmq.gateway import Gateway
        from ....gateway.rocketmq.options import RocketMQOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs gRPC", operation="gateway", observed=str(error), hint=install_hint("gateway")
        ) from error
    stated = {name: given[name] for name in ("first_check", "utc_signatures")}
    options = RocketMQOptions(**options_of(given), **stated)
    if options.utc_signatures and options.access is None:
        raise click.UsageError("--utc-signatures is about principals; give --access-key-file, too.")
    return options, lambda lake, metrics: Gateway(lake, options, metrics=metrics)
