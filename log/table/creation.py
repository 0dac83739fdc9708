"""Makes a topic's Delta table without rows."""

from __future__ import annotations

from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectStore
from ..tail.view import EntryCache, View
from ..topic.settings import TopicRecord
from .delta.actions import PUBLISHED
from .delta.delta_log import DeltaLog
from .delta.snapshot import Snapshot
from .delta.table_schema import table_form


async def open_table(
    store: ObjectStore,
    paths: TopicPaths,
    record: TopicRecord,
    runtime: Runtime,
    delta: DeltaLog,
    *,
    cache: EntryCache | None = None,
) -> Snapshot | None:
    """The table of one life of a topic, made if there is none. None when the log holds another life."""
    snapshot = await delta.refresh()
    if snapshot.exists:
        return snapshot
    view = View(store, paths, runtime, cache=cache)
    await view.open()
    await view.catch_up()
    if view.state.incarnation != record.incarnation:
        return None
    return await delta.create({PUBLISHED: view.state.created_entry - 1}, table_form(view.state.schema))
