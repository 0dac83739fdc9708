"""The result of a commit: the places of the messages of each topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicReceipt:
    """The outcome of a committed transaction's messages of one topic."""

    messages: int
    entry: int | None
    """The entry that made them visible. None: it is not known any more, or the topic was deleted."""
    offsets: Mapping[int, tuple[int, int]] | None
    """The first offset and the one after the last of every queue. None: not known any more, or very many queues."""
    gone: bool = False
    """Whether the topic was deleted, and the messages with it."""


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """A transaction that is committed, and visible."""

    transaction_id: str | None
    """The transaction's id. None: nothing was sent in it."""
    topics: Mapping[str, TopicReceipt]
