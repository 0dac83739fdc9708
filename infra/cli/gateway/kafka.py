"""`penstock gateway kafka`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ....log.errors import MissingDependency
from ....log.metrics import MemoryMetrics
from ...metrics import metrics_server
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.stopper import Stopper
from ..lake.stored_topics import run_async
from .options import listening_options, options_of, process_number, security_options, watching_options
from .serving import freeze_memory, run_several, tell_places

if TYPE_CHECKING:
    from ....aio import Lake
    from ....gateway.kafka.options import KafkaOptions


@click.command("kafka")
@listening_options(9092, topics="MIXED")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="The queues of topics that clients make without saying how many.",
)
@security_options
@watching_options
@log_options
@group_options
@click.pass_obj
def kafka(session: CommandSession, /, *, partitions: int, processes: int, **given: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Serve Kafka's protocol for a lake, until Ctrl-C or SIGTERM: any Kafka client sends and reads here.

    Any number of gateways may serve one lake. None keeps anything: clients of one that dies go on at another.
    """
    try:
        from ....gateway.kafka.options import NEW_TOPICS, KafkaOptions
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs Kafka's protocol", operation="gateway", observed=str(error), hint="pip install 'penstock[kafka]'"
        ) from error
    options = KafkaOptions(**options_of(given), new_topics=replace(NEW_TOPICS, queues=partitions))
    stopper, metrics = Stopper(), MemoryMetrics()
    if processes > 1 and options.own_port is None:
        with session.signals.held(stopper.stop):
            run_several(session, options, processes, stopper)
        return
    metrics_port = given["metrics_port"] + process_number(given) if given["metrics_port"] else given["metrics_port"]
    with metrics_server(metrics, metrics_port, given["metrics_host"]) as shown, session.signals.held(stopper.stop):
        run_async(session, lambda lake: _serve(session, lake, options, stopper, metrics, shown))


async def _serve(
    session: CommandSession,
    lake: Lake,
    options: KafkaOptions,
    stopper: Stopper,
    metrics: MemoryMetrics,
    metrics_port: int | None,
) -> None:
    from ....gateway.kafka.gateway import KafkaGateway
    from ....gateway.server.processes import end_with_parent

    stopped = stopper.attach()
    if options.own_port is not None:
        end_with_parent(stopper.stop)
    async with KafkaGateway(lake, options, metrics=metrics) as gateway:
        ports = {"port": gateway.port, "tls_port": gateway.server.tls_port}
        tell_places(session, options, **ports, metrics_port=metrics_port)
        freeze_memory()
        await stopped.wait()
