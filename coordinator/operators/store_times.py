"""Estimates store times of a queue's messages from looks at its end and from single messages. Pure.

Messages below the end at a look were stored by then, all others later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

PART_MAX = 0.1
"""The error allowed in an estimate, as a part of the message's age."""
_MARKS_MAX = 256
"""The number of marks above which unneeded ones are dropped."""


@dataclass(frozen=True, slots=True)
class StoreTimeMark:
    """Bounds of the store times around a place in a queue."""

    offset: int
    before_ms: int
    """The time by which all messages below were stored."""
    since_ms: int
    """The time before which no message from here on was stored."""


@dataclass(frozen=True, slots=True)
class StoreTimes:
    """The marks of one queue, by offset."""

    precise_ms: int
    """The error that is always allowed."""
    marks: tuple[StoreTimeMark, ...] = ()

    def with_mark(self, mark: StoreTimeMark) -> StoreTimes:
        place = bisect_left(self.marks, mark.offset, key=_offset)
        after = place
        if place < len(self.marks) and (known := self.marks[place]).offset == mark.offset:
            mark = StoreTimeMark(mark.offset, min(known.before_ms, mark.before_ms), max(known.since_ms, mark.since_ms))
            after += 1
        return StoreTimes(self.precise_ms, (*self.marks[:place], mark, *self.marks[after:]))

    def with_message(self, offset: int, stored_ms: int) -> StoreTimes:
        return self.with_mark(StoreTimeMark(offset, stored_ms, stored_ms)).with_mark(
            StoreTimeMark(offset + 1, stored_ms, stored_ms)
        )

    def stored_ms(self, offset: int, now_ms: int) -> int | None:
        """The store time of a message, interpolated; None where too uncertain."""
        place = bisect_right(self.marks, offset, key=_offset)
        if not 0 < place < len(self.marks):
            return None
        lower, upper = self.marks[place - 1], self.marks[place]
        first_ms, last_ms = lower.since_ms, max(lower.since_ms, upper.before_ms)
        if last_ms - first_ms > self._blur_ms(last_ms, now_ms):
            return None
        return first_ms + (last_ms - first_ms) * (offset - lower.offset + 1) // (upper.offset - lower.offset)

    def thinned(self, earliest: int, now_ms: int) -> StoreTimes:
        """The marks from ``earliest`` on; if many, only those that the precision needs."""
        first = max(0, bisect_right(self.marks, earliest, key=_offset) - 1)
        marks = self.marks[first:]
        return StoreTimes(self.precise_ms, self._needed(marks, now_ms) if len(marks) > _MARKS_MAX else marks)

    def _needed(self, marks: Sequence[StoreTimeMark], now_ms: int) -> tuple[StoreTimeMark, ...]:
        kept = [marks[-1]]
        for place in range(len(marks) - 2, 0, -1):
            upper, lower = kept[-1], marks[place - 1]
            if upper.before_ms - lower.since_ms > self._blur_ms(upper.before_ms, now_ms):
                kept.append(marks[place])
        return (*marks[:1], *reversed(kept))

    def _blur_ms(self, stored_ms: int, now_ms: int) -> float:
        return max(self.precise_ms, PART_MAX * (now_ms - stored_ms))


def _offset(mark: StoreTimeMark) -> int:
    return mark.offset
