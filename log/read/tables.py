"""The Delta table of an open topic, as all who read the topic in this process know it."""

from __future__ import annotations

from ..table.delta.delta_log import DeltaLog
from ..topic.topics import Topic


def table_of(topic: Topic) -> DeltaLog:
    """The table of this life of the topic, loaded once. A later life is another `Topic`, with a table in another folder."""
    return topic.beside(_load)


def _load(topic: Topic) -> DeltaLog:
    return DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime, keep_removes=False)
