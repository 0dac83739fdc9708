"""`penstock send`."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ...json_values import json_value
from ...terminal import completion, output
from ...terminal.session import CommandSession, command_options
from ...terminal.values import DurationParam, property_pair
from .stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....log import SendResult


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@click.argument("body", required=False, default="")
@click.option("--message-group", help="The message group, within which order is kept.")
@click.option("--tag", help="The tag.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="A key for lookup; may be repeated.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property; may be repeated.")
@click.option("--delay", type=DurationParam(), help="Deliver it this long after it was sent: 30m, 500ms (topics of type DELAY).")
@click.option("--dry-run", is_flag=True, help="Check the message, and send nothing.")
@command_options
@click.pass_obj
def command(
    session: CommandSession,
    topic: str,
    body: str,
    message_group: str | None,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    delay: timedelta | None,
    dry_run: bool,
) -> None:
    """Send one message to a topic, as for a test; its BODY is a text, or - for standard input. `penstock produce` sends files.

    In a topic with a schema the BODY is a row as JSON. Every group that reads the topic gets the message.
    """
    from ...operating.sending import MessageDraft, checked, send

    draft = MessageDraft(
        topic=topic,
        body=sys.stdin.read() if body == "-" else body,
        message_group=message_group,
        tag=tag,
        keys=keys,
        properties=dict(map(property_pair, properties)),
        delay=delay,
    )

    async def work(lake: Lake) -> SendResult | None:
        found = await checked(lake, draft)
        return None if dry_run else await send(lake, found.message, topic)

    sent = run_async(session, work, read_only=dry_run)
    if session.as_json:
        told = {"topic": topic, "dry_run": True} if sent is None else {"topic": topic, **json_value(sent._asdict())}
        output.emit(told)
    elif sent is None:
        output.say(f"Topic {topic} would take the message.")
    else:
        place = "delayed" if sent.queue is None else f"queue {sent.queue}, offset {sent.offset}"
        output.say(f"Sent {sent.message_id} to {topic}: {place}.")
