"""`penstock gateway kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.values import DurationParam
from .kafka_check import kafka_check
from .options import listening_options, options_of, security_options, watching_options
from .serving import CommandGateway, run_gateways

partitions_option = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="The queues of topics that Kafka's clients make without saying how many.",
)

gather_commits_option = click.option(
    "--gather-commits",
    type=DurationParam(),
    default="0s",
    show_default=True,
    help="Write what the members of a stable group commit no sooner than so long after the last write, in one. Who commits waits for "
    "it: set it where clients commit in the background, as most do each 5 s.",
)


@click.group("kafka", invoke_without_command=True)
@listening_options(9092, topics="MIXED")
@partitions_option
@gather_commits_option
@security_options
@watching_options
@log_options
@group_options
@click.pass_context
def kafka(ctx: click.Context, /, *, processes: int, **given: Any) -> int:  # noqa: ANN401 - as click parsed them
    """Serve Kafka's protocol for a lake, until Ctrl-C or SIGTERM: any Kafka client sends and reads here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    if ctx.invoked_subcommand is None:
        return run_gateways(ctx.ensure_object(CommandSession), [kafka_gateway(given)], processes, given)
    return 0


kafka.add_command(kafka_check)


def kafka_gateway(given: Mapping[str, Any]) -> CommandGateway:
    """The gateway of a command's options. Raises `MissingDependency`."""
    try:
        from ....gateway.kafka.gateway import KafkaGateway
        from ....gateway.kafka.options import NEW_TOPICS, KafkaOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs Kafka's protocol", operation="gateway", observed=str(error), hint=install_hint("kafka")
        ) from error
    options = KafkaOptions(
        **options_of(given), new_topics=replace(NEW_TOPICS, queues=given["partitions"]), gather_commits=given["gather_commits"]
    )
    return options, lambda lake, metrics: KafkaGateway(lake, options, metrics=metrics)
