"""`penstock coordination`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, confirm, confirm_options, group_options
from ..lake.stored_topics import run_async

if TYPE_CHECKING:
    from ....coordinator.cells.table_record import TableRecord


@click.group(cls=CommandGroup)
def command() -> None:
    """The table of cells that all processes of a lake must name."""


@command.command()
@group_options
@click.pass_obj
def show(session: CommandSession) -> int:
    """Show the lake's table, and whether --coordination names it. Exits with 1 if it does not."""
    from ....coordinator.cells.table_record import shown_record, shown_table
    from ....coordinator.operators.lake_table import table_status

    found = run_async(
        session,
        lambda lake: table_status(session.coordination, store=lake.store, runtime=lake.runtime),
        read_only=True,
    )
    record, problem = found.recorded, found.problem
    if session.as_json:
        output.emit(
            {
                "lake": session.lake_shown,
                "recorded": None if record is None else _document(record),
                "named": {"url": found.named.url, "table": found.named_id},
                "agrees": problem is None,
                "problem": None if problem is None else str(problem),
            }
        )
    else:
        output.say(f"recorded: {'none yet' if record is None else shown_record(record)}")
        output.say(f"named:    {shown_table(found.named.url, found.named_id)}")
        if problem is not None:
            output.note(str(problem))
    return 0 if problem is None else OTHER


@command.command()
@click.option(
    "--former-lake", metavar="URL", help="Take the table over from this lake, which it names: the lake's URL before it was moved."
)
@confirm_options
@group_options
@click.pass_obj
def adopt(session: CommandSession, former_lake: str | None, yes: bool, dry_run: bool) -> int:
    """Make the table of --coordination the lake's, as it is.

    For a table that was lost and made again, restored under another name, or stands beside a lake that was moved. Stop all processes of
    the lake before: those that use the former table are not seen. With an empty table all groups begin anew.
    """
    from ....coordinator.operators.lake_table import adopt_table, table_status

    found = run_async(
        session,
        lambda lake: table_status(session.coordination, store=lake.store, runtime=lake.runtime),
        read_only=True,
    )
    before = "no table" if found.recorded is None else found.recorded.table.url
    if not dry_run:
        confirm(f"Make {found.named.url} the table of {session.lake_shown}, in place of {before}?", yes=yes)
    elif not session.as_json:
        output.say(f"{found.named.url} would become the table of {session.lake_shown}, in place of {before}.")
    if dry_run:
        if session.as_json:
            output.emit({"named": found.named.url, "recorded": before, "changed": False})
        return 0
    record, changed = run_async(
        session,
        lambda lake: adopt_table(session.coordination, store=lake.store, runtime=lake.runtime, former_lake=former_lake),
    )
    if session.as_json:
        output.emit({"recorded": _document(record), "changed": changed})
    else:
        said = "is the lake's table from now on" if changed else "is the lake's table already"
        output.say(f"{record.table.url} {said}.")
    return 0


@command.command()
@click.option("--from", "source", metavar="URL", help="The lake's table; default: that of --coordination, or the lake's default.")
@click.option(
    "--to", "target", metavar="URL", required=True, help="The table that takes the cells: empty, or left by an earlier move."
)
@confirm_options
@group_options
@click.pass_obj
def move(session: CommandSession, source: str | None, target: str, yes: bool, dry_run: bool) -> None:
    """Move the lake's groups to another table, all processes stopped.

    It watches the workers, and refuses while one lives. Then it waits half a minute for processes that it cannot see, copies all cells,
    compares them, and writes the lake's record: that is the move. What stops it before leaves the former table the lake's; what stops it
    later, the new one. Run it again to finish. Then name the new table in all configurations: processes that name the former one are refused.
    """
    from ....coordinator.operators.lake_table import table_status
    from ....coordinator.operators.table_move import move_table

    former = source or session.coordination
    found = run_async(session, lambda lake: table_status(former, store=lake.store, runtime=lake.runtime), read_only=True)
    if not dry_run:
        confirm(f"Move the groups of {session.lake_shown} from {found.named.url} to {target}?", yes=yes)
        report = run_async(
            session,
            lambda lake: move_table(former, target, store=lake.store, runtime=lake.runtime, tell=output.note),
        )
        if session.as_json:
            output.emit({"recorded": _document(report.record), "moved": report.moved, "cells": report.cells, "bytes": report.bytes})
        else:
            said = "are there now" if report.moved else "were there already"
            output.say(
                f"{report.cells:,} cells of {found.named.url} {said}: {report.record.table.url}. Name it in all configurations."
            )
    elif session.as_json:
        output.emit({"from": found.named.url, "to": target, "problem": None if found.problem is None else str(found.problem)})
    else:
        output.say(f"The cells of {found.named.url} would be moved to {target}.")
        if found.problem is not None:
            output.note(str(found.problem))


def _document(record: TableRecord) -> dict[str, object]:
    former, move = record.former, record.move
    return {
        "url": record.table.url,
        "table": record.table.id,
        "since": datetime.fromtimestamp(record.since_ms / 1000, UTC),
        "former": None if former is None else former.url,
        "moving_to": None if move is None else move.to.url,
    }
