"""``make demo``: a shop's change stream through a topic into Delta tables, with a crash on the way, compared row by row."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.infra.terminal.session import CommandSession, command_options

DEFAULT_LAKE = "penstock-demo"
RATE = 2500.0


@click.command()
@click.option(
    "--events",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another capture: Debezium's envelope as JSON lines, plain or gzip.",
)
@click.option(
    "--expect",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of that capture's dumps, <table>.csv or <table>.csv.gz.",
)
@click.option("--producers", type=click.IntRange(1, 64), default=4, show_default=True, help="Processes that send side by side.")
@click.option(
    "--rate",
    type=click.FloatRange(0),
    default=RATE,
    show_default=True,
    help="Events a second of all producers together; 0: as fast as they can.",
)
@click.option("--crashes/--no-crashes", default=True, show_default=True, help="Kill one producer, and Spark's driver, on the way.")
@click.option("--check", metavar="TOPIC", help="Only compare again what an earlier run left: this topic and its tables.")
@command_options
@click.pass_obj
def command(
    session: CommandSession, events: Path | None, expect: Path | None, producers: int, rate: float, crashes: bool, check: str | None
) -> int:
    """Send the change stream of a small shop through a topic into Delta tables, and compare them with the shop's own.

    Spark's driver follows the topic and keeps the tables in step, while several processes produce side by side. One producer is killed
    between a write and its acknowledgement, and the driver between two of its commits; both come back. The lake is the folder penstock-demo
    here, unless --lake names another, on local files or S3. Every run takes a topic of its own and leaves it there. Exits with 1 if a
    single event or row differs.
    """
    if (events is None) != (expect is None):
        raise click.UsageError("--events and --expect go together.")
    from .run import Plan, run_check, run_demo

    # A run makes a topic and tables, so it does not use the lake that the environment names for daily use.
    lake = DEFAULT_LAKE if session.url is None or session.url_is_default else session.url
    plan = Plan.of(lake, events, expect, producers, rate, crashes=crashes)
    equal = run_check(plan, check, as_json=session.as_json) if check else run_demo(plan, as_json=session.as_json)
    return 0 if equal else 1
