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
        """Recall a delayed message, so that it is never delivered. Returns the message.

        ``recall_handle`` is that of the `SendResult`, or of a message that `waiting` lists. Raises `NotRecallable` when it was delivered,
        is on its way or was recalled before. Raises `MessageNotFound` for a handle of another lake, of a topic that was deleted since, or
        of no message. Raises `InvalidArgument` for a bad handle, `ReadOnlyError`, and `UnknownOutcome`: then recall it again.
        """
        return self._portal.run(lambda: self._timers.recall(recall_handle))

    def waiting(self, topic: str, *, until: datetime | None = None, limit: int | None = None) -> list[WaitingMessage]:
        """The delayed messages of a topic that are still to be delivered, by delivery time and then as they were sent.

        ``until`` (exclusive) leaves out messages due later; ``limit`` takes only the first. All of the listed messages are in memory at
        once. The list is true for one moment; messages on their way into the topic do not wait any more. Raises `InvalidArgument` for a
        topic that is not of type DELAY, and `TopicNotFound`.
        """
        return self._portal.run(lambda: self._timers.waiting(topic, until=until, limit=limit))

    def timer_statistics(self) -> dict[str, TimerStatistics]:
        """The work of this process by topic whose delayed messages it delivers, and the number of messages that wait. Any thread may ask."""
        return self._timers.timer_statistics()
