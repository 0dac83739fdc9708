"""What is told of a run with timed messages: by senders, by who recalls and lists, and by the cells. The evidence that `judge` judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from penstock.coordinator.timers.cell.state import TimerState


class Outcome(StrEnum):
    """What an application was told."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Also: the process died before it was told."""


@dataclass(eq=False, slots=True)
class Sent:
    """A message that an application gave to a producer."""

    body: bytes
    due_us: int
    queue: int | None
    group: str | None
    properties: dict[str, str]
    asked_s: float
    outcome: Outcome = Outcome.UNKNOWN
    told_s: float = 0.0
    message_id: str = ""
    handle: str = ""


class Recalled(NamedTuple):
    """What came of calling a message back."""

    body: bytes
    asked_s: float
    told_s: float
    outcome: Outcome


class Listed(NamedTuple):
    """What somebody was told that waits: all of it, or the first so many."""

    asked_s: float
    told_s: float
    bodies: Sequence[bytes]
    limit: int | None
    until_us: int | None


class Wrote(NamedTuple):
    """A cell's new content."""

    at_s: float
    state: TimerState


@dataclass(slots=True)
class History:
    """What was seen."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    recalled: list[Recalled] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    cells: dict[str, list[Wrote]] = field(default_factory=dict)
    """By the incarnation of the timer log."""
    served: dict[str, str] = field(default_factory=dict)
    """By the incarnation of a timer log, that of its topic."""
    wrong: list[str] = field(default_factory=list)
    """What an actor saw itself that must never be."""
    counts: Counter[str] = field(default_factory=Counter)
    quiet_s: float = 0.0
    """When faults ended."""
