"""Which messages go next: pure, over the delivery times and offsets of those that may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .state import Bounds, Due


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that were not let go, in any order; recalled ones too, so that their time passes and they are forgotten."""

    time_us: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)

    def within(self, bounds: Bounds) -> Waiting:
        """Those that new bounds let go, in the order in which they go: by delivery time, then as they were sent."""
        chosen = np.flatnonzero(_before_or_at(self, bounds.due) & (self.offset < bounds.known))
        chosen = chosen[np.lexsort((self.offset[chosen], self.time_us[chosen]))]
        return Waiting(self.time_us[chosen], self.offset[chosen])


def next_bounds(waiting: Waiting, before: Bounds, *, now_us: int, known: int, most: int) -> Bounds:
    """The bounds within which at most ``most`` of the messages are that are due at ``now_us`` and sent below ``known``.

    ``waiting`` are all of them that may be due: also those behind the bounds before. None that is due is left out for ever: the next call
    goes on with it. Nothing that is due later is within.
    """
    late = np.sort(waiting.offset[_before_or_at(waiting, before.due) & (waiting.offset < known)])
    if len(late) > most:
        return Bounds(int(late[most]), before.due)
    return Bounds(known, _next_due(waiting, before.due, now_us=now_us, known=known, most=most - len(late)))


def _next_due(waiting: Waiting, before: Due, *, now_us: int, known: int, most: int) -> Due:
    """Of the last message that goes, so that a clock that was ahead once makes nothing early that is sent afterwards."""
    fresh = ~_before_or_at(waiting, before) & (waiting.time_us <= now_us) & (waiting.offset < known)
    due = Waiting(waiting.time_us[fresh], waiting.offset[fresh])
    if len(due) == 0 or most == 0:
        return before
    last = np.lexsort((due.offset, due.time_us))[min(most, len(due)) - 1]
    return Due(int(due.time_us[last]), int(due.offset[last]))


def _before_or_at(waiting: Waiting, due: Due) -> npt.NDArray[np.bool_]:
    return (waiting.time_us < due.time_us) | ((waiting.time_us == due.time_us) & (waiting.offset <= due.offset))
