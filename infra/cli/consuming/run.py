"""`penstock run`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....log.metrics import MemoryMetrics
from ...pool.options import pool_options
from ...pool.running import run_pool
from ...pool.seat import Seat, parent_link
from ...terminal import output
from ...terminal.log_options import log_options
from ...terminal.metrics_options import metrics_options
from ...terminal.session import CommandSession, group_options
from ...terminal.values import DurationParam

if TYPE_CHECKING:
    from ....app import App
    from ....lake import Lake

_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class _Shown:
    listener: str
    topics: list[str]
    group: str
    rows: str | None
    """The class of rows that it takes; None: messages."""


@click.command(
    epilog="Exit codes of a service: 143 after SIGTERM and 130 after Ctrl-C, in order; 2 when the program or the call is wrong, so that starting "
    "it again is of no use; any other is worth another try."
)
@click.argument("target", metavar="MODULE:APP")
@pool_options
@click.option("--until-idle", type=DurationParam(), metavar="DURATION", help="End once there was nothing to do for this long.")
@click.option("--dry-run", is_flag=True, help="Check the program, the lake and the topics, show the listeners, and do nothing.")
@metrics_options
@group_options
@click.pass_obj
@log_options
def command(
    session: CommandSession,
    /,
    *,
    target: str,
    processes: int,
    worker: Seat | None,
    watched: tuple[Path, ...],
    setup: str | None,
    teardown: str | None,
    until_idle: timedelta | None,
    dry_run: bool,
    metrics_port: int | None,
    metrics_host: str,
) -> int:
    """Run the listeners of a `penstock.App`, each as a push consumer, until Ctrl-C or SIGTERM.

    On Ctrl-C and SIGTERM all take nothing more, let what runs end, acknowledge, and hand their queues over; a second signal does not wait. The
    app names the lake, unless --lake does.
    """
    if worker is None and not dry_run and (processes > 1 or watched):
        return run_pool(session, processes, metrics_port=metrics_port, metrics_host=metrics_host, watched=watched)
    from .consume_run import ConsumeRun
    from .loading import lifespan

    app = _app(target)
    metrics = MemoryMetrics()
    with parent_link(worker, metrics, metrics_port, metrics_host) as parent, _connect(session, app) as lake:
        app.check(lake)
        if dry_run:
            _show(session, app)
            return 0
        with lifespan(lake, setup, teardown):
            work = ConsumeRun()
            with (
                app.consume(lake, metrics=metrics, handle=lambda one: work.listener(one.handle)) as consumers,
                session.signals.held(work.wake),
            ):
                try:
                    parent.ready()
                    work.wait(consumers, lambda: session.signals.received is not None, until_idle)
                    work.end(consumers)
                except BaseException:
                    work.give_back()
                    for consumer in consumers:
                        consumer.close(_NO_TIME)
                    raise
        parent.finished()
    return 0


def _app(target: str) -> App:
    from ....app import App
    from .loading import import_object

    found = import_object(target, "app")
    if not isinstance(found, App):
        raise click.UsageError(f"{target!r} is no penstock.App.")
    return found


def _connect(session: CommandSession, app: App) -> Lake:
    """The lake of ``--lake``, else the app's, else the environment's."""
    given = None if session.url_is_default and app.lake is not None else session.url
    if given is None and app.lake is None:
        raise click.UsageError("Which lake? Name it in the app, give --lake URL, or set PENSTOCK_LAKE.")
    session.url = given or app.lake
    return app.connect(given, coordination=session.coordination, refusal_timeout=session.refusal_timeout)


def _show(session: CommandSession, app: App) -> None:
    shown = [
        _Shown(one.name, list(one.topics), one.group, None if one.rows is None else one.rows.cls.__name__) for one in app.listeners
    ]
    columns: output.Columns = {
        "listener": "listener",
        "topics": lambda one: ", ".join(one.topics),
        "group": "group",
        "rows": "rows",
    }
    output.records(session, shown, columns)
