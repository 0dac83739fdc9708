"""Dead letters: messages of the topic ``%DLQ%<group>`` that a consumer group gave up.

A queue's cell gives every dead letter a sequence, never twice, before it is written under the queue's name. So the owner writes only what is missing,
and a former owner adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from ...coordinator.queues.cell import QueueCell
from ...log import InvalidArgument, LogLake, MessageView, TopicDeleted, TopicExists, TopicLimits, TopicNotFound, TopicSettings
from ...log.format.stored_json import whole_number
from ...log.limits import KIB
from ...log.paths import dead_letter_topic
from .copy_writer import Copy, CopyWriter, SequencesTaken, name_of
from .field_names import names_text

ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
ORIGIN_QUEUE = "DLQ_ORIGIN_QUEUE"
ORIGIN_OFFSET = "DLQ_ORIGIN_OFFSET"
RECONSUME_TIMES = "RECONSUME_TIMES"
"""Deliveries after the first."""
REASON = "DLQ_REASON"
SEQUENCE = "DLQ_SEQUENCE"
FIELD_NAMES = "DLQ_FIELD_NAMES"
"""Names of fields in a row's body, by number, that the origin does not store."""
REDRIVE_OFFSET = "REDRIVE_OFFSET"
"""The offset of a redriven message's dead letter."""
REDRIVE_GROUP = "REDRIVE_GROUP"
"""The consumer group that alone gets a redriven message; without it all that read the topic do."""
REDRIVE_EDITED_BY = "REDRIVE_EDITED_BY"
"""The author of changes before a redrive. The dead letter has the message as it was."""
REDRIVE = "redrive"
"""The prefix of redrives' producer names."""
_ADDED_PROPERTIES = frozenset(
    {ORIGIN_TOPIC, ORIGIN_MESSAGE_ID, ORIGIN_QUEUE, ORIGIN_OFFSET, RECONSUME_TIMES, REASON, SEQUENCE, FIELD_NAMES}
)
_PREFIX = "DLQ_"
_MARKS = frozenset({REDRIVE_OFFSET, REDRIVE_GROUP})
_MARK_LIKE = re.compile(f"({_PREFIX})*({REDRIVE_OFFSET}|{REDRIVE_GROUP})")

REASON_CHARS_MAX = 256
QUEUE = 0
"""The queue of all dead letters."""
_MORE_PROPERTIES_BYTES = 4 * KIB


class DeadLetter(NamedTuple):
    """A message that was given up."""

    sequence: int
    message: MessageView
    attempts: int
    """Deliveries; 0 for a message that was skipped."""
    reason: str
    """The reason of the last failure, or of giving up; 256 characters at most."""


class Origin(NamedTuple):
    """A dead letter's origin and reason."""

    topic: str
    queue: int
    offset: int
    reconsume_times: int
    reason: str


