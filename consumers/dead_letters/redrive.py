"""Redrive: sending dead letters back to the topics they came from.

Each letter is given a sequence in a cell (`redrive_cell`) before it is sent under the name of its group. So each goes back once, however often a
redrive is repeated, broken off or run twice at once.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from ...log import DataDamaged, InvalidArgument, LogLake, MessageType, MessageView, Reader, TopicNotFound, views
from ...log.limits import is_positive
from ...log.paths import DLQ_PREFIX, dead_letter_topic
from ...log.schema.topic_schema import TopicSchema
from .copy_writer import Copy, CopyWriter, SequencesTaken, name_of
from .edit import LetterEdit, edited
from .field_names import by_stored_names
from .redrive_cell import RedriveCell
from .writer import (
    FIELD_NAMES,
    ORIGIN_TOPIC,
    QUEUE,
    REDRIVE,
    REDRIVE_OFFSET,
    no_dead_letters,
    origin_of,
    redriven_properties,
)

log = logging.getLogger("penstock.consumers")

_CHUNK_LETTERS = 1000
NO_ORIGIN = "it does not say where it comes from"
UNREADABLE = "it could not be read when the redrive began"


@dataclass(frozen=True, slots=True)
class RedriveReport:
    """The outcome of one redrive."""

    sent: int = 0
    """Messages durable in their topics."""
    skipped: int = 0
    """Letters left where they are: not chosen, or not to be sent back."""
    duplicates: int = 0
    """Letters sent back by another redrive."""
    last: int | None = None
    """The offset of the last letter looked at."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Skipped letters that could not be sent back, by reason."""
    topics: Mapping[str, int] = field(default_factory=dict)


async def redrive(
    lake: LogLake,
    group: str,
    *,
    limit: int | None = None,
    where: Callable[[MessageView], bool] | None = None,
    damaged: Literal["raise", "skip"] = "raise",
    dry_run: bool = False,
    only_group: bool = False,
    edits: Mapping[int, LetterEdit] | None = None,
) -> RedriveReport:
    """Send the dead letters of a group back to their topics, oldest first, at most ``limit``. Consumers may run meanwhile.

    Each is sent as the original message, routed anew, to every group that reads the topic, and once, however often a redrive is repeated. Letters
    that ``where`` leaves out may go back later, as may unreadable ones, and those whose topic is gone or takes another message type or schema.

    With ``dry_run`` nothing is sent or written. With ``only_group`` this group alone gets them; Kafka's clients, readers and Spark see them as any
    message. ``edits`` are by the letter's offset. A redrive that is broken off between a letter's place and its send may send it unchanged later.

    Raises `TopicNotFound` when the group has no dead-letter queue, `DataDamaged` at a dead letter that cannot be read (``damaged="skip"`` leaves it
    out), and errors of sending.
    """
    if limit is not None and not is_positive(limit):
        raise InvalidArgument("limit must be a positive whole number, or None for any number", operation="redrive", observed=limit)
    letters = dead_letter_topic(group)
    try:
        topic = await lake.topic(letters, writable=not dry_run)
    except TopicNotFound:
        raise no_dead_letters(group) from None
    # A dead-letter queue that is deleted and made again begins at offset 0 anew, and so do the records of its redrives.
    reader = Reader(topic)
    run = _Redrive(lake, reader, RedriveCell(lake, group, topic.life), name_of(REDRIVE, group, topic.life), dry_run=dry_run)
    run.only_group, run.edits = group if only_group else None, edits or {}
    run.group = group
    try:
        await run.begin()
        source = reader.read(queue=QUEUE, damaged=damaged)
        try:
            async for batch in source:
                for letter in views(letters, batch):
                    if limit is not None and run.taken == limit:
                        return await run.report()
                    await run.take(letter, chosen=where is None or where(letter))
                await run.send()
            return await run.report()
        finally:
            await source.aclose()
    finally:
        await run.close()


