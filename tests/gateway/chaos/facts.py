"""What is sent, what becomes of it by its body alone, and what was seen of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

TOPIC: Final = "orders"
PUSHED: Final = "pushed"
"""The consumer group of the SDKs' push consumers."""
ASKED: Final = "asked"
"""The one whose members ask for messages by plain gRPC."""
ATTEMPTS: Final = 8
_PART: Final = 25
"""The messages of each thread that are sent before it is asked whether to go on."""
_POISON_PER: Final = 2_000
_FLAKY_PER: Final = 150


@dataclass
class Load:
    """What one producer sends: bodies ``NAME:0``, ``NAME:1``, …, in turn to the message groups ``NAME-0`` … ."""

    name: str
    count: int
    """How many, and how many there were when the time was over before."""
    threads: int
    groups: int

    def parts(self) -> Iterator[tuple[int, int]]:
        """First and limit of the parts that are sent one after the other."""
        size = _PART * self.threads
        return ((first, min(self.count, first + size)) for first in range(0, self.count, size))

    def bodies(self) -> list[str]:
        return [f"{self.name}:{number}" for number in range(self.count)]

    def group_of(self, body: str) -> str:
        return f"{self.name}-{int(body.partition(':')[2]) % self.groups}"


def is_poison(body: str) -> bool:
    """Whether no attempt succeeds."""
    return zlib.crc32(body.encode()) % _POISON_PER == 0


def failures(body: str) -> int:
    """How many of its first runs fail, at each consumer."""
    if is_poison(body):
        return 1_000_000
    return int(zlib.crc32(body.encode(), 1) % _FLAKY_PER == 0)


class Run(NamedTuple):
    """One run of a handler."""

    at_s: float
    """By the wall clock: when it succeeded or failed, before that was told to anybody."""
    who: str
    body: str
    attempt: int
    failed: bool
    place: tuple[int, int] | None = None
    """Queue and offset, where the client is told."""


class Stored(NamedTuple):
    """A message in the log."""

    queue: int
    offset: int
    body: str
    group: str


@dataclass
class Facts:
    """All that a run left to judge."""

    loads: list[Load] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    runs: dict[str, list[Run]] = field(default_factory=lambda: {PUSHED: [], ASKED: []})
    letters: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: {PUSHED: [], ASKED: []})
    """Body and delivery attempt of each dead letter."""
    given: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    """By queue and offset, the receive that each attempt went to, of those that plain clients got whole."""
    twice: list[str] = field(default_factory=list)
    """Attempts that went to two receives."""
    lost_receives: int = 0
    """The receives by plain gRPC that had no answer."""
    unsettled: dict[str, str] = field(default_factory=dict)
    """What a group had not settled when the time was over."""

    def gave(self, place: tuple[int, int], attempt: int, receive: str) -> None:
        """Note what a plain client was given. Clients know of no attempt after the last one: a message whose earlier neighbour was given up
        at its last attempt comes again as that.
        """
        receives = self.given.setdefault(place, {})
        if receives.setdefault(attempt, receive) != receive and attempt < ATTEMPTS:
            self.twice.append(f"attempt {attempt} at {place} went to receives {receives[attempt]} and {receive}")
