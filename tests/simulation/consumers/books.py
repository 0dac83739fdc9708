"""What the judge of consumers keeps of handlers and queues."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.coordinator.queues.cell import QueueCell
from tests.simulation.consumers.records import Line, Started
from tests.simulation.consumers.standing import Standing

Tags: TypeAlias = frozenset[frozenset[str] | None]
"""Filters, each by the tags that it lets pass. None: all."""


@dataclass(slots=True)
class Handler:
    """One that runs, or ran."""

    started: Started
    generations: tuple[int, ...]


@dataclass(slots=True)
class LeftOut:
    """A message that a filter left out, and that is behind a message that failed since. The owner knows the former and not the latter."""

    epoch: int
    """The owner's."""
    filters: Tags
    """By which of them the owner may have worked all the time since the failure: with another one it reads again."""


@dataclass(slots=True)
class Queue:
    """One queue of one group, as the table has it."""

    line: Line
    places: dict[int, int] = field(default_factory=dict)
    """The hash of the message group by offset, of all that is stored."""
    lanes: dict[int, list[int]] = field(default_factory=dict)
    """Offsets by that hash, ascending."""
    cell: QueueCell | None = None
    stands: dict[int, Standing] = field(default_factory=dict)
    before_reset: dict[int, Standing] = field(default_factory=dict)
    """How the messages stood when the last generation ended, if its owner still is the owner."""
    generation_before: int = 0
    """That generation, between which and the cell's there may be orders that were never carried out here."""
    positions: dict[int, int] = field(default_factory=dict)
    """By generation."""
    starts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Of (offset, generation)."""
    granted_starts: Counter[int] = field(default_factory=Counter)
    """Of an offset since it was granted."""
    oks: set[tuple[int, int, int]] = field(default_factory=set)
    """(offset, generation, epoch) that a handler did in time."""
    overdue: set[tuple[int, int, int]] = field(default_factory=set)
    """Of these, those whose owner may have given up the handler before it succeeded."""
    strikes: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Of (offset, generation): what may count against it."""
    given_up: set[tuple[int, int]] = field(default_factory=set)
    """(offset, generation) that a handler rejected, or an operator skipped."""
    left_out: set[tuple[int, int]] = field(default_factory=set)
    """(offset, generation) that a filter left out."""
    left_out_behind: dict[tuple[int, int], LeftOut] = field(default_factory=dict)
    """Of these, those that are behind a blocked message now, by (offset, generation)."""
    letters: dict[int, int] = field(default_factory=dict)
    """The offset that each sequence was given to."""
    by_letter: set[tuple[int, int]] = field(default_factory=set)
    """(offset, generation) that was given up."""
    undone: set[tuple[int, int]] = field(default_factory=set)
    """(sequence, offset) of letters of which the cell does not know any more, as it was put back: they may stand or not."""
    put_back: bool = False


def name_of(started: Started) -> str:
    """For people."""
    first = started.tokens[0]
    return f"run {started.run} of {started.group} in {started.process} ({first.topic}/{first.queue}/{first.offset}…{len(started.tokens)})"
