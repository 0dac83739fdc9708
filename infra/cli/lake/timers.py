"""`penstock timer`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ....log import MessageNotFound, PenstockError
from ...json_values import json_value
from ...operating.pending_messages import waiting_by_topic
from ...operating.timers import delayed_of
from ...terminal import completion, output
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, command_options, exit_code_option
from ...terminal.values import InstantParam
from ..messages.rendering import BODY_BYTES, BODY_CHARS
from .stored_topics import run_async

if TYPE_CHECKING:
    from ....log import WaitingMessage

_SHOWN = 100
_MESSAGES: output.Columns = {
    "due": "due",
    "message id": "message_id",
    "group": "message_group",
    "tag": "tag",
    "queue": "queue",
    "body": lambda one: one.body.text[:BODY_CHARS],
}
_TOPICS: output.Columns = {"topic": "topic", "waiting": "waiting.count_text", "next due": "waiting.next_due"}


@click.group(cls=CommandGroup)
def command() -> None:
    """Delayed messages that wait for their delivery time, in the timer logs %TIMER%TOPIC of topics of type DELAY."""


@command.command("list")
@click.argument("topic", required=False, shell_complete=completion.topics)
@click.option("--until", type=InstantParam(), help="Only what is due before: 2026-01-31T12:00 or +10m.")
@click.option("--limit", type=click.IntRange(min=1), default=_SHOWN, show_default=True, help="At most this many messages.")
@command_options
@click.pass_obj
@exit_code_option
def list_waiting(session: CommandSession, topic: str | None, until: datetime | None, limit: int) -> bool:
    """List the messages that wait for a topic, by delivery time; --json gives the handles by which they are recalled.

    Without a topic: the topics for which messages wait, how many, and when the next is due.
    """
    if topic is None:
        if until is not None:
            raise click.UsageError("--until belongs to a topic.")
        found_topics = run_async(session, waiting_by_topic, read_only=True)
        return output.records(session, found_topics, _TOPICS, nothing="Nothing waits.")
    with session.connect(read_only=True) as lake:
        found = lake.waiting(topic, until=until, limit=limit + 1)
    now = datetime.now(UTC)
    body_bytes = None if session.as_json else BODY_BYTES
    rows = [delayed_of(one, now, body_bytes=body_bytes) for one in found[:limit]]
    waits = output.records(session, rows, _MESSAGES, nothing="Nothing waits.")
    if len(found) > limit:
        output.note(f"More wait than these {limit:,}; --limit shows more.")
    return waits


@command.command("recall")
@click.argument("handles", nargs=-1, metavar="[HANDLE]...")
@click.option("--topic", shell_complete=completion.topics, help="With --id: where the messages wait.")
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="MESSAGE_ID",
    shell_complete=completion.message_ids,
    help="A message by its id, looked for in all that waits; may be repeated.",
)
@command_options
@click.pass_obj
def recall(session: CommandSession, handles: tuple[str, ...], topic: str | None, ids: tuple[str, ...]) -> None:
    """Recall messages, so that they are never delivered: by the recall handles of their senders, or by their ids.

    Ends at the first message that cannot be recalled.
    """
    if bool(handles) == bool(ids) or bool(ids) != bool(topic):
        raise click.UsageError("Which? Give recall handles, or --topic and --id.")
    with session.connect() as lake:
        chosen = list(handles) if topic is None else _handles(topic, ids, lake.waiting(topic))
        for number, handle in enumerate(chosen):
            try:
                message = lake.recall(handle)
            except PenstockError as error:
                if len(chosen) > 1:
                    done = f"{number:,} before it were recalled, {len(chosen) - number - 1:,} behind it not tried"
                    error.hint = done if error.hint is None else f"{error.hint}; {done}"
                raise
            if session.as_json:
                output.emit({**json_value(delayed_of(message, datetime.now(UTC))), "recalled": True})
            else:
                output.say(f"Recalled {message.message_id} of {message.topic}, due {output.time_text(message.delivery_timestamp)}.")


def _handles(topic: str, ids: Sequence[str], waiting: Sequence[WaitingMessage]) -> list[str]:
    found = {message.message_id: message.recall_handle for message in waiting if message.message_id in ids}
    for message_id in ids:
        if message_id not in found:
            raise MessageNotFound(
                "no message of this id waits",
                operation="recall",
                object=message_id,
                expected=f"one that penstock timer list {topic} shows",
                hint="it was delivered or recalled, or is of another topic",
            )
    return [found[message_id] for message_id in dict.fromkeys(ids)]
