"""The types of messages; they need no Arrow."""

from enum import StrEnum


class MessageType(StrEnum):
    """The kind of messages a topic takes; RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