class _Redrive:
    def __init__(self, lake: LogLake, reader: Reader, redriven: RedriveCell, name: str, *, dry_run: bool) -> None:
        self._lake = lake
        self._reader = reader
        self._redriven = redriven
        self._name = name
        self._dry_run = dry_run
        self.group = ""
        self.only_group: str | None = None
        self.edits: Mapping[int, LetterEdit] = {}
        self._letters = reader.topic
        self._ways: dict[str, _Way] = {}
        self._chosen: list[MessageView] = []
        self._refused: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        self._kept: dict[tuple[int, int], str] = {}
        """Reasons, by (offset, sequence), why letters cannot be written."""
        self._earliest = self._sent = self._skipped = self._duplicates = 0
        self._last: int | None = None

    @property
    def taken(self) -> int:
        return self._sent + len(self._chosen)

    async def begin(self) -> None:
        await self._redriven.read()
        self._earliest, _ = (await self._reader.offsets())[QUEUE]
        if self._dry_run:
            await self._ready({})
        else:
            await self._send_assigned({})

    async def take(self, letter: MessageView, *, chosen: bool) -> None:
        self._last = letter.offset
        letter = self._edited(letter)
        reason = next((reason for (offset, _), reason in self._kept.items() if offset == letter.offset), None)
        if reason is None and letter.offset in self._redriven.cell.settled:
            self._duplicates += 1
        elif reason is None and not chosen:
            self._skipped += 1
        elif reason is not None or (reason := await self._refusal(letter)) is not None:
            self._refused[reason] += 1
            self._skipped += 1
        else:
            self._chosen.append(letter)
            if len(self._chosen) == _CHUNK_LETTERS:
                await self.send()

    async def send(self) -> None:
        if not self._chosen:
            return
        chosen, self._chosen = {letter.offset: letter for letter in self._chosen}, []
        if self._dry_run:
            given = list(chosen)
        else:
            given = await self._redriven.give(list(chosen), earliest=self._earliest, alone=self.only_group is not None)
            self._duplicates += len(chosen) - len(given)
            await self._send_assigned(chosen)
        self._sent += len(given)
        self._topics.update(chosen[offset].properties[ORIGIN_TOPIC] for offset in given)

    async def report(self) -> RedriveReport:
        await self.send()
        return RedriveReport(self._sent, self._skipped, self._duplicates, self._last, dict(self._refused), dict(self._topics))

    async def close(self) -> None:
        for way in self._ways.values():
            await way.writer.close()
        await self._redriven.close()

    async def _send_assigned(self, known: Mapping[int, MessageView]) -> None:
        """Write all letters with a sequence that are not known to be durable. Unwritable ones keep their sequences in the cell."""
        ready, gone = await self._ready(known)
        if not ready:
            if gone:
                await self._redriven.bury(gone)
            return
        by_topic: defaultdict[str, list[Copy]] = defaultdict(list)
        for (offset, sequence), letter in ready.items():
            alone = self.group if offset in self._redriven.cell.granted else None
            properties = redriven_properties(letter.properties, offset, only_group=alone)
            topic = letter.properties[ORIGIN_TOPIC]
            by_topic[topic].append(Copy(sequence, (await self._way(topic)).stored(letter), properties))
        (*_, (_, last)), there = ready, set[int]()
        behind: SequencesTaken | None = None
        for topic, copies in by_topic.items():
            try:
                reached = (await (await self._way(topic)).writer.write(copies)).last_sequence
                there.update(copy.sequence for copy in copies)
            except SequencesTaken as error:
                reached = error.last_sequence
                there |= error.written
                behind = error if behind is None or reached > behind.last_sequence else behind
            if reached > last:
                await self._redriven.read()
                self._check_not_behind(topic, reached)
        if behind is None:
            await self._redriven.bury(ready.keys() | gone)
            return
        if not ready.keys() & {*self._redriven.cell.dead_letters.kept}:  # else what was passed over once goes behind what was not
            log.warning("what was sent back of %s is numbered anew: %s", self._letters, behind)
        behind.written = frozenset(there)
        await self._redriven.renumber(behind, ready.keys())
        await self._send_assigned(known)

    async def _ready(self, known: Mapping[int, MessageView]) -> tuple[dict[tuple[int, int], MessageView], set[tuple[int, int]]]:
        """The letters that can be written, and those that retention has taken."""
        assigned = [pair for pair in self._redriven.cell.dead_letters.sequences() if pair not in self._kept]
        gone = {pair for pair in assigned if pair[0] < self._earliest}
        letters = {**known, **await self._read([offset for offset, _ in assigned if offset not in known])}
        ready: dict[tuple[int, int], MessageView] = {}
        for pair in assigned:
            letter = letters.get(pair[0])
            reason = UNREADABLE if letter is None else await self._refusal(letter)
            if letter is not None and reason is None:
                ready[pair] = letter
            elif reason is not None:
                self._kept[pair] = reason
        return ready, gone

    def _check_not_behind(self, topic: str, last_sequence: int) -> None:
        if last_sequence >= self._redriven.cell.dead_letters.next_sequence:
            raise DataDamaged(
                "what has gone back is not what is remembered of it",
                operation="redrive",
                object=topic,
                expected=f"sequences below {self._redriven.cell.dead_letters.next_sequence}",
                observed=f"sequence {last_sequence}",
                hint="the cell under coordination/redrives/ was lost: put it back from a backup or the store's versions",
            )

    async def _read(self, offsets: Sequence[int]) -> dict[int, MessageView]:
        kept = [offset for offset in offsets if offset >= self._earliest]
        if not kept:
            return {}
        source = self._reader.messages(queue=QUEUE, start=min(kept), end=max(kept) + 1, damaged="skip")
        wanted = set(kept)
        return {letter.offset: self._edited(letter) async for letter in source if letter.offset in wanted}

    def _edited(self, letter: MessageView) -> MessageView:
        edit = self.edits.get(letter.offset)
        return letter if edit is None else edited(letter, edit)

    async def _refusal(self, letter: MessageView) -> str | None:
        origin = origin_of(letter.properties)
        return NO_ORIGIN if origin is None else (await self._way(origin.topic)).refusal(letter)

    async def _way(self, topic: str) -> _Way:
        if topic not in self._ways:
            message_type = schema = None
            with suppress(TopicNotFound):
                message_type = (await self._lake.topic(topic)).settings.message_type
                schema = await self._lake.topic_schema(topic)
            writer = CopyWriter(self._lake, topic, self._name, marks=(REDRIVE_OFFSET,))
            self._ways[topic] = _Way(topic, writer, message_type, schema)
        return self._ways[topic]


@dataclass(frozen=True, slots=True)
class _Way:
    topic: str
    writer: CopyWriter
    message_type: MessageType | None
    """The type of the topic's messages; None: the topic is gone."""
    schema: TopicSchema | None

    def stored(self, letter: MessageView) -> MessageView:
        """A letter with stored names. Raises `InvalidArgument`."""
        if self.schema is None or letter.body is None:
            return letter
        return letter._replace(body=by_stored_names(letter.body, letter.properties.get(FIELD_NAMES), self.schema))

    def refusal(self, letter: MessageView) -> str | None:
        if self.message_type is None:
            return f"there is no topic {self.topic}"
        try:
            self.stored(letter)
        except InvalidArgument:
            return f"topic {self.topic} has another schema now"
        if self.message_type is MessageType.DELAY:
            return None  # a message that was due once goes back into the topic itself
        kind = MessageType.NORMAL if letter.message_group is None else MessageType.FIFO
        if self.message_type is MessageType.TRANSACTION and kind is MessageType.NORMAL:
            return None  # the message was committed once
        if kind not in self.message_type.taken and not self.topic.startswith(DLQ_PREFIX):  # dead letters are of any type
            return f"topic {self.topic} takes {self.message_type} messages now"
        return None
