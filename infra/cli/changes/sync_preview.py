"""`penstock sync --dry-run`: what would become of each table, by a look at the topic and at the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ...console import output
from ...console.exit_codes import OTHER
from ...console.session import CommandSession

if TYPE_CHECKING:
    from ....cdc.sync.options import SyncOptions
    from ....cdc.sync.preview import SyncPreview, TablePreview

_WHAT = {
    "make": "to be made",
    "go on": "is there",
    "refuse": "STANDS STILL",
    "wait": "has no event yet that makes a target",
}


def show_preview(session: CommandSession, topic: str, into: str, engine: str, given: Mapping[str, Any]) -> int:
    """Show what a sync would do. ``given``: the options as `penstock.spark.sync` takes them."""
    from ....cdc.delta.tables import DeltalakeTargets
    from ....cdc.sync.preview import preview
    from ....spark.sync.start import check_without_spark

    options = _options(session, topic, into, given)
    if engine != "spark":
        check_without_spark(options)
    with output.progress(f"reading {topic}"):
        found = preview(options, DeltalakeTargets(options.into, guard=options.guard), keeps_history=engine == "spark")
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


def _options(session: CommandSession, topic: str, into: str, given: Mapping[str, Any]) -> SyncOptions:
    from ....cdc.choice.tables import TableOptions, choices_of
    from ....cdc.events.placeholders import UnavailablePlaceholder
    from ....cdc.fold.row_reader import ValueOptions
    from ....cdc.sync.options import SyncOptions
    from ....cdc.sync.rejected_table import check_aside_name
    from ....cdc.targets import TableDeclarations
    from ....coordinator.lakes import LakePlace
    from ....spark.sync.start import sync_name, target_folder

    choices = choices_of({table: TableOptions(**one) for table, one in given["table_options"].items()}, given["rename"])
    declared = TableDeclarations.of(*choices.declared(given["columns"], given["keys"]))
    return SyncOptions(
        place=LakePlace.of(session.lake_url, read_only=True),
        topic=topic,
        into=target_folder(into),
        name=sync_name(given["name"], topic),
        tables=None if given["tables"] is None else frozenset(given["tables"]),
        history=given["history"] if isinstance(given["history"], bool) else frozenset(given["history"]),
        declared=declared,
        reading=ValueOptions(UnavailablePlaceholder.of(given["unavailable_value"]), given["unfit_times"], declared.forms),
        guard=given["guard"] == "position",
        truncates=given["truncates"],
        choices=choices,
        policy=given["policy"],
        rejected=check_aside_name(given["rejected"]),
        adopt=given["adopt"],
        widen=given["widen"],
    )


def _show(found: SyncPreview) -> None:
    for one in found.tables:
        into = f" into {output.printable(one.target)}" if one.target else ""
        output.say(f"{output.printable(one.table)}: {one.events:,} events{into}: {_WHAT[one.what]}")
        for name, said in _details(one):
            output.say(f"  {name:8} {output.printable(said)}")
    output.say(f"{sum(one.events for one in found.tables):,} events of {len(found.tables):,} tables; {found.ignored:,} others.")
    for refused in found.broken.values():
        click.echo(f"the sync would end at queue {refused.place[0]}, offset {refused.place[1]}: {refused.reason}", err=True)
    for name in found.unmatched:
        click.echo(f"{name} is named by an option, but no event has had it yet: is it misspelt?", err=True)


def _details(one: TablePreview) -> list[tuple[str, str]]:
    said = {
        "key": ", ".join(one.key),
        "columns": ", ".join(f"{name} {kind}" for name, kind in one.columns.items()),
        "masks": ", ".join(f"{name} {mask}" for name, mask in one.masks.items()),
        "left out": ", ".join(one.left_out),
        "history": "of every version of a row" if one.history else "",
        "unfit": "" if one.policy == "stop" else {"null": "values become NULL", "reject": "events are rejected"}[one.policy],
        "rejected": f"{one.rejected:,} events, or more: no value was converted" if one.rejected else "",
        "reason": one.reason or "",
    }
    return [(name, text) for name, text in said.items() if text]
