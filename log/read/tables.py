"""The Delta table of an open topic, as all who read the topic in this process know it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..table.delta.delta_log import DeltaLog
from ..topic.topics import Topic

_TABLES: WeakKeyDictionary[Topic, DeltaLog] = WeakKeyDictionary()


def table_of(topic: Topic) -> DeltaLog:
    """The table of this life of the topic, loaded once. A later life is another `Topic`, with a table in another folder."""
    known = _TABLES.get(topic)
    if known is None:
        known = DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime, keep_removes=False)
        _TABLES[topic] = known
    return known
