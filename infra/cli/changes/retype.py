"""`penstock sync --retype`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, confirm

if TYPE_CHECKING:
    from ....cdc.retype.retype import RetypedTable
    from ....cdc.sync.options import SyncOptions

_UNTOLD = (
    "nothing in the lake tells the types of its source's columns; the line that the sync says where the table stands still has those of the "
    "event there, and --column names any"
)


def retype_targets(
    session: CommandSession, topic: str, options: SyncOptions, *, s3: Mapping[str, Any] | None, yes: bool, dry_run: bool
) -> int:
    """Show the plan, confirm it, and carry it out. ``options``: the sync's. Returns the exit code."""
    from ....change_data import retype

    retyped = partial(retype, session.lake_url, topic, options, coordination=session.coordination)
    if s3 is not None:  # deltalake takes them from there
        environment = {"AWS_ENDPOINT_URL_S3": s3["endpoint"], "AWS_REGION": s3["region"]}
        os.environ |= {name: value for name, value in environment.items() if value}
    if dry_run or not yes:
        planned = retyped(dry_run=True)
        if dry_run:
            return _shown(session, planned, dry_run=True)
        if not any(one.changes and one.refused is None for one in planned):
            return _shown(session, planned, dry_run=False)
        for line in _lines(planned, dry_run=True):
            click.echo(line, err=True)
        confirm("Go on?", yes=False)
    return _shown(session, retyped(), dry_run=False)


def _shown(session: CommandSession, tables: Sequence[RetypedTable], *, dry_run: bool) -> int:
    if session.as_json:
        for one in tables:
            output.emit({"kind": "retype", **asdict(one), **({"dry_run": True} if dry_run else {})})
    else:
        for line in _lines(tables, dry_run=dry_run):
            output.say(line)
    return OTHER if any(one.refused is not None for one in tables) else 0


def _lines(tables: Sequence[RetypedTable], *, dry_run: bool) -> list[str]:
    lines = []
    for one in tables:
        size = f"{one.rows:,} rows in {one.files:,} files"
        if one.refused is not None:
            lines.append(f"{one.table}: stays as it is: {one.refused}")
        elif one.unknown:
            lines.append(f"{one.table}: stays as it is: {_UNTOLD}")
        elif not one.changes:
            lines.append(f"{one.table}: stays as it is: its columns hold the source's types")
        elif dry_run:
            lines.append(f"{one.table}: {size} would be rewritten")
        else:
            lines.append(f"{one.table}: {size} are rewritten, as version {one.version}")
        lines += [f"  {change.column}: {change.old} -> {change.new}" for change in one.changes]
    return lines or ["The sync has no tables."]
