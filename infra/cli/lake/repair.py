"""`penstock repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ....log.paths import TopicPaths
from ....log.stores import probe_conditional_writes
from ...terminal import completion, output
from ...terminal.exit_codes import DAMAGED
from ...terminal.session import CommandSession, command_options, confirm, confirm_options
from .stored_topics import run_async, stored_topic

if TYPE_CHECKING:
    from ....log import LogLake
    from ....log.repair import RepairReport
    from ....log.table.delta.foreign_commits import ForeignCommits


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@confirm_options
@command_options
@click.pass_obj
def command(session: CommandSession, topic: str, yes: bool, dry_run: bool) -> int:
    """Repair a topic's log that stops at a damaged entry, by an entry that carries the whole state and names what is lost.

    Commits of other engines to the topic's table, such as OPTIMIZE, are undone. Run `penstock verify` first. Of the log nothing is
    deleted; whatever can still be read stays readable. With --dry-run the exit code tells whether there is damage.
    """
    report = run_async(session, lambda lake: _repair(lake, topic, dry_run=True), read_only=True)
    if not report.needed:
        foreign = run_async(session, lambda lake: _table(lake, topic), read_only=True)
        if foreign is not None:
            return _undo(session, topic, foreign, yes=yes, dry_run=dry_run)
        _show(session, topic, report)
        return 0
    if dry_run:
        _show(session, topic, report)
        return DAMAGED
    if not yes:
        output.note(_sentence(topic, report))
        confirm("Repair it?", yes=yes)
    _show(session, topic, run_async(session, lambda lake: _repair(lake, topic, dry_run=False)))
    return 0


async def _repair(lake: LogLake, topic: str, *, dry_run: bool) -> RepairReport:
    from ....log.repair import repair

    await stored_topic(lake.store, topic)
    if not dry_run:
        await probe_conditional_writes(lake.store, lake.runtime)
    return await repair(lake.store, TopicPaths.of(topic), lake.runtime, dry_run=dry_run)


async def _table(lake: LogLake, topic: str, undo: ForeignCommits | None = None) -> ForeignCommits | None:
    from ....log.table.delta.delta_log import DeltaLog
    from ....log.table.delta.foreign_commits import find_foreign, undo_foreign

    record = await stored_topic(lake.store, topic)
    delta = DeltaLog(lake.store, TopicPaths.of(topic), record.table, lake.runtime, keep_removes=False)
    if undo is None:
        return await find_foreign(lake.store, delta)
    await undo_foreign(lake.store, delta, undo)
    return undo


def _undo(session: CommandSession, topic: str, found: ForeignCommits, *, yes: bool, dry_run: bool) -> int:
    versions = ", ".join(f"version {version} ({said})" for version, said in sorted(found.operations.items()))
    output.note(f"{topic}: others have committed to its table, and everybody stops at what they did: {versions}")
    if found.missing:
        output.note(
            f"This cannot be undone: {len(found.missing):,} files that the table had before are gone, such as {found.missing[0]}. Put them back "
            "from a backup, or create the topic anew; what is not published yet is in the log."
        )
    elif not dry_run:
        if not yes:
            output.note("Undone, the table is what it was before: rows that they added are gone, rows that they removed are there.")
            confirm("Undo these commits?", yes=yes)
        run_async(session, lambda lake: _table(lake, topic, found))
    undone = not found.missing and not dry_run
    if session.as_json:
        output.emit({"topic": topic, "needed": True, "written": undone, **output.fields(found)})
    elif undone:
        output.say(f"{topic}: undone; the table is what it was at version {found.first - 1}.")
    return 0 if undone else DAMAGED


def _show(session: CommandSession, topic: str, report: RepairReport) -> None:
    if session.as_json:
        lost = [{"queue": queue, "first_offset": first, "limit_offset": limit} for queue, first, limit in report.lost]
        output.emit({"topic": topic, **output.fields(report), "lost": lost})
        return
    output.say(_sentence(topic, report))
    if report.lost:
        rows = [(queue, first, limit - 1, limit - first) for queue, first, limit in report.lost]
        output.table(("queue", "first lost", "last lost", "messages" if report.exact else "messages, at most"), rows)


def _sentence(topic: str, report: RepairReport) -> str:
    if not report.needed:
        return f"{topic}: the log goes on to its end, nothing to repair."
    entries = ", ".join(map(str, report.lost_entries)) or "none"
    done = f"repaired by entry {report.entry}" if report.written else f"entry {report.entry} would repair it"
    sure = "the state is exact" if report.exact else "the state is a safe guess, and producers must be opened again"
    return f"{topic}: {report.damage}\n{done}; entries that cannot be read: {entries}; {sure}."
