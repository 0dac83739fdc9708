"""A topic's steps to more queues.

A growth multiplies the number of queues, so every message group has exactly one former queue: the new one modulo the former number. The marks say
where each former queue stood. Messages of the group's new queue follow those of the former one below its mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Growth:
    """One step to more queues, in a topic's state."""

    entry: int
    generation: int
    """The routing generation that began with it."""
    marks: tuple[int, ...]
    """The offset behind the last message of the former routing, for every former queue."""


def former_queue(growths: Sequence[Growth], queue: int) -> tuple[int, int] | None:
    """The queue that message groups of ``queue`` had before, and its mark. None for a queue that the topic had from the beginning."""
    for growth in reversed(growths):
        if queue >= len(growth.marks):
            former = queue % len(growth.marks)
            return former, growth.marks[former]
    return None


def former_queues(growths: Sequence[Growth], queue: int) -> Iterator[tuple[int, int]]:
    """The former queue and mark, the one before that, and so on to a queue of the beginning."""
    while (found := former_queue(growths, queue)) is not None:
        yield found
        queue = found[0]


def queues_at(growths: Sequence[Growth], generation: int, now: int) -> int:
    """The number of queues at a routing generation since which the topic has only grown to ``now``."""
    return next((len(growth.marks) for growth in growths if growth.generation > generation), now)


def may_grow(queues: int, present: int, most: int) -> bool:
    """Whether a topic of ``present`` queues can have this many: a greater multiple, of which each message group has one former queue."""
    return present < queues <= most and queues % present == 0


def has_only_grown(growths: Sequence[Growth], before: int, now: int) -> bool:
    """Whether nothing but growths lies between two routing generations of a topic."""
    return before < now and sum(before < growth.generation <= now for growth in growths) == now - before


def is_sequence(growths: Sequence[Growth], queues: int) -> bool:
    """Whether these growths can be those of a topic of ``queues``."""
    counts = [*(len(growth.marks) for growth in growths), queues]
    return all(before and may_grow(after, before, after) for before, after in pairwise(counts))
