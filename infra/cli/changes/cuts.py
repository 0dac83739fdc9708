"""`penstock cuts`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....log.errors import InvalidArgument
from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, command_options
from ...terminal.values import ParamType, parse_instant

if TYPE_CHECKING:
    from ....cdc.cuts.at_cut import AtCut
    from ....cdc.cuts.cut import Cut

_SHOWN = 20


class _Which(ParamType["int | datetime | str"]):
    name = "cut"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime | str:
        if not isinstance(value, str):
            assert isinstance(value, int | datetime), "it was converted before"
            return value
        if value == "latest":
            return "latest"
        if value.isascii() and value.isdecimal():
            return int(value)
        if (instant := parse_instant(value)) is None:
            self.fail(f"{value!r} is no cut: a number, latest, or a time such as 2026-11-27T09:00:00Z.", param, ctx)
        return instant


_into = click.argument("into", metavar="INTO")
_which = click.argument("cut", type=_Which(), default="latest")
_name = click.option("--name", metavar="NAME", help="The sync's name, where several write into this folder.")


@click.group(
    epilog="INTO is the folder of the targets: what penstock sync was given as --into. CUT is a number, latest, or a time."
)
def command() -> None:
    """All tables of a sync as of one source transaction: list cuts, show one, export its tables.

    penstock sync --cuts records them.
    """


@command.command("list")
@_into
@_name
@click.option("--limit", type=click.IntRange(min=1), default=_SHOWN, show_default=True, help="Only the newest ones.")
@command_options
@click.pass_obj
def list_(session: CommandSession, into: str, name: str | None, limit: int) -> None:
    """List the cuts that are kept, the newest last."""
    from ....cdc.cuts.at_cut import folder_of
    from ....cdc.cuts.cut_history import kept_cuts

    kept = kept_cuts(folder_of(into), sync=name)
    shown = kept.cuts[-limit:]
    if session.as_json:
        for cut in shown:
            output.emit({"kind": "cut", "sync": kept.sync, **_document(cut)})
        return
    rows = [(cut.number, *_line(cut), len(cut.tables), len(cut.incomplete) or "") for cut in shown]
    output.table(["cut", "place", "committed", "recorded", "tables", "stand still"], rows)
    if len(shown) < len(kept.cuts):
        output.note(f"{len(kept.cuts):,} cuts are kept, from {kept.cuts[0].number:,} on; --limit shows more.")


@command.command()
@_into
@_which
@_name
@command_options
@click.pass_obj
def show(session: CommandSession, into: str, cut: Any, name: str | None) -> int:  # noqa: ANN401 - as `_Which` made it
    """Show a cut: the places in the sources' logs, and the version of each table. The exit code is 1 if a table stood still."""
    from ....cdc.cuts.at_cut import folder_of
    from ....cdc.cuts.cut_history import kept_cuts

    kept = kept_cuts(folder_of(into), sync=name, latest_only=cut == "latest")
    found = kept.find(cut)
    if session.as_json:
        output.emit({"kind": "cut", "sync": kept.sync, **_document(found)})
    else:
        place, committed, recorded = _line(found)
        output.say(f"Cut {found.number:,} of sync {kept.sync}, recorded {recorded}.")
        output.say(f"The tables equal the source at {place}; the newest change was committed {committed or 'at a time unknown'}.")
        output.table(["table", "version"], [(table, one.version) for table, one in sorted(found.tables.items())])
        for table, why in sorted(found.incomplete.items()):
            output.note(f"{table} is not in it, as it stood still: {why}")
    return OTHER if found.incomplete else 0


@command.command()
@_into
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cut", "cut", type=_Which(), default="latest", show_default=True, metavar="CUT", help="Which cut.")
@click.option("--table", "tables", multiple=True, metavar="TABLE", help="Only this table; may be repeated.")
@_name
@command_options
@click.pass_obj
def export(session: CommandSession, into: str, folder: Path, cut: Any, tables: tuple[str, ...], name: str | None) -> int:  # noqa: ANN401
    """Write the tables of a cut to FOLDER as Parquet, each under its name. The exit code is 1 if a table stood still."""
    from .... import at_cut

    found = at_cut(into, cut, sync=name)
    wanted = tables or tuple(found)
    files = {table: folder / f"{table}.parquet" for table in wanted}
    for table, file in files.items():  # before anything is written
        found.cut.of(table)
        if file.exists():
            raise InvalidArgument("there is such a file", operation="export", object=str(file), hint="name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for table, file in files.items():
        rows = _export(found, table, file)
        if session.as_json:
            output.emit({"kind": "table", "table": table, "version": found.cut.tables[table].version, "rows": rows})
        else:
            output.say(f"{table}: {rows:,} rows")
    if session.as_json:
        output.emit({"kind": "cut", **_document(found.cut)})
    else:
        output.say(f"Cut {found.cut.number:,}, {_line(found.cut)[0]}, is in {folder}.")
        for table, why in sorted(found.cut.incomplete.items()):
            output.note(f"{table} is not in it, as it stood still: {why}")
    return OTHER if found.cut.incomplete else 0


def _export(found: AtCut, table: str, file: Path) -> int:
    import pyarrow.parquet as pq

    batches = found.batches(table)
    rows = 0
    part = file.with_name(f".{file.name}.part")  # a process that is killed leaves nothing that looks whole
    with pq.ParquetWriter(part, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    part.replace(file)
    return rows


def _document(cut: Cut) -> Mapping[str, object]:
    return {
        "number": cut.number,
        "places": cut.places,
        "committed": None if cut.source_us is None else _time(cut.source_us),
        "recorded": _time(1000 * cut.at_ms),
        "entry": cut.entry,
        "tables": {table: one.version for table, one in sorted(cut.tables.items())},
        "incomplete": dict(cut.incomplete),
    }


def _line(cut: Cut) -> tuple[str, str, str]:
    """Places, the time of the newest change, and that of the cut."""
    places = ", ".join(f"{place} ({name})" for name, place in sorted(cut.places.items()))
    committed = "" if cut.source_us is None else _time(cut.source_us)
    return places, committed, _time(1000 * cut.at_ms)


def _time(at_us: int) -> str:
    """A time to the microsecond where needed: it names the cut."""
    exact = "microseconds" if at_us % 1000 else "milliseconds"
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec=exact).replace("+00:00", "Z")
