"""`penstock sync`."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import click

from ....log import PenstockError, TopicNotFound
from ...terminal import completion, output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, group_options
from ..lake.stored_topics import run_async
from .sync_options import options_from, sync_options, values_of

if TYPE_CHECKING:
    from ....aio import Lake
    from .sync_file import SyncFile

_PROGRAM = sys.executable, "-P", "-m", f"{__package__}.sync_job"
_END_S = 60.0
_TAIL_BYTES = 4_000


def _read_config(context: click.Context, _param: click.Parameter, path: Path | None) -> SyncFile | None:
    if path is None:
        return None
    from .sync_file import read_file

    found = read_file(path, context.command.params)
    context.default_map = {**(context.default_map or {}), **found.defaults}
    return found


@click.command(
    epilog="The exit code is 1 when a table stands still at an event that cannot be applied; the others went on. It is tried again by "
    "every start."
)
@click.argument("topic", shell_complete=completion.topics)
@click.option(
    "--config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    callback=_read_config,
    metavar="FILE",
    help="Settings and options of tables, in TOML. What is given here beside it goes before it.",
)
@sync_options
@click.option("--once", is_flag=True, help="End with what is stored now.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read all events of the topic, say what would become of each table, and do nothing; with --retype, of each target.",
)
@click.option("--status", is_flag=True, help="Only show how far the sync is.")
@click.option(
    "--retype",
    is_flag=True,
    help="Only give targets that are there the types of the source's columns, or those of --column, and end. Asks first.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask, with --retype.")
@group_options
@click.pass_obj
def command(session: CommandSession, /, **given: Any) -> int:  # noqa: ANN401 - as click parsed it
    """Apply the change events of a topic to Delta tables, each exactly once, until Ctrl-C or SIGTERM.

    Events are Debezium's envelopes as JSON. Missing tables are made, and get columns that appear on the way. The batch under way is ended
    in order. If it ends otherwise, the next start goes on from the tables' progress.
    """
    topic, name = given["topic"], given["name"] or given["topic"].replace("%", "")
    if given["status"]:
        return _show_status(session, topic, name)
    if not given["into"]:
        raise click.UsageError("Where to? Give --into URL.")
    config: SyncFile | None = given["config"]
    values = values_of(given, config.rename if config else {}, config.tables if config else {})
    values |= {"into": given["into"].partition("?")[0], "name": name}
    s3 = _s3(given["into"])
    if given["retype"]:
        from .retype import retype_targets

        return retype_targets(session, topic, options_from(values), s3=s3, yes=given["yes"], dry_run=given["dry_run"])
    if given["yes"]:
        raise click.UsageError("--yes belongs to --retype.")
    if given["dry_run"]:
        from .sync_preview import show_preview

        return show_preview(session, topic, options_from({**values, "into": given["into"]}), given["engine"])
    place = {"lake": session.lake_url, "topic": topic, "coordination": session.coordination}
    task = {**place, "engine": given["engine"], "s3": s3, "options": values}
    with TemporaryFile() as noise, _started(task, noise) as job, session.signals.held(job.stop):
        return _follow(session, job, given["into"])


class _Job:
    def __init__(self, process: subprocess.Popen[bytes], noise: IO[bytes]) -> None:
        self.process = process
        self._noise = noise

    def stop(self) -> None:
        """End the process after the batch under way. May be called by a signal handler."""
        assert self.process.stdin is not None
        try:
            os.write(self.process.stdin.fileno(), b"stop\n")
        except OSError:
            return  # the process has ended

    def reports(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def tail(self) -> str:
        size = self._noise.seek(0, os.SEEK_END)
        self._noise.seek(max(0, size - _TAIL_BYTES))
        return self._noise.read().decode(errors="replace").strip()


@contextmanager
def _started(task: Mapping[str, Any], noise: IO[bytes]) -> Iterator[_Job]:
    # The process gets a session of its own, so that Ctrl-C in a terminal reaches this process only.
    process = subprocess.Popen(_PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, start_new_session=True)
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
        yield _Job(process, noise)
        process.stdin.close()
        process.wait(_END_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _follow(session: CommandSession, job: _Job, into: str) -> int:
    epoch = None
    for report in job.reports():
        match report.pop("report"):
            case "batch":
                _show_batch(session, report, after=epoch)
                epoch = report["epoch"]
            case "error":
                error = pickle.loads(base64.b64decode(report["error"]))  # noqa: S301 - our own process wrote it
                assert isinstance(error, PenstockError)
                raise error
            case "end":
                return _show_end(session, report)
    from .sync_error import ended

    raise ended(job.process.wait(_END_S), job.tail(), into)


def _show_batch(session: CommandSession, batch: Mapping[str, Any], *, after: int | None) -> None:
    """Show a batch. ``after`` is the epoch of the batch before it."""
    if session.as_json:
        output.emit({"kind": "batch", **batch})
        return
    if after not in {None, batch["epoch"]}:
        click.echo(
            f"the sync had lost its lease (was the machine halted, or the coordination table away?) and goes on under epoch {batch['epoch']}",
            err=True,
        )
    rate = batch["events"] / batch["seconds"] if batch["seconds"] else 0.0
    tables = ", ".join(f"{name} {count:,}" for name, count in batch["merged"].items()) or "nothing to write"
    cut = "" if batch["cut"] is None else f"; cut {batch['cut']:,}"
    click.echo(
        f"batch {batch['number']}: {batch['events']:,} events ({rate:,.0f}/s): {tables}; {batch['lag']:,} to come{cut}", err=True
    )
    _show_rejected(batch)
    _show_behind(batch["behind"])


def _show_end(session: CommandSession, end: Mapping[str, Any]) -> int:
    if session.as_json:
        output.emit({"kind": "end", **end})
    else:
        click.echo(f"{end['events']:,} events in {end['batches']:,} batches.")
        _show_cut(end)
        _show_rejected(end)
        _show_stopped(end["stopped"])
        for name in end["unmatched"]:
            click.echo(f"{name} is named by an option, but no event has had it yet: is it misspelt?", err=True)
    return OTHER if end["stopped"] else 0


def _show_cut(end: Mapping[str, Any]) -> None:
    if end["cut"] is not None:
        places = ", ".join(f"{name} at {place}" for name, place in end["places"].items())
        click.echo(f"The newest cut is {end['cut']:,}: {places}.")
    elif end["cuts"]:
        click.echo(
            "No cut yet: a capture stands amid a transaction, or has not told where one ends (capture --heartbeat).", err=True
        )


def _show_rejected(report: Mapping[str, Any]) -> None:
    for table, count in report["rejected"].items():
        name = "events that name no table" if table == "?" else table
        click.echo(f"{name}: {count:,} rejected, as they cannot be applied; the table of rejected events says why", err=True)
    for table, count in report["nulled"].items():
        click.echo(f"{table}: {count:,} values became NULL, as they do not fit; the table of rejected events has them", err=True)


def _show_stopped(stopped: Mapping[str, Any]) -> None:
    for table, stops in stopped.items():
        for stop in stops:
            click.echo(f"{table} stands still at queue {stop['queue']}, offset {stop['offset']}: {stop['reason']}", err=True)


def _show_behind(behind: Mapping[str, int]) -> None:
    for table, events in behind.items():
        click.echo(
            f"{table}: its last {events:,} events lie behind what was told before, and change no newer row: a connector begins again, or the "
            "source has moved to another server",
            err=True,
        )


def _show_status(session: CommandSession, topic: str, name: str) -> int:
    from ....cdc.sync.record import SyncRecord, read_record
    from ....cdc.target import behind

    found: list[tuple[SyncRecord, dict[int, tuple[int, int]]]] = []

    async def look(lake: Lake) -> None:
        record = await read_record(lake.coordination.cells, topic, name)
        if record is None:
            raise TopicNotFound(
                "there is no such sync of this topic", object=name, hint="has it run, with this --name and --coordination?"
            )
        reader = await lake.reader(topic)
        found.append((record, await reader.offsets()))

    run_async(session, look)
    ((record, kept),) = found
    lag = {queue: end - record.offsets.get(queue, 0) for queue, (_, end) in kept.items()}
    if session.as_json:
        stopped = {table: [asdict(stop) for stop in stops] for table, stops in record.stopped.items()}
        offsets = {str(queue): offset for queue, offset in record.offsets.items()}
        output.emit(
            {
                "kind": "status",
                "name": name,
                "into": record.into,
                "offsets": offsets,
                "lag": sum(lag.values()),
                "tables": sorted(record.tables),
                "stopped": stopped,
                "behind": behind(record.progress),
            }
        )
    else:
        click.echo(f"{name}: {topic} into {record.into}, {len(record.tables)} tables, {sum(lag.values()):,} events to come.")
        _show_behind(behind(record.progress))
        _show_stopped({table: [asdict(stop) for stop in stops] for table, stops in record.stopped.items()})
    return OTHER if record.stopped else 0


def _s3(into: str) -> dict[str, Any] | None:
    parts = urlsplit(into)
    if parts.scheme not in ("s3", "s3a"):
        return None
    given = {name: unquote(values[0]) for name, values in parse_qs(parts.query).items()}
    return {"endpoint": given.get("endpoint"), "region": given.get("region")}
