"""The types of messages; they need no Arrow."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class MessageType(StrEnum):
    """The kind of messages a topic takes; RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    """A topic's only, no message's: it takes messages of several types."""

    @property
    def taken(self) -> tuple[MessageType, ...]:
        """The types of the messages that a topic of this type takes. Delayed ones are not among MIXED's, as they wait in a log of their own."""
        return _MIXED if self is MessageType.MIXED else (self,)


MessageTypeLike: TypeAlias = "MessageType | Literal['NORMAL', 'FIFO', 'DELAY', 'TRANSACTION', 'MIXED']"
"""A message type as callers may give it."""

_MIXED = (MessageType.NORMAL, MessageType.FIFO, MessageType.TRANSACTION)
