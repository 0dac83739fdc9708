"""`penstock dlq`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import pyarrow as pa

from ....consumers.dead_letters.redrive import RedriveReport, redrive
from ....consumers.dead_letters.writer import ORIGIN_TOPIC, dead_letter_topic, no_dead_letters, origin_of
from ....log import MessageView, TagFilter, TopicNotFound, views
from ....log.paths import DLQ_PREFIX
from ...console import output
from ...console.session import Session, command_options
from ..lake.stored import run_async
from ..messages.rendering import document, export, written
from ..messages.selection import Selection

if TYPE_CHECKING:
    from ....lake import Lake

F = TypeVar("F", bound=Callable[..., object])

_REASON_CELLS, _BODY_CELLS_MIN = 36, 20


@click.group()
def command() -> None:
    """Dead letters: messages that a consumer group gave up, kept in the topic %DLQ%GROUP."""


def chosen(function: F) -> F:
    """The options that choose dead letters."""
    for option in reversed(
        (
            click.option("--topic", help="Only dead letters of messages of this topic."),
            click.option("--message-group", help="Only messages of this message group."),
            click.option("--key", help="Only messages with this key."),
            click.option("--tag", "tags", metavar="FILTER", help="Only messages with one of these tags: 'paid || refunded'."),
            click.option("--id", "message_id", help="Only the dead letter of the message with this id."),
            click.option("--limit", type=click.IntRange(min=1), help="At most this many messages."),
            click.option(
                "--damaged",
                type=click.Choice(["raise", "skip"]),
                default="raise",
                show_default=True,
                help="What to do about dead letters that cannot be read any more: end there, or leave them out.",
            ),
        )
    ):
        function = option(function)
    return function


@command.command("list")
@command_options
@click.pass_obj
def list_groups(session: Session) -> None:
    """List the groups that have a dead-letter queue; the first message that dies makes one."""
    with session.connect(read_only=True) as lake:
        names = [name for name in lake.topics() if name.startswith(DLQ_PREFIX)]
        found = [_standing(lake, name) for name in names]
    if session.as_json:
        for one in found:
            output.emit(one)
    elif found:
        rows = [(one["group"], one["messages"], one["last_stored"], one["retention_s"] or "for ever") for one in found]
        output.table(("group", "dead letters", "last", "kept"), rows)
    else:
        output.note("No group has dead letters.")


def _standing(lake: Lake, topic: str) -> dict[str, Any]:
    described = lake.describe_topic(topic)
    group = topic.removeprefix(DLQ_PREFIX)
    facts = {"messages": described.messages, "last_stored": described.last_stored, "retention_s": described.settings.retention}
    return {"group": group, "topic": topic, **facts}


@command.command("read")
@click.argument("group")
@chosen
@click.option(
    "-o", "--output", "file", metavar="FILE", help="Export to .parquet, .jsonl or .jsonl.gz, a path or any URL fsspec opens."
)
@command_options
@click.pass_obj
def read(session: Session, /, group: str, file: str | None, topic: str | None, limit: int | None, **where: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Show the dead letters of a group, oldest first, with their origins and the reasons of their last failures."""
    letters = dead_letter_topic(group)
    with session.connect(read_only=True) as lake:
        try:
            reader = lake.reader(letters)
        except TopicNotFound:
            raise no_dead_letters(group) from None
        selection = Selection(group=where.pop("message_group"), **where)
        batches = _at_most(limit, _of_topic(topic, selection.batches(reader)))
        if file is not None:
            with export(file, letters) as sink:
                count = written(batches, sink)
            output.note(f"{count:,} dead letters of {group} to {'standard output' if file == '-' else file}.")
        elif session.as_json:
            for batch in batches:
                for letter in views(letters, batch):
                    output.emit({**document(letter), "origin": _origin(letter)})
        elif not _show(letters, batches):
            output.note("No dead letters.")


