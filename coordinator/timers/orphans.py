"""Spares what a timer log's maintenance must keep, and removes unused objects."""

from __future__ import annotations

from collections.abc import Mapping

from ...log.lake import LogLake
from ...log.paths import TopicPaths, topic_of
from ...log.produce.delays import QUEUE
from ...log.topic.records import read_record
from ...log.topic.settings import TopicRecord
from ..cells.keys import timer_folders
from .cell import preconditions
from .cell.cell import TimerCell, timer_cells
from .cell.state import TimerState


async def still_needed(lake: LogLake, timer_log: str, record: TopicRecord) -> Mapping[int, int]:
    """The offset of a timer log from which messages are stored nowhere else."""
    return {QUEUE: preconditions.needed_from(await _state(lake, timer_log, record))}


async def remove_orphans(lake: LogLake, timer_log: str) -> int:
    """Remove unnamed runs written 48 hours ago or more, earlier lives' too. Returns their number."""
    store, topic = lake.store, topic_of(timer_log)
    listed = await store.list(timer_folders(topic))
    if not listed:
        return 0
    now_ms = await store.clock_ms()
    found = await read_record(store, TopicPaths.of(timer_log))
    record = None if found is None or found[0].deleted else found[0]
    cell = None if record is None else TimerCell(timer_cells(lake), lake.runtime.clock, topic, record.incarnation)

    def orphans() -> list[str]:
        found = []
        for info in listed:
            life, _, name = info.key.removeprefix(timer_folders(topic)).partition("/")
            state = cell.state if cell is not None and record is not None and life == record.incarnation else TimerState()
            if preconditions.is_orphan(name.partition(".")[0], state, modified_ms=info.last_modified_ms, now_ms=now_ms):
                found.append(info.key)
        return found

    if cell is not None:
        await cell.read()
        if orphans():
            # The cell is written again unchanged: a write based on its former version, which would name one of the orphans, is
            # refused from now on.
            await cell.touch()
    removed = orphans()
    for key in removed:
        await store.delete(key)
    return len(removed)


async def _state(lake: LogLake, timer_log: str, record: TopicRecord) -> TimerState:
    return await TimerCell(timer_cells(lake), lake.runtime.clock, topic_of(timer_log), record.incarnation).read()
