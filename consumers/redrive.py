"""Redrive: dead letters go back to the topics they came from.

A dead letter goes back under the name of its group with its offset in the dead-letter queue as sequence: so each goes back once, in order,
however often this is repeated or broken off. One that dies again becomes another dead letter, behind those that were there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..log import InvalidArgument, Lake, MessageType, MessageView, TopicNotFound, views
from ..log.limits import is_positive
from ..log.paths import DLQ_PREFIX
from .copies import Copy, CopyWriter, name_of
from .dead_letters import QUEUE, dead_letter_topic, no_dead_letters, origin_of, unburied

REDRIVE_OFFSET = "REDRIVE_OFFSET"
"""The property that marks a message as sent back: the offset of its dead letter."""


@dataclass(frozen=True, slots=True)
class RedriveReport:
    """What became of the dead letters that one redrive went through."""

    sent: int = 0
    """Durable in their topics."""
    skipped: int = 0
    """Left where they are: not chosen, or not to be sent back."""
    duplicates: int = 0
    """Sent back by an earlier redrive."""
    last: int | None = None
    """The offset of the last of them, None where there was none."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """How many of the skipped could not be sent back, by reason."""


async def redrive(
    lake: Lake,
    group: str,
    *,
    limit: int | None = None,
    where: Callable[[MessageView], bool] | None = None,
    damaged: Literal["raise", "skip"] = "raise",
) -> RedriveReport:
    """Send the dead letters of a group back to their topics, oldest first, at most ``limit``; consumers may run meanwhile.

    Each is sent with its message id, message group, tag, keys, body, birth time and the properties it had, and is routed anew; it goes to every
    group that reads the topic. A redrive that is repeated, also after a crash, sends only what came since. ``where`` chooses by the dead
    letter; what it leaves out is passed over for good as soon as a later one of the same topic was sent. A dead letter whose topic is gone, or takes
    another message type now, is skipped and may be redriven when there is one again.

    Raises `TopicNotFound` when the group has no dead-letter queue, `DataDamaged` at a dead letter that cannot be read (``damaged="skip"``
    leaves it out), and what sending raises; what was sent before stays sent.
    """
    if limit is not None and not is_positive(limit):
        raise InvalidArgument("limit must be a positive whole number, or None for any number", operation="redrive", observed=limit)
    letters = dead_letter_topic(group)
    try:
        life = (await lake.topic(letters)).tail.state.created_entry
        reader = await lake.reader(letters)
    except TopicNotFound:
        raise no_dead_letters(group) from None
    # A dead-letter queue that is deleted and made again begins at offset 0 anew, and so must the sequences.
    run = _Run(lake, name_of("redrive", group, life))
    source = reader.read(queue=QUEUE, damaged=damaged)
    try:
        async for batch in source:
            for letter in views(letters, batch):
                if limit is not None and run.taken == limit:
                    return await run.report()
                await run.take(letter, chosen=where is None or where(letter))
            await run.flush()
        return await run.report()
    finally:
        await source.aclose()
        await run.close()


class _Run:
    """One redrive: what waits for each topic, and what became of the rest."""

    def __init__(self, lake: Lake, name: str) -> None:
        self._lake = lake
        self._name = name
        self._ways: dict[str, _Way] = {}
        self._refused: Counter[str] = Counter()
        self._skipped = 0
        self._duplicates = 0
        self._last: int | None = None
        self.taken = 0
        """Sent, or waiting to be."""

    async def take(self, letter: MessageView, *, chosen: bool) -> None:
        self._last = letter.offset
        origin = origin_of(letter.properties)
        if not chosen:
            self._skipped += 1
            return
        way = None if origin is None else await self._way(origin.topic)
        reason = "it does not say where it comes from" if way is None else way.refusal(letter)
        if reason is not None or way is None:
            self._refused[reason or ""] += 1
            self._skipped += 1
        elif letter.offset <= way.last_sequence:
            self._duplicates += 1
        else:
            way.waiting.append(Copy(letter.offset, letter, unburied(letter.properties)))
            self.taken += 1

    async def flush(self) -> None:
        """Return when all that waits is durable."""
        for way in self._ways.values():
            if way.waiting:
                copies, way.waiting = way.waiting, []
                written = await way.writer.write(copies)
                self._duplicates += written.duplicates
                self.taken -= written.duplicates

    async def report(self) -> RedriveReport:
        await self.flush()
        return RedriveReport(self.taken, self._skipped, self._duplicates, self._last, dict(self._refused))

    async def close(self) -> None:
        for way in self._ways.values():
            await way.writer.close()

    async def _way(self, topic: str) -> _Way:
        if topic not in self._ways:
            writer = CopyWriter(self._lake, topic, self._name, sequence_property=REDRIVE_OFFSET)
            way = self._ways[topic] = _Way(topic, writer)
            try:
                way.message_type = (await self._lake.topic(topic, writable=True)).settings.message_type
                way.last_sequence = await writer.last_sequence()
            except TopicNotFound:
                way.message_type = None
        return self._ways[topic]


class _Way:
    """Back to one topic."""

    def __init__(self, topic: str, writer: CopyWriter) -> None:
        self._topic = topic
        self.writer = writer
        self.message_type: MessageType | None = None
        """Of the topic's messages; None: it is gone."""
        self.last_sequence = -1
        """Of what earlier redrives sent."""
        self.waiting: list[Copy] = []

    def refusal(self, letter: MessageView) -> str | None:
        """Why a dead letter cannot be sent there, or None."""
        if self.message_type is None:
            return f"there is no topic {self._topic}"
        kind = MessageType.NORMAL if letter.message_group is None else MessageType.FIFO
        if self.message_type is not kind and not self._topic.startswith(DLQ_PREFIX):  # dead letters are of any
            return f"topic {self._topic} takes {self.message_type} messages now"
        return None
