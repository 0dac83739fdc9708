"""The types of messages. Apart from the messages themselves, which need Arrow, so that a topic's settings are read without it."""

from enum import StrEnum


class MessageType(StrEnum):
    """What kind of messages a topic takes; RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