@command.command("redrive")
@click.argument("group")
@chosen
@command_options
@click.pass_obj
def send_back(session: Session, /, group: str, limit: int | None, damaged: Literal["raise", "skip"], **where: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Send the dead letters of a group back to the topics they came from, oldest first. Consumers may run meanwhile.

    Each goes back once, with its id, message group and properties, however often this is repeated; those left out by an option may go back
    later. Every group that reads the topic gets the messages that go back.
    """
    wanted = _condition(**where)
    report = run_async(session, lambda lake: redrive(lake, group, limit=limit, where=wanted, damaged=damaged))
    if session.as_json:
        output.emit({"group": group, **output.fields(report)})
        return
    output.say(_sentence(group, report))
    for reason, count in report.refused.items():
        output.note(f"{count:,} skipped: {reason}.")


def _condition(
    *, topic: str | None, message_group: str | None, key: str | None, tags: str | None, message_id: str | None
) -> Callable[[MessageView], bool] | None:
    """The condition that all given options hold; None for no condition."""
    allowed = TagFilter.parse(tags).tags
    if all(one is None for one in (topic, message_group, key, message_id, allowed)):
        return None

    def holds(letter: MessageView) -> bool:
        return (
            (topic is None or letter.properties.get(ORIGIN_TOPIC) == topic)
            and (message_group is None or letter.message_group == message_group)
            and (key is None or key in letter.keys)
            and (message_id is None or letter.message_id == message_id)
            and (allowed is None or letter.tag in allowed)
        )

    return holds


def _sentence(group: str, report: RedriveReport) -> str:
    parts = [f"{report.sent:,} dead letters of {group} sent back"]
    parts += [f"{report.duplicates:,} had been before"] * bool(report.duplicates)
    parts += [f"{report.skipped:,} skipped"] * bool(report.skipped)
    return "; ".join(parts) + "."


# --- Showing --------------------------------------------------------------------------------------------------------------------


def _of_topic(topic: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if topic is None:
            yield batch
        else:
            mine = [dict(pairs or ()).get(ORIGIN_TOPIC) == topic for pairs in batch.column("properties").to_pylist()]
            yield batch.filter(pa.array(mine, pa.bool_()))


def _at_most(limit: int | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        batch = batch.slice(0, left)
        if batch.num_rows:
            yield batch
        if left is not None and (left := left - batch.num_rows) == 0:
            return


def _show(topic: str, batches: Iterator[pa.RecordBatch]) -> bool:
    """Show one line a dead letter, under one heading. Returns whether there was any."""
    cells: dict[str, int] | None = None
    for batch in batches:
        rows = [_line(letter) for letter in views(topic, batch)]
        if cells is None:
            cells = _cells(rows)
            output.say(click.style(_joined({name: name for name in cells}, cells), bold=True))
        output.say("\n".join(_joined(row, cells) for row in rows))
    return cells is not None


def _line(letter: MessageView) -> dict[str, str]:
    origin = origin_of(letter.properties)
    return {
        "offset": f"{letter.offset:>6}",
        "time": output.time_text(letter.store_timestamp),
        "from": "-" if origin is None else output.printable(f"{origin.topic}/{origin.queue}/{origin.offset}"),
        "group": output.printable(letter.message_group or "-"),
        "retries": f"{'-' if origin is None else origin.reconsume_times:>7}",
        "reason": output.printable(origin.reason or "-") if origin is not None else "-",
        "body": output.printable(letter.body[:1000].decode(errors="replace")),
    }


def _cells(rows: list[dict[str, str]]) -> dict[str, int]:
    """The widths that the first batch needs."""

    def longest(name: str, least: int, most: int) -> int:
        return min(most, max(least, *(len(row[name]) for row in rows)))

    cells = {
        "offset": 6,
        "time": 24,
        "from": longest("from", 16, 30),
        "group": longest("group", 8, 20),
        "retries": 7,
        "reason": longest("reason", 8, _REASON_CELLS),
    }
    left = output.width() - sum(cells.values()) - 2 * len(cells)
    return {**cells, "body": max(left, _BODY_CELLS_MIN)}


def _joined(row: dict[str, str], cells: dict[str, int]) -> str:
    return "  ".join(output.fitted(row[name], width) for name, width in cells.items()).rstrip()


def _origin(letter: MessageView) -> dict[str, object] | None:
    origin = origin_of(letter.properties)
    return None if origin is None else origin._asdict()
