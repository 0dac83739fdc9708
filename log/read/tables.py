"""The Delta table of an open topic, shared by all readers of this process."""

from __future__ import annotations

from ..table.delta.delta_log import DeltaLog
from ..topic.topics import Topic


def table_of(topic: Topic) -> DeltaLog:
    """The table of this life of the topic, loaded once for all readers of this process."""
    return topic.beside(_load)


def _load(topic: Topic) -> DeltaLog:
    return DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime, keep_removes=False)