class DeadLetterWriter:
    """Writes the dead letters of one queue of a topic for the group that gave them up.

    The first dead letter makes the topic ``%DLQ%<group>``: NORMAL, one queue, kept for three days, with limits that fit the origin's messages.
    """

    def __init__(self, lake: LogLake, group: str, topic: str, queue: int, *, may_write: Callable[[], bool] = lambda: True) -> None:
        self._lake = lake
        self._origin = topic
        self.group = group
        self.topic = dead_letter_topic(group)
        self._copies = CopyWriter(
            lake,
            self.topic,
            name_of("dead-letters", topic, queue),
            marks=(SEQUENCE, ORIGIN_OFFSET),
            queue=QUEUE,
            prepare=self._make_topic,
            may_write=may_write,
        )

    async def write(
        self, letters: Sequence[DeadLetter], *, lost: Sequence[tuple[int, int]] = (), given: int | None = None
    ) -> list[int]:
        """Return when all are durable, each once, after any earlier calls, here or in other processes.

        ``letters`` are the cell's first assigned ones, by sequence, except ``lost`` ones, of which only (offset, sequence) is left. Returns the
        sequences without a known dead letter. ``given`` is the last sequence that the cell has assigned; None: that of the last of these.

        Raises `OwnershipLost` once ``may_write`` is False. Raises `SequencesTaken` when other messages stand there: the cell was lost or put back
        (`renumbered`), or another owner has gone on. After a retry error or an unknown outcome the same call may be made again.
        """
        assigned = sorted([*(letter.sequence for letter in letters), *(sequence for _, sequence in lost)])
        if not assigned:
            return []
        last, there = -1, set[int]()
        if lost:
            last = await self._copies.last_sequence(assigned[0] - 1)
            there = await self._written_of([one for one in lost if one[1] <= last])
        if letters:
            names = await self._names(letters)
            copies = [
                Copy(one.sequence, one.message, dead_letter_properties(one) | names) for one in map(DeadLetter._make, letters)
            ]
            last = (await self._copies.write(copies)).last_sequence
        given = assigned[-1] if given is None else given
        if last > given:
            error = SequencesTaken(
                "the dead-letter queue is ahead of the cell that gives its sequences",
                operation="write dead letters",
                object=self.topic,
                expected=f"at most sequence {given}",
                observed=f"sequence {last}",
                hint="another owner has gone on; or the group's cells were lost or put back, and go on behind the observed one",
            )
            error.last_sequence = last
            error.written = frozenset(letter.sequence for letter in letters) | there
            raise error
        return [sequence for _, sequence in lost if sequence not in there]

    async def _names(self, letters: Sequence[DeadLetter]) -> dict[str, str]:
        if all(letter.message.value is None for letter in letters):
            return {}
        try:
            said = names_text((await self._lake.topic(self._origin)).schema)
        except (TopicNotFound, TopicDeleted, InvalidArgument):  # the topic of the rows is gone, and they go back nowhere
            return {}
        return {} if said is None else {FIELD_NAMES: said}

    async def _written_of(self, lost: Sequence[tuple[int, int]]) -> set[int]:
        """The sequences of those pairs that stand there."""
        if not lost:
            return set()
        wanted = {(str(offset), str(sequence)): sequence for offset, sequence in lost}

        def place(_: str, properties: dict[str, str]) -> tuple[str, str]:
            return properties.get(ORIGIN_OFFSET, ""), properties.get(SEQUENCE, "")

        return {wanted[one] for one in await self._copies.find_written(wanted, place, ("earliest", "latest"))}

    async def close(self) -> None:
        await self._copies.close()

    async def _make_topic(self) -> None:
        try:
            await self._lake.topic(self.topic, writable=True)
        except TopicNotFound:
            limits = TopicLimits()
            with suppress(TopicNotFound):
                limits = (await self._lake.topic(self._origin)).settings.limits
            with suppress(TopicExists):  # another writer made it a moment ago, for a topic with other limits
                # A consumer may not write to tables.
                await self._lake.create_topic(self.topic, dead_letter_settings(limits), table=False)


def no_dead_letters(group: str) -> TopicNotFound:
    return TopicNotFound(
        "the consumer group has no dead-letter queue",
        object=dead_letter_topic(group),
        hint="it is made by the first message that dies; `penstock dlq list` names those that are there",
    )


def dead_letter_settings(origin: TopicLimits) -> TopicSettings:
    """Dead letters may be as large as ``origin`` allows."""
    limits = TopicLimits(
        max_body_bytes=origin.max_body_bytes,
        max_properties_bytes=origin.max_properties_bytes + _MORE_PROPERTIES_BYTES,
        max_properties=origin.max_properties + len(_ADDED_PROPERTIES),
        max_message_group_bytes=origin.max_message_group_bytes,
    )
    return TopicSettings(queues=1, limits=limits)


