"""Dead letters: their queues, the selection of letters, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...consumers.dead_letters.writer import ORIGIN_TOPIC, REASON, origin_of
from ...log import MessageView, TagFilter
from ...log.paths import DLQ_PREFIX
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
class LetterRow:
    """One dead letter."""

    offset: int
    stored: datetime
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    body_bytes: int
    origin: LetterOrigin | None
    redrive: str
    """no, sent, on its way."""

    @property
    def reason(self) -> str:
        return NO_DEAD_LETTER if self.origin is None else self.origin.reason


async def dead_letter_queues(lake: Lake) -> list[DeadLetterQueue]:
    async def look(topic: str) -> DeadLetterQueue:
        found = await lake.describe_topic(topic)
        return DeadLetterQueue(
            group=topic.removeprefix(DLQ_PREFIX),
            topic=topic,
            messages=found.messages,
            last_stored=found.last_stored,
            retention=found.settings.retention,
        )

    return [await look(name) for name in await lake.topics() if name.startswith(DLQ_PREFIX)]


def letter_row(letter: MessageView, redrive: str) -> LetterRow:
    """A dead letter with the outcome of its redrive. Pure."""
    origin = origin_of(letter.properties)
    return LetterRow(
        offset=letter.offset,
        stored=letter.store_timestamp,
        message_id=letter.message_id,
        message_group=letter.message_group,
        tag=letter.tag,
        keys=letter.keys,
        body_bytes=len(letter.content),
        origin=None if origin is None else LetterOrigin(**origin._asdict()),
        redrive=redrive,
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


def letter_document(letter: MessageView) -> dict[str, object]:
    origin = origin_of(letter.properties)
    return {**message_document(letter), "origin": None if origin is None else origin._asdict()}


def redriven_sentence(group: str, report: RedriveReport, *, dry_run: bool) -> str:
    to = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(report.topics.items()))
    done = "would go back" if dry_run else "sent back"
    parts = [f"{report.sent:,} dead letters of {group} {done}{f' ({to})' if dry_run and to else ''}"]
    parts += [f"{report.duplicates:,} had been before"] * bool(report.duplicates)
    parts += [f"{report.skipped:,} skipped"] * bool(report.skipped)
    return "; ".join(parts) + "."
