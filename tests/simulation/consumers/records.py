"""What is told of a run with consumers: by its handlers, by the table, by its operators. The evidence that `judge` judges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from penstock.coordinator.groups.record import DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.log.format.growth import Growth

Place: TypeAlias = tuple[str, int, int]
"""Topic, queue, offset."""
Line: TypeAlias = tuple[str, str, int]
"""Group, topic, queue: what has one cell."""


class Token(NamedTuple):
    """A message as a handler was given it."""

    topic: str
    queue: int
    offset: int
    epoch: int
    attempt: int
    message_id: str


class Started(NamedTuple):
    """A handler started; of a batch with all its messages."""

    at_s: float
    process: str
    group: str
    run: int
    tokens: tuple[Token, ...]


class Answer(StrEnum):
    """What a handler said of the first message that did not succeed."""

    OK = "ok"
    """There is none."""
    FAILED = "failed"
    UNNAMED = "unnamed"
    """A batch failed, and nobody said where."""
    REJECTED = "rejected"
    CUT = "cut"
    """It was cancelled, as it ran too long."""


class Ended(NamedTuple):
    """A handler ended."""

    at_s: float
    run: int
    succeeded: int
    answer: Answer


class Died(NamedTuple):
    """A process ended, and all that ran in it."""

    at_s: float
    process: str


class Stood(NamedTuple):
    """A process begins to stand still."""

    at_s: float
    process: str
    until_s: float


class Wrote(NamedTuple):
    """A queue's cell, as the table carried the write out."""

    at_s: float
    line: Line
    cell: QueueCell


class Positioned(NamedTuple):
    """A queue's place in a group's record."""

    at_s: float
    line: Line
    generation: int
    offset: int


class Skipped(NamedTuple):
    """An operator ordered to skip these, or (``release``) to try them again."""

    at_s: float
    line: Line
    generation: int
    offsets: tuple[int, ...]
    release: bool


class Altered(NamedTuple):
    """A group has these settings from now on."""

    at_s: float
    group: str
    settings: GroupSettings


class BackedUp(NamedTuple):
    """The table as it is now is kept."""

    at_s: float


class PutBack(NamedTuple):
    """The table is as it was when it was kept last. Nobody runs."""

    at_s: float


Record: TypeAlias = Started | Ended | Died | Stood | Wrote | Positioned | Skipped | Altered | BackedUp | PutBack


class Send(NamedTuple):
    """A message that a producer was told of."""

    body: bytes
    place: Place | None
    """Where it stands; None when nobody knows whether it does."""


class Stored(NamedTuple):
    """A message as it stands in its topic in the end."""

    body: bytes
    message_id: str
    message_group: str | None
    tag: str | None = None


class Letter(NamedTuple):
    """A dead letter as it stands in the dead-letter queue in the end."""

    origin: Place
    sequence: int
    body: bytes
    message_id: str
    reason: str = ""


@dataclass(slots=True)
class History:
    """What was seen of one run."""

    settings: Mapping[str, GroupSettings] = field(default_factory=dict)
    """By group, as they are at first."""
    timeout_s: float = 900.0
    """How long a handler may run."""
    records: list[Record] = field(default_factory=list)
    """In the order they happened."""
    sends: list[Send] = field(default_factory=list)
    stored: dict[Place, Stored] = field(default_factory=dict)
    growths: tuple[Growth, ...] = ()
    """Of the topic."""
    secrets: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By group: those its record has had."""
    letters: dict[str, list[Letter]] = field(default_factory=dict)
    """By group, in the order they stand."""
    wrong: list[str] = field(default_factory=list)
    """What somebody saw at once that must never be."""
    counts: Counter[str] = field(default_factory=Counter)

    def is_orderly(self, group: str) -> bool:
        return self.settings[group].delivery_order is DeliveryOrder.ORDERLY
