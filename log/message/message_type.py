"""The types of messages, apart from messages, so that a topic's settings are read without Arrow."""

from enum import StrEnum


class MessageType(StrEnum):
    """The kind of messages a topic takes; RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
