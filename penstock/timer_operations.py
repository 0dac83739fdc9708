"""Delayed messages for synchronous callers; the work is done on the lake's event-loop thread."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from penstock.log import WaitingMessage
from penstock.log.portal import Portal

if TYPE_CHECKING:
    from penstock.coordinator import TimerStatistics

    from .aio import Lake


class TimerOperations:
    """The part of a lake that is about delayed messages."""

    _timers: Lake
    _portal: Portal

    def recall(self, recall_handle: str) -> WaitingMessage:
        """Call a delayed message back, so that it is never delivered; gives the message.

        ``recall_handle`` is that of the `SendResult`, or of what `waiting` lists. Raises `NotRecallable` when it was delivered, is on its way or
        was recalled before, `MessageNotFound` for a handle of another lake, of a topic that was deleted since, or of none at all,
        `InvalidArgument` for what is no handle, `ReadOnlyError`, and `UnknownOutcome`: then recall it again.
        """
        return self._portal.run(lambda: self._timers.recall(recall_handle))

    def waiting(self, topic: str, *, until: datetime | None = None, limit: int | None = None) -> list[WaitingMessage]:
        """The delayed messages of a topic that are still to be delivered, by delivery time and then as they were sent.

        ``until`` (exclusive) leaves out what is due later, ``limit`` takes the first so many: all of them are in memory at once. It is one
        moment's truth; what is on its way into the topic waits no more. Raises `InvalidArgument` for a topic that is not of type DELAY, and
        `TopicNotFound`.
        """
        return self._portal.run(lambda: self._timers.waiting(topic, until=until, limit=limit))

    def timer_statistics(self) -> dict[str, TimerStatistics]:
        """Of each topic whose delayed messages this process lets go, what it has done, and how many wait; any thread may ask."""
        return self._timers.timer_statistics()
