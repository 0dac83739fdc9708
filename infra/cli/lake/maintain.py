"""`penstock maintain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ....log import PenstockError
from ....log.metrics import MemoryMetrics, Metrics
from ...metrics import metrics_server
from ...terminal import completion, output
from ...terminal.exit_codes import exit_code
from ...terminal.metrics_options import metrics_options
from ...terminal.session import CommandSession, group_options
from ...terminal.stopper import Stopper
from ...terminal.values import DurationParam
from .stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....coordinator.maintenance import OnStep

_QUIET = {"caught_up", "floor", "lag_ms"}
"""Figures of a step that alone are not worth a line."""
_LOOKS, _LOOKS_MIN, _LOOKS_MAX = timedelta(seconds=30), timedelta(seconds=1), timedelta(hours=1)
"""The time between two looks at all groups, and its bounds."""
_QUIET_OF = {"publish": {*_QUIET, "entries"}, "iceberg": {"version", "delta_version"}}
"""The same of single steps. Entries without rows show no messages."""


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@click.option("--once", is_flag=True, help="Every step once, then end; the exit code tells whether all went well.")
@click.option(
    "--publish-interval",
    type=DurationParam(),
    default="3.6s",
    show_default=True,
    help="The time between commits to a topic's Delta table.",
)
@metrics_options
@click.option(
    "--metrics-interval",
    type=DurationParam(),
    metavar="DURATION",
    help=f"With --metrics-port: the time between two looks at all groups, 1s to 1h.  [default: {output.duration_text(_LOOKS)}]",
)
@click.option("--verbose", "-v", is_flag=True, help="Also a line for steps that had nothing to do.")
@group_options
@click.pass_obj
def command(
    session: CommandSession,
    topics: tuple[str, ...],
    once: bool,
    publish_interval: timedelta,
    metrics_port: int | None,
    metrics_host: str,
    metrics_interval: timedelta | None,
    verbose: bool,
) -> int:
    """Maintain topics (default: all, new ones too) until Ctrl-C or SIGTERM: publish to the Delta table, compact, drop what has expired,
    trim the log, and collect what nothing needs. For all topics, also deliver delayed messages, and finish transactions of senders that
    died.

    With --metrics-port it also tells lag, owners, parked message groups, dead letters and delayed messages of all groups, with or without
    workers.

    The role is leased: topics are shared evenly with others that maintain the lake, also with processes that have it open. Topics of a
    process that died are taken over. For 14 days, retention spares messages that consumer groups have blocked, parked or waiting. The step
    under way is ended in order.
    """
    from .maintenance import maintain_once

    if once and metrics_port is not None:
        raise click.UsageError("--metrics-port is for who keeps running: leave --once out.")
    if metrics_interval is not None and metrics_port is None:
        raise click.UsageError("--metrics-interval is for --metrics-port: give that too.")
    if metrics_interval is not None and not _LOOKS_MIN <= metrics_interval <= _LOOKS_MAX:
        raise click.UsageError(
            f"--metrics-interval is {output.format_value(_LOOKS_MIN)} to {output.format_value(_LOOKS_MAX)}, "
            f"not {output.format_value(metrics_interval)}."
        )
    looks = None if metrics_port is None else metrics_interval or _LOOKS
    errors: list[PenstockError] = []

    def report(topic: str, step: str, result: object) -> None:
        if isinstance(result, PenstockError):
            errors.append(result)
        if verbose or isinstance(result, PenstockError) or _did_something(step, result):
            _show(session, topic, step, result)

    if once:
        run_async(session, lambda lake: maintain_once(lake, topics, report))
        return exit_code(errors)
    stopper, metrics = Stopper(), MemoryMetrics()
    with metrics_server(metrics, metrics_port, metrics_host) as port, session.signals.held(stopper.stop):
        if not session.as_json:
            output.note(_begun(session.lake_shown, topics, metrics_host, port))
        run_async(session, lambda lake: _until(stopper, lake, topics, report, publish_interval, metrics, looks))
    return 0


def _begun(lake: str, topics: Sequence[str], host: str, port: int | None) -> str:
    metrics = "" if port is None else f"; metrics at http://{host}:{port}/metrics"
    return f"Maintaining {', '.join(topics) or 'all topics'} of {output.printable(lake)}{metrics}. A line for each step that does something."


async def _until(
    stopper: Stopper,
    lake: Lake,
    topics: Sequence[str],
    report: OnStep,
    publish_interval: timedelta,
    metrics: Metrics,
    look_interval: timedelta | None,
) -> None:
    from .maintenance import maintain_forever

    await maintain_forever(
        lake,
        topics,
        report,
        stopper.attach(),
        publish_interval=publish_interval,
        metrics=metrics,
        look_interval=look_interval,
    )


def _figures(result: object) -> dict[str, object]:
    if dataclasses.is_dataclass(result):
        return output.fields(result)
    return {"rows": result} if isinstance(result, int) else {}


def _did_something(step: str, result: object) -> bool:
    quiet = _QUIET_OF.get(step, _QUIET)
    return any(value for name, value in _figures(result).items() if name not in quiet)


def _show(session: CommandSession, topic: str, step: str, result: object) -> None:
    now = datetime.now(UTC)
    error = result if isinstance(result, PenstockError) else None
    if session.as_json:
        outcome: dict[str, object] = {"error": error.kind, "message": str(error)} if error else _figures(result)
        output.emit({"time": now, "topic": topic, "step": step, **outcome})
        return
    figures = ", ".join(
        f"{name.replace('_', ' ')} {output.format_value(value)}" for name, value in _figures(result).items() if value
    )
    outcome_text = f"FAILED: {error}" if error else figures or "nothing to do"
    output.say(f"{output.time_text(now)}  {topic}  {step:<10}  {outcome_text}")
