"""What a queue's cell and the rows that were read of it tell operators: how much waits, and how old the oldest is. Pure, and cheap to keep."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ..coordinator.cell import QueueCell, State


@dataclass(frozen=True, slots=True)
class Standing:
    """What a cell says of its queue."""

    waiting_messages: int
    """They failed, and wait for their next attempt: single ones, and the first of each blocked message group."""
    blocked_groups: int
    """Message groups with a marker that are not parked."""
    parked_groups: int
    first_unsettled: int
    """The offset below which everything is settled."""


def standing(cell: QueueCell) -> Standing:
    markers = [marker.tries.state for marker in cell.markers.values()]
    waiting = sum(tries.state is State.WAITING for tries in cell.tries.values()) + markers.count(State.WAITING)
    parked = markers.count(State.PARKED)
    listed = [*cell.tries, *(marker.head for marker in cell.markers.values())]
    return Standing(waiting, len(markers) - parked, parked, min([cell.settled.floor, *listed]))


class Ages:
    """When the messages of a queue were stored, as far as they were read: one note for each batch of rows, so it is right to a batch."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._stored_ms: list[int] = []

    def note(self, offset: int, stored_ms: int) -> None:
        """A batch of rows begins at this offset, stored then. Batches come in order; one that is read again changes nothing."""
        if not self._offsets or offset > self._offsets[-1]:
            self._offsets.append(offset)
            self._stored_ms.append(stored_ms)

    def forget(self, below: int) -> None:
        """Nobody asks for messages below this offset any more."""
        needless = bisect_right(self._offsets, below) - 1
        if needless > 0:
            del self._offsets[:needless], self._stored_ms[:needless]

    def stored_ms(self, offset: int) -> int | None:
        """When the message was stored, or a little earlier; None where no batch was read yet.

        Of one from before the first batch it is that batch's time, which is later: a new owner learns how old they are by reading them.
        """
        if not self._offsets:
            return None
        return self._stored_ms[max(0, bisect_right(self._offsets, offset) - 1)]
