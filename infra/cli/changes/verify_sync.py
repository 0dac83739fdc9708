"""`penstock verify-sync`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ....cdc.verify import DumpFormat
from ....log.errors import InvalidArgument
from ...files import open_file
from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, command_options

if TYPE_CHECKING:
    from ....cdc.verify import DeltaRows, RowDifference, Rows, TableComparison
    from ....cdc.verify.pairs import DumpOptions

_EXAMPLES = 5
_VALUE_CELLS = 60


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--key", "keys", multiple=True, metavar="[TABLE=]COLUMN,…", help="The primary key, where the sync has not written it down."
)
@click.option("--table", "tables", multiple=True, metavar="TABLE", help="Only these tables (repeatable).")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="Columns that are not compared (repeatable).")
@click.option(
    "--examples", type=click.IntRange(0), default=_EXAMPLES, show_default=True, help="Rows shown of each kind of difference."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([one.value for one in DumpFormat]),
    help="What the dumps hold; default: as their names say.",
)
@click.option(
    "--null", default="", metavar="TEXT", help=r"What stands for NULL in CSV when it is not quoted; default: nothing. MySQL: \N."
)
@click.option("--empty-is-null", is_flag=True, help="The source cannot tell an empty text from NULL: they are the same.")
@command_options
@click.pass_obj
def command(
    session: CommandSession,
    source: str,
    target: str,
    keys: tuple[str, ...],
    tables: tuple[str, ...],
    ignore: tuple[str, ...],
    examples: int,
    format_name: str | None,
    null: str,
    empty_is_null: bool,
) -> int:
    """Compare Delta tables with dumps of their source tables, or with a PostgreSQL.

    SOURCE is a dump, or a folder of them: CSV with a header, JSON lines or Parquet, packed or not, named after their tables. It may also be
    postgresql://user@host/database, whose tables are read as of one moment. TARGET is a Delta table, or a folder in which each table's
    target has its name. Numbers are compared by value, times by instant. If some of several tables cannot be compared, they are named, and
    the exit code is 1.
    """
    from ....cdc.delta.location import Location
    from ....cdc.target import folder_name
    from ....cdc.verify import compare, open_target
    from ....cdc.verify.pairs import DumpOptions, keys_of
    from ....cdc.verify.target import find_target

    of_all, by_table = keys_of(keys)
    location = Location.of(target)
    equal = True
    with _sources(source, tables, DumpOptions(open_file, DumpFormat(format_name) if format_name else None, null)) as sources:
        alone = find_target(location, sources[0].name) if len(sources) == 1 else None
        for rows in sources:
            try:
                there = alone or open_target(location.inside(folder_name(rows.name)), rows.name)
                key = by_table.get(there.name) or of_all or _key_of(rows, there)
                with output.progress(f"comparing {there.name}"):
                    found = compare(rows, there, there.schema, key, ignore=ignore, examples=examples, empty_is_null=empty_is_null)
            except InvalidArgument as error:
                if len(sources) == 1:
                    raise
                _show_not_compared(session, rows.name, error)
                equal = False
            else:
                _show(session, found)
                equal = equal and found.equal
    return 0 if equal else OTHER


@contextmanager
def _sources(source: str, tables: Sequence[str], options: DumpOptions) -> Iterator[Sequence[Rows]]:
    from ....cdc.verify.pairs import find_dumps
    from ....cdc.verify.postgres import open_tables

    if source.startswith(("postgresql://", "postgres://")):
        with open_tables(source, tables) as found:
            yield found
        return
    dumps = [dump for dump in find_dumps(source, options) if not tables or dump.name in tables]
    if unknown := sorted({*tables} - {dump.name for dump in dumps}):
        raise InvalidArgument("there is no dump of such a table", operation="compare", object=source, expected=", ".join(unknown))
    yield dumps


def _key_of(source: Rows, target: DeltaRows) -> Sequence[str]:
    from ....cdc.verify.postgres import PostgresRows

    if key := target.key() or (source.key if isinstance(source, PostgresRows) else ()):
        return key
    raise InvalidArgument(
        "the primary key is not known",
        operation="compare",
        object=target.name,
        hint="name its columns with --key, such as --key id",
    )


def _show_not_compared(session: CommandSession, table: str, error: InvalidArgument) -> None:
    if session.as_json:
        output.emit({"table": table, "equal": False, "error": error.kind, "message": str(error)})
    else:
        output.say(f"{output.printable(table)}: NOT COMPARED: {error}")


def _show(session: CommandSession, found: TableComparison) -> None:
    if session.as_json:
        output.emit({**output.fields(found), "equal": found.equal})
        return
    rows = f"{found.source_rows:,} rows in the source, {found.target_rows:,} in the target"
    if found.equal:
        output.say(f"{found.table}: equal ({rows})")
        return
    counts = f"{found.missing:,} missing, {found.extra:,} extra, {found.different:,} different"
    output.say(f"{found.table}: DIFFERS ({rows}: {counts})")
    for names, where in ((found.source_columns, "source"), (found.target_columns, "target")):
        if names:
            output.say(f"  only the {where} has {', '.join(map(output.printable, names))}; --ignore leaves columns out")
    if found.differences:
        lines = [line for difference in found.differences for line in _lines(difference)]
        output.table(("row", "key", "column", "source", "target"), lines)


def _lines(difference: RowDifference) -> list[tuple[str, ...]]:
    key = ", ".join(f"{name} {_value(value)}" for name, value in difference.key.items())
    if difference.kind != "different":
        return [(difference.kind, key, "", "", "")]
    columns = [(name, _value(source), _value(target)) for name, (source, target) in difference.columns.items()]
    return [(difference.kind if place == 0 else "", key if place == 0 else "", *line) for place, line in enumerate(columns)]


def _value(value: object) -> str:
    """A value as text that parts NULL, an empty text and a number's text."""
    text = "NULL" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _VALUE_CELLS else text[: _VALUE_CELLS - 1] + "…"
