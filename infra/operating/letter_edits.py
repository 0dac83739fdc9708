"""A dead letter that goes back with changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...consumers.dead_letters.edit import LetterEdit
from ...consumers.dead_letters.redrive import RedriveReport, redrive
from ...consumers.dead_letters.redrive_cell import RedriveStates
from ...consumers.dead_letters.writer import QUEUE, origin_of, original_properties
from ...log import Message, MessageType, MessageView, TopicNotFound, views
from ...log.errors import InvalidArgument, MessageNotFound
from ...log.message.message import check_message
from ...log.paths import dead_letter_topic
from ...log.read.reader import Reader
from .letters import dead_letters_of
from .sending import present_topic

if TYPE_CHECKING:
    from ...aio import Lake
    from ...log.topic.topics import Topic

BY_CHARS_MAX = 200
SENT = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableLetter:
    """A dead letter, and where it would go."""

    group: str
    letter: MessageView
    topic: str
    state: str
    """no, on its way, sent: as of its redrive."""
    life: int
    """The entry that created the dead-letter queue."""
    topic_life: int | None
    """The same of the topic that it goes to; None: there is none."""

    @property
    def unchanged(self) -> LetterEdit:
        """The message as it is."""
        letter = self.letter
        return LetterEdit(
            body=letter.body,
            by="",
            message_group=letter.message_group,
            tag=letter.tag,
            keys=letter.keys,
            properties=original_properties(letter.properties),
        )


async def editable_letter(lake: Lake, group: str, offset: int) -> EditableLetter:
    """Raises `TopicNotFound`, `MessageNotFound`, and `InvalidArgument` for a message that no group gave up."""
    topic = await present_topic(lake, (await dead_letters_of(lake, group)).paths.topic)
    letter = await _letter_at(Reader(topic), offset)
    if letter is None:
        raise MessageNotFound(
            "there is no dead letter at this offset", operation="resend", object=dead_letter_topic(group), observed=offset
        )
    origin = origin_of(letter.properties)
    if origin is None:
        raise InvalidArgument("it does not say where it comes from", operation="resend", object=dead_letter_topic(group))
    try:
        topic_life = (await present_topic(lake, origin.topic)).life
    except TopicNotFound:
        topic_life = None
    states = await RedriveStates.read(lake, group, topic.life)
    return EditableLetter(
        group=group, letter=letter, topic=origin.topic, state=states.of(offset), life=topic.life, topic_life=topic_life
    )


async def _letter_at(reader: Reader, offset: int) -> MessageView | None:
    earliest, following = (await reader.offsets())[QUEUE]
    if earliest <= offset < following:
        async for batch in reader.read(queue=QUEUE, start=offset, end=offset + 1, damaged="skip"):
            return next(iter(views(reader.topic, batch)))
    return None


async def resend(
    lake: Lake, found: EditableLetter, edit: LetterEdit, *, by: str, only_group: bool = False, dry_run: bool = False
) -> RedriveReport:
    """Send one dead letter back with changes, once, as a redrive does. Raises what sending raises for a message of the topic, and `InvalidArgument`
    for a letter that went back already, or cannot.
    """
    offset = found.letter.offset
    if found.state == SENT:
        raise _refused(found, "it was sent back already")
    if found.topic_life is not None:
        _check(await lake.topic(found.topic), edit)
    signed = replace(edit, by="".join(char if char.isprintable() else "·" for char in by)[:BY_CHARS_MAX])
    report = await redrive(
        lake,
        found.group,
        limit=1,
        where=lambda letter: letter.offset == offset,
        damaged="skip",
        dry_run=dry_run,
        only_group=only_group,
        edits={offset: signed},
    )
    if not report.sent and not (found.state != "no" and report.duplicates):
        raise _refused(found, next(iter(report.refused), "somebody else sent it back meanwhile"))
    return report


def _check(topic: Topic, edit: LetterEdit) -> None:
    message = Message(edit.body, edit.message_group, edit.tag, edit.keys, edit.properties)
    # Of the type a redrive judges: what was committed or due once goes back into such a topic.
    check_message(message, MessageType.MIXED, topic.settings.limits)


def _refused(found: EditableLetter, why: str) -> InvalidArgument:
    return InvalidArgument(
        "the dead letter cannot go back",
        operation="resend",
        object=f"{dead_letter_topic(found.group)}, offset {found.letter.offset}",
        observed=why,
    )
