"""Dead letters: which are chosen, and what is told of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from ...consumers.dead_letters.writer import ORIGIN_TOPIC, REASON, origin_of
from ...log import MessageView, TagFilter
from .messages import message_document

if TYPE_CHECKING:
    from ...consumers import RedriveReport


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
    """The condition that all given options hold; None for no condition."""
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
    """Whether a dead letter with these properties comes from this topic, and its reason holds this text; None: any."""
    return (topic is None or properties.get(ORIGIN_TOPIC) == topic) and (
        reason is None or reason.lower() in properties.get(REASON, "").lower()
    )


def letter_document(letter: MessageView) -> dict[str, object]:
    """A dead letter as JSON values."""
    origin = origin_of(letter.properties)
    return {**message_document(letter), "origin": None if origin is None else origin._asdict()}


def redriven_sentence(group: str, report: RedriveReport, *, dry_run: bool) -> str:
    """What a redrive did, or would do."""
    to = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(report.topics.items()))
    done = "would go back" if dry_run else "sent back"
    parts = [f"{report.sent:,} dead letters of {group} {done}{f' ({to})' if dry_run and to else ''}"]
    parts += [f"{report.duplicates:,} had been before"] * bool(report.duplicates)
    parts += [f"{report.skipped:,} skipped"] * bool(report.skipped)
    return "; ".join(parts) + "."
