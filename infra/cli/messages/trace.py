"""`penstock trace`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ...terminal import completion, output
from ...terminal.session import CommandSession, exit_code_option, group_options


@click.command(
    epilog="What is stored is how things stand: of a message that is settled nobody knows how often it was delivered before."
)
@click.argument("message_id", shell_complete=completion.message_ids)
@click.option(
    "--topic", shell_complete=completion.topics, help="Look in this topic and the dead letters of its groups, not in all topics."
)
@group_options
@click.pass_obj
@exit_code_option
def command(session: CommandSession, /, message_id: str, topic: str | None) -> bool:
    """Tell the life of one message: where it is stored, and how it stands in every consumer group."""
    from ...operating.life import life_of
    from .life import life_tables
    from .timeline import timeline

    with session.connect(read_only=True) as lake, output.progress("looking through topics") as tell:
        traced = lake.trace(message_id, topic=topic, progress=lambda done, _: tell(done))
    found = life_of(traced, datetime.now(UTC))
    there = bool(found.places) or found.transaction is not None or found.gathered is not None
    if session.as_json:
        output.emit(found)
        return there
    for part in life_tables(found):
        output.draw(part)
    if drawn := list(timeline(found)):
        output.say(click.style("\nIn time", bold=True))
        output.say("\n".join(drawn))
    for one in found.unread:
        output.note(f"Could not be read: {one}")
    if not there:
        count = len(found.topics)
        where = f"topic {topic}" if topic is not None else f"{count:,} topic{'s' * (count != 1)}"
        never = "this lake" if topic is None else "it"
        output.note(f"No message of this id in {where}: it was never sent to {never}, or retention has taken it.")
    return there
