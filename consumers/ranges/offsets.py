"""The places of a read: an offset for every queue, of one life of the topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from ...log.errors import DataDamaged, OffsetOutOfRange, TopicDeleted
from ...log.format.growth import Growth
from ...log.format.stored_json import shown, whole_number
from ...log.limits import NUMBER_MAX

_LIFE = "life"

Kept = Mapping[int, tuple[int, int]]
"""The earliest offset that is kept and the one after the last, by queue."""

Place: TypeAlias = "Literal['earliest', 'latest'] | datetime | int"
"""An end of a queue, the first message stored at or after a time, or an offset."""


@dataclass(frozen=True, slots=True)
class QueuePositions:
    """The places to begin or to end, by queue."""

    default: Place
    named: Mapping[int, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset in Spark's checkpoint, as JSON: ``{"life": 1, "0": 12, "1": 7}``."""

    life: int
    """The entry that created the topic: another for each life of the name."""
    queues: Mapping[int, int]

    def to_json(self) -> dict[str, int]:
        return {_LIFE: self.life, **{str(queue): offset for queue, offset in sorted(self.queues.items())}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffset:
        """Raises `DataDamaged`."""
        try:
            queues = {_number(whole_number(queue)): _number(offset) for queue, offset in document.items() if queue != _LIFE}
            return cls(_number(document[_LIFE]), queues)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataDamaged(
                "the checkpoint's offsets are not of this source",
                operation="read a stream",
                expected='such as {"life": 1, "0": 12}',
                observed=shown(document),
                hint="use a checkpointLocation of its own for every query",
            ) from error

    def of(self, queue: int) -> int:
        """A queue that came later begins at its first message."""
        return self.queues.get(queue, 0)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise ValueError
    return value


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic at one moment."""

    topic: str
    life: int
    kept: Kept
    entry: int = 0
    named: Mapping[str, int] = field(default_factory=dict)
    """The last sequence of every named producer before the ends of ``kept``."""

    growths: tuple[Growth, ...] = ()

    @property
    def end(self) -> StreamOffset:
        return StreamOffset(self.life, {queue: following for queue, (_, following) in self.kept.items()})


@dataclass(frozen=True, slots=True)
class ResumePosition:
    """The place where reading goes on, and what is missing before."""

    queues: Mapping[int, int]
    losses: tuple[str, ...] = ()


def within(standing: TopicSnapshot, wanted: Mapping[int, int], *, fail_on_data_loss: bool) -> ResumePosition:
    """The wanted offsets, each moved to the nearest kept one. Raises `OffsetOutOfRange` instead when data loss is an error."""
    queues: dict[int, int] = {}
    losses: list[str] = []
    for queue, offset in sorted(wanted.items()):
        earliest, following = standing.kept[queue]
        queues[queue] = min(max(offset, earliest), following)
        if queues[queue] == offset:
            continue
        if fail_on_data_loss:
            raise _out_of_range(standing.topic, queue, offset, earliest, following)
        losses.append(f"queue {queue}: offset {offset} is not kept, reading goes on at {queues[queue]}")
    return ResumePosition(queues, tuple(losses))


def continued(standing: TopicSnapshot, start: StreamOffset, *, fail_on_data_loss: bool) -> ResumePosition:
    """The place where a stream that stood at ``start`` goes on now.

    Raises `TopicDeleted` for another topic of the name, and `OffsetOutOfRange`; when data loss is no error, it goes on at the earliest message.
    """
    if start.life == standing.life:
        return within(standing, {queue: start.of(queue) for queue in standing.kept}, fail_on_data_loss=fail_on_data_loss)
    if fail_on_data_loss or start.life > standing.life:
        raise TopicDeleted(
            "the topic was deleted and created again since the query stood there",
            operation="read a stream",
            object=standing.topic,
            expected=f"the topic of entry {start.life}",
            observed=f"that of entry {standing.life}",
            hint="begin with a new checkpointLocation, or set failOnDataLoss=false to go on at the first message of the new topic",
        )
    queues = {queue: earliest for queue, (earliest, _) in standing.kept.items()}
    return ResumePosition(queues, ("the topic was deleted and created again, reading goes on at the first message of the new one",))


def _out_of_range(topic: str, queue: int, offset: int, earliest: int, following: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"queue {queue} has no offset {offset} any more" if offset < earliest else f"queue {queue} has no offset {offset} yet",
        operation="read",
        object=f"{topic}, queue {queue}",
        expected=f"{earliest} (the earliest kept) to {following} (the next to be written)",
        observed=f"offset {offset}",
        hint="set failOnDataLoss=false to go on at the earliest one, or begin elsewhere with startingOffsets and a new checkpointLocation",
    )
