"""`penstock dlq`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from ....log import TopicNotFound
from ...operating.letter_filters import LETTER_FILTERS
from ...terminal import completion, output
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, command_options, exit_code_option, options
from ...terminal.values import property_pair
from ..lake.stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....consumers.dead_letters.edit import LetterEdit

_QUEUES: output.Columns = {
    "group": "group",
    "dead letters": "messages",
    "last": "last_stored",
    "kept": lambda one: one.retention or "for ever",
}


@click.group(cls=CommandGroup)
def command() -> None:
    """Dead letters: messages that a consumer group gave up, kept in the topic %DLQ%GROUP."""


letter_options = options(
    click.option("--topic", shell_complete=completion.topics, help=LETTER_FILTERS["topic"]),
    click.option("--reason", metavar="TEXT", help=LETTER_FILTERS["reason"]),
    click.option("--message-group", help=LETTER_FILTERS["message_group"]),
    click.option("--key", help=LETTER_FILTERS["key"]),
    click.option("--tag", "tags", metavar="FILTER", help=LETTER_FILTERS["tags"]),
    click.option(
        "--id",
        "message_id",
        shell_complete=completion.message_ids,
        help=LETTER_FILTERS["message_id"],
    ),
    click.option("--limit", type=click.IntRange(min=1), help="At most this many messages."),
    click.option(
        "--damaged",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="What to do about dead letters that cannot be read any more: end there, or leave them out.",
    ),
)


@command.command("list")
@command_options
@click.pass_obj
@exit_code_option
def list_groups(session: CommandSession) -> bool:
    """List the groups that have a dead-letter queue; the first message that dies makes one."""
    from ...operating.letters import dead_letter_queues

    found = run_async(session, dead_letter_queues, read_only=True)
    return output.records(session, found, _QUEUES, nothing="No group has dead letters.")


@command.command("read")
@click.argument("group", shell_complete=completion.groups)
@letter_options
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    help="Export to .parquet, .jsonl, .csv, .jsonl.gz or .csv.gz, a path or any URL fsspec opens.",
)
@command_options
@click.pass_obj
@exit_code_option
def read(
    session: CommandSession,
    /,
    group: str,
    file: str | None,
    topic: str | None,
    reason: str | None,
    limit: int | None,
    **where: Any,  # noqa: ANN401 - as click parsed them
) -> bool:
    """Show the dead letters of a group, oldest first, with their origins and the reasons of their last failures."""
    from ....consumers.dead_letters.writer import no_dead_letters
    from ....log.paths import dead_letter_topic
    from ...operating.letters import letter_document, redrives_of
    from ..messages.export import export, write_batches
    from ..messages.rendering import JsonLineOutput
    from ..messages.selection import MessageSelection, at_most
    from .letters import letter_lines, of_origin

    letters = dead_letter_topic(group)
    with session.connect(read_only=True) as lake:
        try:
            reader = lake.reader(letters)
        except TopicNotFound:
            raise no_dead_letters(group) from None
        selection = MessageSelection(**where)
        batches = at_most(limit, of_origin(topic, reason, selection.batches(reader)))
        if file is not None:
            with export(file, letters) as exported:
                count = write_batches(batches, exported)
            output.note(f"{count:,} dead letters of {group} to {'standard output' if file == '-' else file}.")
        else:
            redrives = run_async(session, lambda lake: redrives_of(lake, group), read_only=True)
            spelt = partial(letter_document, redrives=redrives)
            sink = JsonLineOutput(letters, spelt=spelt) if session.as_json else letter_lines(letters, redrives)
            count = write_batches(batches, sink)
            if not count and not session.as_json:
                output.note("No dead letters.")
    return bool(count)


@command.command("redrive")
@click.argument("group", shell_complete=completion.groups)
@letter_options
@click.option(
    "--offset",
    "offsets",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only the dead letter at this offset of its queue; may be repeated.",
)
@click.option(
    "--only-group",
    is_flag=True,
    help="Let this group alone get them. Kafka's clients, readers, tables and Spark see them as any message.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go back, and send nothing.")
@command_options
@click.pass_obj
@exit_code_option
def send_back(
    session: CommandSession,
    /,
    group: str,
    limit: int | None,
    damaged: Literal["raise", "skip"],
    only_group: bool,
    dry_run: bool,
    **where: Any,  # noqa: ANN401 - as click parsed them
) -> bool:
    """Send the dead letters of a group back to the topics they came from, oldest first. Consumers may run meanwhile.

    Each goes back once, with its id, message group and properties, however often this is repeated; those left out by an option may go back
    later. Every group that reads the topic gets the messages that go back, unless --only-group is given.
    """
    from ....consumers.dead_letters.redrive import redrive
    from ...operating.letters import condition, redriven_sentence

    wanted = condition(**where)
    report = run_async(
        session,
        lambda lake: redrive(lake, group, limit=limit, where=wanted, damaged=damaged, dry_run=dry_run, only_group=only_group),
        read_only=dry_run,
    )
    if session.as_json:
        output.emit({"group": group, **({"dry_run": True} if dry_run else {}), **output.fields(report)})
        return bool(report.sent)
    output.say(redriven_sentence(group, report, dry_run=dry_run))
    for reason, count in report.refused.items():
        output.note(f"{count:,} skipped: {reason}.")
    return bool(report.sent)


@command.command("resend")
@click.argument("group", shell_complete=completion.groups)
@click.argument("offset", type=click.IntRange(min=0))
@click.option("--body", help="Another body, or - for standard input; in a topic with a schema a row as JSON.")
@click.option("--message-group", help="Another message group; '' for none.")
@click.option("--tag", help="Another tag; '' for none.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="The keys, in place of all; '' for none.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="The properties, in place of all; '' for none.")
@click.option("--only-group", is_flag=True, help="Let this group alone get it.")
@click.option(
    "--by", metavar="NAME", envvar="PENSTOCK_BY", show_envvar=True, help="Who makes this change. Default: the user at this host."
)
@click.option("--dry-run", is_flag=True, help="Say whether it could go back, and send nothing.")
@command_options
@click.pass_obj
def resend_letter(
    session: CommandSession,
    /,
    group: str,
    offset: int,
    only_group: bool,
    by: str | None,
    dry_run: bool,
    **changes: Any,  # noqa: ANN401 - as click parsed them
) -> None:
    """Send the dead letter of a group at an OFFSET of its queue back with changes, once. What no option names stays as it is.

    The dead letter stays as it was. The message has its id, and the property REDRIVE_EDITED_BY.
    """
    from ...operating.letter_edits import editable_letter, resend
    from ...terminal.user import user_at_host

    who = by or user_at_host()

    async def work(lake: Lake) -> tuple[str, str]:
        found = await editable_letter(lake, group, offset)
        await resend(lake, found, _edited(found.unchanged, changes), by=who, only_group=only_group, dry_run=dry_run)
        return found.letter.message_id, found.topic

    message_id, topic = run_async(session, work, read_only=dry_run)
    if session.as_json:
        told = {"group": group, "offset": offset, "message_id": message_id, "topic": topic}
        output.emit({**told, **({"dry_run": True} if dry_run else {})})
    else:
        output.say(f"{'Would send' if dry_run else 'Sent'} {message_id} back to {topic}.")


def _edited(edit: LetterEdit, changes: Mapping[str, Any]) -> LetterEdit:
    body, properties, keys = changes["body"], changes["properties"], changes["keys"]
    given: dict[str, Any] = {}
    if body is not None:
        given["body"] = (sys.stdin.read() if body == "-" else body).encode("utf-8", "surrogateescape")
    given |= {name: changes[name] or None for name in ("message_group", "tag") if changes[name] is not None}
    if keys:
        given["keys"] = tuple(key for key in keys if key)
    if properties:
        given["properties"] = dict(property_pair(one) for one in properties if one)
    return replace(edit, **given)
