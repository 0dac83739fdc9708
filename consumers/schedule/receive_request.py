"""What a ``receive`` wants of a queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...coordinator.queues.cell import MessageState, Receive, Tries


@dataclass(frozen=True, slots=True)
class ReceiveRequest:
    """What one ``receive`` wants of a queue."""

    most: int
    due_ms: int
    """The time until which the messages are invisible to others."""
    receive: Receive | None = None
    """The name under which the cell is to know it."""

    def out(self, attempts: int, strikes: int = 0, *, end: int = 0) -> Tries:
        """The tries of a message that it is given, or of a lane of which it is given all messages before ``end``."""
        receive = self.receive if self.receive is None or not end else replace(self.receive, end=end)
        return Tries(MessageState.OUT, attempts, strikes, self.due_ms, receive=receive)
