"""A ``receive``'s wish of a queue."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ...coordinator.queues.cell import MessageState, Receive, Tries


class ReceiveRequest(Struct, frozen=True):
    """A ``receive`` of a queue."""

    most: int
    due_ms: int
    """The time until which messages are invisible to others."""
    receive: Receive | None = None

    def out(self, attempts: int, strikes: int = 0, *, end: int = 0) -> Tries:
        """Tries of one message, or of a lane given up to ``end``."""
        receive = self.receive
        if receive is not None and end:
            receive = replace(receive, end=end)
        return Tries(MessageState.OUT, attempts, strikes, self.due_ms, receive=receive)
