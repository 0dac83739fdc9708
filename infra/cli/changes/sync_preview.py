"""`penstock sync --dry-run`: the outcome for each table, by a look at the topic and at the targets."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession

if TYPE_CHECKING:
    from ....cdc.sync.options import SyncOptions
    from ....cdc.sync.preview import SyncPreview, TablePreview

_WHAT = {
    "make": "to be made",
    "go on": "is there",
    "refuse": "STANDS STILL",
    "wait": "has no event yet that makes a target",
}


def show_preview(session: CommandSession, topic: str, options: SyncOptions, engine: str) -> int:
    from ....cdc.delta.deltalake_targets import DeltalakeTargets
    from ....cdc.sync.plan import SyncPlan
    from ....cdc.sync.preview import preview
    from ....coordinator.lakes import LakePlace

    plan = SyncPlan.of(LakePlace.of(session.lake_url, read_only=True), topic, options)
    if engine != "spark":
        plan.check_without_spark()
    with output.progress(f"reading {topic}"):
        found = preview(plan, DeltalakeTargets(plan.into, by_position=plan.by_position), keeps_history=engine == "spark")
    if session.as_json:
        output.emit(
            {
                "kind": "plan",
                "tables": [asdict(one) for one in found.tables],
                "ignored": found.ignored,
                "broken": [asdict(one) for one in found.broken.values()],
                "unmatched": found.unmatched,
            }
        )
    else:
        _show(found)
    return OTHER if found.broken or any(one.what == "refuse" for one in found.tables) else 0


def _show(found: SyncPreview) -> None:
    for one in found.tables:
        into = f" into {output.printable(one.target)}" if one.target else ""
        output.say(f"{output.printable(one.table)}: {one.events:,} events{into}: {_WHAT[one.what]}")
        for name, text in _details(one):
            output.say(f"  {name:8} {output.printable(text)}")
    output.say(f"{sum(one.events for one in found.tables):,} events of {len(found.tables):,} tables; {found.ignored:,} others.")
    for refused in found.broken.values():
        click.echo(f"the sync would end at queue {refused.place[0]}, offset {refused.place[1]}: {refused.reason}", err=True)
    for name in found.unmatched:
        click.echo(f"{name} is named by an option, but no event has had it yet: is it misspelt?", err=True)


def _details(one: TablePreview) -> list[tuple[str, str]]:
    details = {
        "key": ", ".join(one.key),
        "columns": ", ".join(f"{name} {kind}" for name, kind in one.columns.items()),
        "masks": ", ".join(f"{name} {mask}" for name, mask in one.masks.items()),
        "left out": ", ".join(one.left_out),
        "history": "of every version of a row" if one.history else "",
        "unfit": "" if one.policy == "stop" else {"null": "values become NULL", "reject": "events are rejected"}[one.policy],
        "rejected": f"{one.rejected:,} events, or more: no value was converted" if one.rejected else "",
        "reason": one.reason or "",
    }
    return [(name, text) for name, text in details.items() if text]
