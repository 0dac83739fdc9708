"""Dead letters: their queues, the selection of letters, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...consumers.dead_letters.redrive_cell import RedriveStates
from ...consumers.dead_letters.writer import ORIGIN_TOPIC, QUEUE, REASON, no_dead_letters, origin_of
from ...log import MessageView, TagFilter, TopicNotFound, views
from ...log.paths import dead_letter_group, dead_letter_topic
from ...log.read.reader import Reader
from ...log.topic.topics import Topic
from .bodies import BodyExcerpt, body_of_message
from .messages import message_document

if TYPE_CHECKING:
    from ...aio import Lake
    from ...consumers import RedriveReport


NO_DEAD_LETTER = "no dead letter"
"""The reason and origin of a message that was sent straight into the dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQueue:
    """The dead-letter queue of a group."""

    group: str
    topic: str
    messages: int
    last_stored: datetime | None
    retention: timedelta | None
    """None: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOrigin:
    """A dead letter's origin and reason."""

    topic: str
    queue: int
    offset: int
    reconsume_times: int
    """The deliveries after the first."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLetter:
    """One dead letter."""

    offset: int
    stored: datetime
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    body: BodyExcerpt
    origin: LetterOrigin | None
    redrive: str
    """no, on its way, sent."""

    @property
    def reason(self) -> str:
        return NO_DEAD_LETTER if self.origin is None else self.origin.reason


async def dead_letter_queues(lake: Lake) -> list[DeadLetterQueue]:
    async def look(group: str, topic: str) -> DeadLetterQueue:
        found = await lake.describe_topic(topic)
        return DeadLetterQueue(
            group=group,
            topic=topic,
            messages=found.messages,
            last_stored=found.last_stored,
            retention=found.settings.retention,
        )

    return [await look(group, name) for name in await lake.topics() if (group := dead_letter_group(name)) is not None]


@dataclass(frozen=True, slots=True)
class DeadLetterReader:
    """A group's dead-letter queue, open for reading, with the outcomes of its redrives."""

    topic: Topic
    redrives: RedriveStates = field(default_factory=RedriveStates)

    @classmethod
    async def open(cls, lake: Lake, group: str) -> DeadLetterReader:
        """Raises `TopicNotFound`, and what reading the redrives' record raises."""
        topic = await dead_letters_of(lake, group)
        return cls(topic, await RedriveStates.read(lake, group, topic.life))

    async def offsets(self) -> tuple[int, int]:
        """The first offset that is kept, and the next one."""
        return (await Reader(self.topic).offsets())[QUEUE]

    async def letters(
        self, start: int, end: int, where: Callable[[MessageView], bool] | None = None
    ) -> tuple[list[MessageView], int]:
        """The letters between two offsets for which the condition holds, and the number of unreadable ones."""
        reader, found = Reader(self.topic), list[MessageView]()
        if start < end:
            async for batch in reader.read(queue=QUEUE, start=start, end=end, damaged="skip"):
                found += [one for one in views(reader.topic, batch) if where is None or where(one)]
        return found, sum(one.messages for one in reader.left_out)


async def dead_letters_of(lake: Lake, group: str) -> Topic:
    """The topic of a group's dead letters. Raises `TopicNotFound`."""
    try:
        return await lake.topic(dead_letter_topic(group))
    except TopicNotFound:
        raise no_dead_letters(group) from None


async def redrives_of(lake: Lake, group: str) -> RedriveStates:
    """Raises `TopicNotFound`, and what reading the redrives' record raises."""
    return (await DeadLetterReader.open(lake, group)).redrives


def letter_of(letter: MessageView, redrives: RedriveStates, *, body_bytes: int) -> StoredLetter:
    """A dead letter with the first ``body_bytes`` of its body. Pure."""
    origin = origin_of(letter.properties)
    return StoredLetter(
        offset=letter.offset,
        stored=letter.store_timestamp,
        message_id=letter.message_id,
        message_group=letter.message_group,
        tag=letter.tag,
        keys=letter.keys,
        body=body_of_message(letter, most=body_bytes),
        origin=None if origin is None else LetterOrigin(**origin._asdict()),
        redrive=redrives.of(letter.offset),
    )


def condition(
    *,
    topic: str | None,
    message_group: str | None,
    key: str | None,
    tags: str | None,
    message_id: str | None,
    reason: str | None = None,
    offsets: Collection[int] = (),
) -> Callable[[MessageView], bool] | None:
    """The conjunction of all given options, if any."""
    allowed = TagFilter.parse(tags).tags
    if all(one is None for one in (topic, message_group, key, message_id, allowed, reason)) and not offsets:
        return None

    def holds(letter: MessageView) -> bool:
        return (
            is_of(letter.properties, topic, reason)
            and (message_group is None or letter.message_group == message_group)
            and (key is None or key in letter.keys)
            and (message_id is None or letter.message_id == message_id)
            and (allowed is None or letter.tag in allowed)
            and (not offsets or letter.offset in offsets)
        )

    return holds


def is_of(properties: Mapping[str, str], topic: str | None, reason: str | None) -> bool:
    """Whether a letter has this topic, and this text in its reason; None: any."""
    return (topic is None or properties.get(ORIGIN_TOPIC) == topic) and (
        reason is None or reason.lower() in properties.get(REASON, "").lower()
    )


def letter_document(letter: MessageView, redrives: RedriveStates) -> dict[str, object]:
    """A whole dead letter as JSON values. Pure."""
    origin = origin_of(letter.properties)
    told = {"origin": None if origin is None else origin._asdict(), "redrive": redrives.of(letter.offset)}
    return {**message_document(letter), **told}


def redriven_sentence(group: str, report: RedriveReport, *, dry_run: bool) -> str:
    to = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(report.topics.items()))
    done = "would go back" if dry_run else "sent back"
    parts = [f"{report.sent:,} dead letters of {group} {done}{f' ({to})' if dry_run and to else ''}"]
    parts += [f"{report.duplicates:,} had been before"] * bool(report.duplicates)
    parts += [f"{report.skipped:,} skipped"] * bool(report.skipped)
    return "; ".join(parts) + "."
