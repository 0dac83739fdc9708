"""`penstock consume`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ....consumers import PushOptions
from ....log.metrics import MemoryMetrics
from ...pool.options import pool_options
from ...pool.running import run_pool
from ...pool.seat import Seat, parent_link
from ...terminal import completion, output
from ...terminal.log_options import log_options
from ...terminal.metrics_options import metrics_options
from ...terminal.session import CommandSession, group_options
from ...terminal.values import DurationParam, PositionParam

if TYPE_CHECKING:
    from ....coordinator import DeliveryOrderLike

_DEFAULTS = PushOptions()
_NO_TIME = timedelta(0)


@click.command(
    epilog="A command gets the body on standard input and the rest in PENSTOCK_* variables; it acknowledges the message by exit code 0. 65 "
    "(EX_DATAERR) gives it up at once, 75 (EX_TEMPFAIL) and any other code fail it: the group's retry policy applies. With --batch it gets "
    "JSON lines, and a batch that fails is halved. A function is a listener as for lake.push_consumer."
)
@click.argument("topic", shell_complete=completion.topics)
@click.option(
    "--group",
    required=True,
    shell_complete=completion.groups,
    help="The consumer group; made when there is none. penstock group create sets attempts, waits and dead letters.",
)
@click.option("--exec", "command_line", metavar="COMMAND", help="Run a shell command for each message instead of printing it.")
@click.option(
    "--call", "function", metavar="MODULE:FUNCTION", help="Call a Python function, async ones too, for each message instead."
)
@click.option(
    "--order",
    "delivery_order",
    type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
    help="The group's delivery order; a new group is ORDERLY by default.",
)
@click.option(
    "--filter", "tags", metavar="FILTER", help="What the group takes of the topic: 'paid || refunded' or 'SQL92: price > 10'."
)
@click.option(
    "--start", type=PositionParam(), default="earliest", show_default=True, help="Where a group that is new to the topic begins."
)
@click.option("--threads", type=click.IntRange(min=1), help="Messages handled at once; 1 when printing, else 20 by default.")
@click.option(
    "--batch", type=click.Choice(["group", "queue"]), help="Take messages together: of one message group, or of one queue."
)
@click.option(
    "--batch-messages",
    type=click.IntRange(min=1),
    default=_DEFAULTS.batch_messages,
    show_default=True,
    help="At most this many together.",
)
@click.option(
    "--timeout",
    type=DurationParam(),
    default=output.duration_text(_DEFAULTS.consume_timeout),
    show_default=True,
    help="What takes longer has failed; commands are killed.",
)
@click.option("--max", "most", type=click.IntRange(min=1), help="End once this many messages are done.")
@click.option("--until-idle", type=DurationParam(), metavar="DURATION", help="End once there was nothing to do for this long.")
@pool_options
@metrics_options
@group_options
@click.pass_obj
@log_options
def command(
    session: CommandSession,
    /,
    *,
    topic: str,
    group: str,
    command_line: str | None,
    function: str | None,
    delivery_order: DeliveryOrderLike | None,
    tags: str | None,
    start: Any,  # noqa: ANN401 - as click parsed it
    threads: int | None,
    batch: Literal["group", "queue"] | None,
    batch_messages: int,
    timeout: timedelta,
    most: int | None,
    until_idle: timedelta | None,
    processes: int,
    worker: Seat | None,
    watched: tuple[Path, ...],
    setup: str | None,
    teardown: str | None,
    metrics_port: int | None,
    metrics_host: str,
) -> int:
    """Consume a topic as a member of a consumer group: print each message, run a command, or call a function.

    A message is acknowledged when it is printed and flushed, when the command exits with 0, when the function returns SUCCESS. Ends on Ctrl-C
    and SIGTERM: it takes nothing more, lets what runs end, acknowledges, and hands its queues over; a second signal does not wait.
    """
    from ....consumers.arguments import check_listener
    from .consume_run import ConsumeRun
    from .handlers import CommandRunner, MessagePrinter
    from .loading import import_function, lifespan

    if command_line is not None and function is not None:
        raise click.UsageError("Either --exec or --call.")
    if most is not None and batch is not None:
        raise click.UsageError("--max counts messages one by one: leave --batch out.")
    if processes > 1 and command_line is None and function is None:
        raise click.UsageError("--processes needs --exec or --call.")
    if processes > 1 and most is not None:
        raise click.UsageError("--max counts the messages of one process: leave --processes out.")
    lake_url = session.lake_url
    if worker is None and (processes > 1 or watched):
        return run_pool(session, processes, metrics_port=metrics_port, metrics_host=metrics_host, watched=watched)
    commands = None
    handle: Callable[[Any], Any]
    if function is not None:
        handle = import_function(function)
        check_listener(handle, batch=batch is not None)
    elif command_line is not None:
        handle = commands = CommandRunner(
            command_line, group=group, lake=lake_url, timeout_s=timeout.total_seconds(), batch=batch is not None
        )
    else:
        handle = MessagePrinter(topic, as_json=session.as_json)
    work = ConsumeRun(most=most)
    metrics = MemoryMetrics()
    with (
        parent_link(worker, metrics, metrics_port, metrics_host) as parent,
        session.connect() as lake,
        lifespan(lake, setup, teardown),
    ):
        consumer = lake.push_consumer(
            topic,
            group=group,
            listener=work.listener(handle, one_by_one=batch is None and function is None),
            delivery_order=delivery_order,
            filter=tags,
            start=start,
            threads=_threads(threads or (1 if isinstance(handle, MessagePrinter) else _DEFAULTS.threads), most),
            batch=batch,
            batch_messages=batch_messages,
            consume_timeout=timeout,
            metrics=metrics,
        )
        with session.signals.held(work.wake):
            try:
                parent.ready()
                work.wait([consumer], lambda: session.signals.received is not None, until_idle)
                work.end([consumer])
            except BaseException:
                work.give_back()
                if commands is not None:
                    commands.kill()
                consumer.close(_NO_TIME)
                raise
        parent.finished()
    return 0


def _threads(threads: int, most: int | None) -> int:
    return threads if most is None else min(threads, most)
