"""`penstock verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ....log import TopicNotFound
from ...terminal import completion, output
from ...terminal.exit_codes import DAMAGED
from ...terminal.session import CommandSession, command_options
from .stored_topics import run_async, stored_topics

if TYPE_CHECKING:
    from ....log import LogLake
    from ....log.verify import Finding, VerifyReport


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@command_options
@click.pass_obj
def command(session: CommandSession, topics: tuple[str, ...]) -> int:
    """Check everything that topics (default: all) have stored: every entry, checkpoint and table file, and log against table.

    Reads all of it once and changes nothing. Ranges that an earlier repair names as lost are shown and are no damage.
    """
    from ....log.verify import VerifyReport
    from ...operating.verify import finding_of, verify_findings

    async def check(lake: LogLake) -> bool:
        found = await stored_topics(lake.store, topics)
        if not found.records and not found.unreadable:
            hint = "check the lake's URL; `penstock topic list` names what is there"
            raise TopicNotFound("there are no topics to verify", operation="verify", object=lake.store.url, hint=hint)
        ok = True
        for name, error in found.unreadable.items():
            _show(session, VerifyReport(name, findings=(finding_of(error),)))
            ok = False
        for name, record in found.records.items():
            report = await verify_findings(lake, name, record)
            _show(session, report)
            ok = ok and report.ok
        return ok

    with output.progress("verifying"):
        return 0 if run_async(session, check, read_only=True) else DAMAGED


def _show(session: CommandSession, report: VerifyReport) -> None:
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
