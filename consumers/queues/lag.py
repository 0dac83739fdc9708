"""Operators' figures from a queue's cell and rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass

from ...coordinator.queues.cell import MessageState, QueueCell


@dataclass(frozen=True, slots=True)
class QueueLag:
    """The figures of a cell."""

    waiting_messages: int
    """Single messages that wait, and the first of each blocked message group."""
    blocked_groups: int
    """Message groups with a marker that are not parked."""
    parked_groups: int
    first_unsettled: int


def queue_lag(cell: QueueCell, elsewhere: Container[int] = ()) -> QueueLag:
    """Message groups that are blocked ``elsewhere``, in a former queue, are not blocked here."""
    markers = [marker.tries.state for group, marker in cell.markers.items() if group not in elsewhere]
    waiting = (
        sum(tries.state is MessageState.WAITING for tries in cell.tries.values())
        + markers.count(MessageState.WAITING)
        + cell.count_spilled
    )
    parked = markers.count(MessageState.PARKED)
    first = cell.settled.floor if cell.first_listed is None else min(cell.settled.floor, cell.first_listed)
    return QueueLag(waiting, len(markers) - parked, parked, first)


class MessageAges:
    """The times when a queue's messages were stored or came, to the batch. One thread takes notes; any may ask."""

    def __init__(self) -> None:
        self._notes: list[tuple[int, int]] = []
        """Offset and time, rising, for other threads: appended to, or replaced as a whole."""

    def note(self, offset: int, time_ms: int) -> None:
        """Note that a batch begins at this offset, in order."""
        if not self._notes or offset > self._notes[-1][0]:
            self._notes.append((offset, time_ms))

    def forget(self, below: int) -> None:
        needless = _place(self._notes, below)
        if needless > 0:
            self._notes = self._notes[needless:]

    def time_ms(self, offset: int) -> int | None:
        """The time of the message at the offset, or a little earlier; None where no batch was read yet.

        A message before the first batch has that batch's time, which is later.
        """
        return next(iter(self.times_ms((offset,))), None)

    def times_ms(self, offsets: Iterable[int]) -> list[int]:
        """The same for many; empty where no batch was read yet."""
        notes = self._notes
        starts = [start for start, _ in notes]
        return [notes[max(0, bisect_right(starts, offset) - 1)][1] for offset in offsets] if notes else []


def _place(notes: list[tuple[int, int]], offset: int) -> int:
    """The last note at or before the offset; -1: none."""
    return bisect_right(notes, offset, key=lambda note: note[0]) - 1
