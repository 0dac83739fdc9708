"""`penstock read`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ...terminal import completion, output
from ...terminal.session import CommandSession, command_options, exit_code_option, options
from ...terminal.values import PositionParam
from .rendering import LineOutput, MessageSink

if TYPE_CHECKING:
    import pyarrow as pa

    from ....blocking.topics import Reader


csv_option = click.option("--csv", "as_csv", is_flag=True, help="CSV with a heading line, on standard output.")


conditions = options(
    click.option("--queue", type=int, help="Only messages of this queue."),
    click.option("--group", "message_group", help="Only messages of this message group."),
    click.option("--key", help="Only messages with this key."),
    click.option("--tag", "tags", metavar="FILTER", help="Only messages with one of these tags: 'paid || refunded'."),
    click.option(
        "--where",
        metavar="CONDITION",
        help='Only messages for which this holds: "price > 10"; of JSON bodies: body.customer.id = 7.',
    ),
    click.option("--id", "message_id", shell_complete=completion.message_ids, help="Only the message with this id."),
    click.option("--limit", type=click.IntRange(min=0), help="At most this many messages."),
    click.option(
        "--damaged",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="What to do about messages that cannot be read any more: end there, or leave them out.",
    ),
)


@click.command(epilog="A position is earliest, latest, an offset (with --queue), a time (2026-01-31T12:00) or a time ago (-10m).")
@click.argument("topic", shell_complete=completion.topics)
@conditions
@click.option("--start", type=PositionParam(), default="earliest", show_default=True, help="The first position.")
@click.option("--end", type=PositionParam(), default="latest", show_default=True, help="The position to stop before.")
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    help="Export to .parquet, .jsonl, .csv, .jsonl.gz or .csv.gz, a path or any URL fsspec opens; - is standard output.",
)
@csv_option
@click.option(
    "--columns",
    metavar="NAMES",
    help="Only these columns and fields: offset,value.amount; value is all fields. Other fields of a topic with a schema are not read.",
)
@command_options
@click.pass_obj
@exit_code_option
def command(session: CommandSession, /, topic: str, file: str | None, as_csv: bool, columns: str | None, **where: Any) -> bool:  # noqa: ANN401 - the fields of a Selection
    """Show messages of a topic, or export them with -o. --id, --key and --group find theirs without reading everything.

    Rows of a topic with a schema are shown field by field, and CSV has a column for each.
    """
    from ....log.read.projection import projection_of
    from .export import check_csv, export, lines, write_batches
    from .fields import FieldLineOutput, column_names
    from .selection import MessageSelection, check_selection

    check_csv(session, file, as_csv=as_csv)
    chosen_columns = column_names(columns)
    with session.connect(read_only=True) as lake, lake.reader(topic) as reader:
        selection = check_selection(MessageSelection(**where, columns=chosen_columns), reader)
        if chosen_columns is not None and selection.labelled:
            raise click.UsageError("--columns reads the topic: leave --id, --key and --group out.")
        schema = lake.topic_schema(topic)
        shown = projection_of(None if chosen_columns is None else list(chosen_columns), schema).arrow
        if file is None:
            sink: MessageSink
            if as_csv or session.as_json:
                sink = lines(topic, shown, columns_chosen=chosen_columns is not None, as_csv=as_csv)
            else:
                sink = (
                    LineOutput(topic)
                    if schema is None and chosen_columns is None
                    else FieldLineOutput(columns_chosen=chosen_columns is not None)
                )
            count = write_batches(selection.batches(reader), sink)
            if not count and not session.as_json:
                output.note("No messages.")
            _tell(left_out := _documents(reader))
            if session.as_json and left_out:
                output.emit({"topic": topic, "left_out": left_out})
            return bool(count)
        with (
            export(file, topic, shown=shown, columns_chosen=chosen_columns is not None, as_csv=as_csv) as sink,
            output.progress("exporting") as tell,
        ):
            count = write_batches(_counted(selection.batches(reader), tell), sink)
        _tell(left_out := _documents(reader))
    if session.as_json and file != "-":
        output.emit({"topic": topic, "messages": count, "file": file} | ({"left_out": left_out} if left_out else {}))
    else:
        output.note(f"{count:,} messages of {topic} to {'standard output' if file == '-' else file}.")
    return bool(count)


def _documents(reader: Reader) -> list[dict[str, int]]:
    """Messages that ``--damaged skip`` passed over."""
    return [
        {"queue": one.queue, "first_offset": one.first_offset, "last_offset": one.limit_offset - 1, "messages": one.messages}
        for one in reader.left_out
    ]


def _tell(left_out: list[dict[str, int]]) -> None:
    for one in left_out:
        output.note(
            f"Left out: up to {one['messages']:,} messages of queue {one['queue']} that cannot be read any more, "
            f"offsets {one['first_offset']} to {one['last_offset']}."
        )


def _counted(batches: Iterator[pa.RecordBatch], tell: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        tell(done)
