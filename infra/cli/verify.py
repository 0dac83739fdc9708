"""`penstock verify`."""

from __future__ import annotations

import click

from ...log import Lake
from ...log.paths import TopicPaths
from ...log.verify import Finding, VerifyReport, verify
from . import output
from .endings import DAMAGED
from .session import Session, command_options
from .stored import records, run_async


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@command_options
@click.pass_obj
def command(session: Session, topics: tuple[str, ...]) -> int:
    """Check everything that topics (default: all) have stored: every entry, checkpoint and table file, log against table.

    Reads all of it once and changes nothing. Ranges that an earlier repair names as lost are shown and are no damage.
    """

    async def check(lake: Lake) -> bool:
        ok = True
        found = await records(lake.store, topics)
        for name, record in found.items():
            report = await verify(lake.store, TopicPaths.of(name), record, lake.runtime)
            _show(session, report)
            ok = ok and report.ok
        return ok

    with output.progress("verifying"):
        return 0 if run_async(session, check, read_only=True) else DAMAGED


def _show(session: Session, report: VerifyReport) -> None:
    if session.as_json:
        output.emit({**output.fields(report), "ok": report.ok})
        return
    read = f"{report.entries:,} entries, {report.checkpoints:,} checkpoints, {report.table_files:,} table files"
    rows = f"{report.log_rows:,} rows in the log, {report.table_rows:,} in the table, {report.compared_rows:,} compared"
    output.say(f"{report.topic}: {'ok' if report.ok else 'DAMAGED'} ({read}; {rows})")
    if report.findings:
        columns = ("finding", "object", "queue", "offsets", "what")
        output.table(columns, [(f.kind, f.object, f.queue, _offsets(f), f.message) for f in report.findings])


def _offsets(finding: Finding) -> str:
    if finding.first_offset is None or finding.limit_offset is None:
        return "-"
    return f"{finding.first_offset} to {finding.limit_offset - 1}"
