"""What a run left to judge: what producers were acknowledged, what stands in the log, and what members of a group were given.

A record's value is ``NAME:NUMBER``, of the producer and from 0 on. Partitions are named ``TOPIC/NUMBER``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ASSIGNED: Final = "assigned"
"""The first word of a member's line that tells of new partitions, with a time behind it."""
UNKNOWN_OFFSET: Final = -1
"""The client was told that a record is there, and not where."""


class Acknowledged(NamedTuple):
    """A record that a producer was told to be stored."""

    number: int
    partition: str
    offset: int


@dataclass
class Stretch:
    """What a member was given of one partition, from when it was assigned until that was taken from it."""

    member: str
    partition: str
    first: int
    """Offset of the first record."""
    values: list[str] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    """When it was given each value, by the wall clock."""
    jumps: list[tuple[int, int]] = field(default_factory=list)
    """Offsets that came, and those that should have come instead."""

    @property
    def next(self) -> int:
        return self.first + len(self.values)


@dataclass
class Facts:
    """All that a run left."""

    sent: dict[str, int] = field(default_factory=dict)
    """The records that each producer sent."""
    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=dict)
    stored: dict[str, list[str]] = field(default_factory=dict)
    """By partition, the values in the order of offsets, which begin at 0 and have no gaps."""
    stretches: list[Stretch] = field(default_factory=list)


def acknowledgements(lines: Iterable[str]) -> Iterator[Acknowledged]:
    """What a producer's journal says. A batch whose retry was answered without an offset is told by librdkafka as -1, 0, 1, …: it counts on."""
    counted: dict[str, int] = {}
    for line in lines:
        number, partition, text = line.split()
        offset = int(text)
        if offset == UNKNOWN_OFFSET or (partition in counted and offset == counted[partition] + 1):
            counted[partition] = offset
            offset = UNKNOWN_OFFSET
        else:
            counted.pop(partition, None)
        yield Acknowledged(int(number), partition, offset)


class MemberJournal:
    """Reads the lines of a member in turn. Each is ``assigned TIME`` or ``TIME PARTITION OFFSET VALUE``."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._open: dict[str, Stretch] = {}
        self.stretches: list[Stretch] = []

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = line.split()
            if words[0] == ASSIGNED:
                self._open = {}
                continue
            at_s, partition, offset, value = float(words[0]), words[1], int(words[2]), words[3]
            stretch = self._open.get(partition)
            if stretch is not None and offset != stretch.next:
                stretch.jumps.append((offset, stretch.next))
                stretch = None
            if stretch is None:
                stretch = self._open[partition] = Stretch(self._member, partition, offset)
                self.stretches.append(stretch)
            stretch.values.append(value)
            stretch.at_s.append(at_s)
