"""Selects the messages that go next, by delivery times and offsets. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .state import DeliveredBounds, DuePosition

FOREVER = DuePosition(2**63 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class WaitingIndex:
    """Undelivered messages, in any order, recalled ones included."""

    time_us: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def is_by_due(self) -> bool:
        """Whether the messages are in delivery order."""
        later, sent_later = np.diff(self.time_us), np.diff(self.offset)
        return bool(np.all((later > 0) | ((later == 0) & (sent_later >= 0))))

    def only(self, chosen: npt.NDArray[np.bool_]) -> WaitingIndex:
        return WaitingIndex(self.time_us[chosen], self.offset[chosen])

    def within(self, bounds: DeliveredBounds) -> WaitingIndex:
        chosen = np.flatnonzero(within(self, bounds))
        chosen = chosen[np.lexsort((self.offset[chosen], self.time_us[chosen]))]
        return WaitingIndex(self.time_us[chosen], self.offset[chosen])


def next_bounds(
    waiting: WaitingIndex, before: DeliveredBounds, *, now_us: int, known: int, most: int, horizon: DuePosition = FOREVER
) -> DeliveredBounds:
    """The bounds with at most ``most`` more messages, due at ``now_us`` and sent below ``known``.

    ``waiting`` has all undelivered messages due before ``horizon``; no later message is within. No due message is left out for ever.
    """
    late = np.sort(waiting.offset[_before_or_at(waiting, before.due) & (waiting.offset < known)])
    if len(late) > most:
        return DeliveredBounds(int(late[most]), before.due)
    seen = waiting.only(_before_or_at(waiting, DuePosition(horizon.time_us, horizon.offset - 1)))
    return DeliveredBounds(known, _next_due(seen, before.due, now_us=now_us, known=known, most=most - len(late)))


def within(waiting: WaitingIndex, bounds: DeliveredBounds) -> npt.NDArray[np.bool_]:
    return _before_or_at(waiting, bounds.due) & (waiting.offset < bounds.known)


def without(waiting: WaitingIndex, some: Collection[DuePosition]) -> WaitingIndex:
    if not some:
        return waiting
    places = zip(waiting.time_us.tolist(), waiting.offset.tolist(), strict=True)
    return waiting.only(np.fromiter((place not in some for place in places), np.bool_, len(waiting)))


def _next_due(waiting: WaitingIndex, before: DuePosition, *, now_us: int, known: int, most: int) -> DuePosition:
    """The due time of the last message that goes; a clock once ahead makes no later message early."""
    fresh = ~_before_or_at(waiting, before) & (waiting.time_us <= now_us) & (waiting.offset < known)
    due = waiting.only(fresh)
    if len(due) == 0 or most == 0:
        return before
    last = np.lexsort((due.offset, due.time_us))[min(most, len(due)) - 1]
    return DuePosition(int(due.time_us[last]), int(due.offset[last]))


def _before_or_at(waiting: WaitingIndex, due: DuePosition) -> npt.NDArray[np.bool_]:
    return (waiting.time_us < due.time_us) | ((waiting.time_us == due.time_us) & (waiting.offset <= due.offset))