def renumbered(cell: QueueCell, taken: SequencesTaken, seen: Sequence[tuple[int, int]]) -> QueueCell:
    """The cell with its assigned letters numbered anew, behind what the dead-letter queue holds, without those that stand there.

    ``seen`` has the (offset, sequence) pairs assigned at the error; later ones come last. Returns the same cell if none of them is assigned: others
    went on.
    """
    letters = cell.dead_letters
    assigned = letters.sequences()
    if set(assigned).isdisjoint(seen):
        return cell
    gone = [sequence in taken.written for _, sequence in assigned]
    left = tuple(offset for (offset, _), is_gone in zip(assigned, gone, strict=True) if not is_gone)
    first = max(letters.next_sequence, taken.last_sequence + 1)
    former = letters.former - sum(gone[: letters.former])
    return replace(cell, dead_letters=letters.left(left, former, next_sequence=first + len(left)))


def dead_letter_properties(letter: DeadLetter) -> dict[str, str]:
    """The message's properties, then its origin and history. Own names with ``DLQ_`` get that prefix once more, so that a dead letter of a dead
    letter is lossless; so do `REDRIVE_OFFSET` and `REDRIVE_GROUP`, unless they are marks.
    """
    message = letter.message
    marks = _MARKS if is_redriven(message) else frozenset[str]()
    return {
        **{name if name in marks else _stored_name(name): value for name, value in message.properties.items()},
        ORIGIN_TOPIC: message.topic,
        ORIGIN_MESSAGE_ID: message.message_id,
        ORIGIN_QUEUE: str(message.queue),
        ORIGIN_OFFSET: str(message.offset),
        RECONSUME_TIMES: str(max(0, letter.attempts - 1)),
        REASON: _visible(letter.reason)[:REASON_CHARS_MAX],
        SEQUENCE: str(letter.sequence),
    }


def original_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The inverse of `dead_letter_properties`."""
    return {
        name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else name: value
        for name, value in properties.items()
        if name not in _ADDED_PROPERTIES
    }


def redriven_properties(properties: Mapping[str, str], offset: int, *, only_group: str | None = None) -> dict[str, str]:
    """The original properties, and the mark of the dead letter at ``offset``, and of the ``only_group`` that gets it. Own properties of the marks'
    names get the prefix ``DLQ_``, once.
    """
    mine = original_properties(properties)
    if REDRIVE_OFFSET in properties:
        mine.pop(REDRIVE_GROUP, None)
    else:
        mine = {_PREFIX + name if _MARK_LIKE.fullmatch(name) else name: value for name, value in mine.items()}
    return {**mine, REDRIVE_OFFSET: str(offset), **({} if only_group is None else {REDRIVE_GROUP: only_group})}


def with_own_properties(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """A dead letter's properties with other ones of its message: the inverse of `original_properties`, of which marks stay."""
    marks = _MARKS if REDRIVE_OFFSET in properties else frozenset[str]()
    kept = {name: value for name, value in properties.items() if name in _ADDED_PROPERTIES or name in marks}
    return {**{_stored_name(name): value for name, value in own.items() if name not in marks}, **kept}


def is_redriven(message: MessageView) -> bool:
    return message.producer.startswith(f"{REDRIVE}/") and REDRIVE_OFFSET in message.properties


def origin_of(properties: Mapping[str, str]) -> Origin | None:
    """None for a message that is no dead letter."""
    queue, offset, times = (whole_number(properties.get(name, "")) for name in (ORIGIN_QUEUE, ORIGIN_OFFSET, RECONSUME_TIMES))
    topic, reason = properties.get(ORIGIN_TOPIC), properties.get(REASON)
    if queue is None or offset is None or times is None or topic is None or reason is None:
        return None
    return Origin(topic, queue, offset, times, reason)


def _stored_name(name: str) -> str:
    return _PREFIX + name if name in _ADDED_PROPERTIES or name in _MARKS or name.startswith(_PREFIX) else name


def _visible(text: str) -> str:
    """One line without characters that properties refuse."""
    return "".join(char if char.isprintable() else "·" for char in " ".join(text.split()))
