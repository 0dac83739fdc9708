"""`penstock gateway all`."""

from __future__ import annotations

from typing import Any

import click

from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from .kafka import gather_commits_option, kafka_gateway, partitions_option
from .options import create_groups_option, listening_options, security_options, watching_options
from .rocketmq import first_check_option, rocketmq_gateway, utc_option
from .serving import run_gateways

_PORT = click.IntRange(0, 65535)


@click.command("all")
@listening_options(8081, topics="NORMAL, or MIXED by Kafka's protocol,")
@click.option("--kafka-port", type=_PORT, default=9092, show_default=True, help="The port of Kafka's protocol; 0: any free one.")
@create_groups_option
@first_check_option
@partitions_option
@gather_commits_option
@security_options
@click.option("--kafka-tls-port", type=_PORT, default=9093, show_default=True, help="The port of Kafka's protocol with TLS.")
@utc_option
@watching_options
@log_options
@group_options
@click.pass_obj
def all_protocols(
    session: CommandSession,
    /,
    *,
    processes: int,
    kafka_port: int,
    kafka_tls_port: int,
    **given: Any,  # noqa: ANN401 - as click parsed them
) -> int:
    """Serve RocketMQ's protocol at --port and Kafka's at --kafka-port, by the same processes.

    One process appends what clients of both send to a topic, and reads it once for all.
    """
    of_kafka = {**given, "port": kafka_port, "tls_port": kafka_tls_port, "create_groups": None}
    return run_gateways(session, [rocketmq_gateway(given), kafka_gateway(of_kafka)], processes, given)
