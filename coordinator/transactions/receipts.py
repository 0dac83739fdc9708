"""What a commit gives: where the messages of each topic are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicReceipt:
    """What became of a committed transaction's messages of one topic."""

    messages: int
    entry: int | None
    """The entry that made them visible; None: it is not known any more, or the topic was deleted."""
    offsets: Mapping[int, tuple[int, int]] | None
    """For every queue, the first offset and the one after the last; None: not known any more, or very many."""
    gone: bool = False
    """The topic was deleted, and the messages with it."""


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """A transaction that is committed, and visible."""

    transaction_id: str | None
    """None: nothing was sent in it."""
    topics: Mapping[str, TopicReceipt]
