"""Locates one message: its entry of the log, and its file of the table."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ViewLost
from ..format.state import TopicState
from ..table.delta.scan import files_between
from ..tail.view import View, read_floor
from ..topic.topics import Topic
from .tables import table_of


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A message in its topic's Delta table."""

    version: int
    """The version read."""
    path: str
    """Relative to the table at that version."""


async def published_in(topic: Topic, queue: int, offset: int) -> PublishedRow | None:
    """The file of the table that has a message. None: only the log has it."""
    snapshot = await table_of(topic).refresh()
    found = files_between(snapshot, queue, offset, offset + 1)
    return PublishedRow(snapshot.version, found[0].path) if found else None


async def entry_of(topic: Topic, queue: int, offset: int) -> int | None:
    """The entry that brought a message. None where the log is damaged or trimmed. Raises `DataDamaged` when a checkpoint or entry on the way cannot
    be read.
    """

    def has_it(state: TopicState) -> bool:
        return state.incarnation == topic.record.incarnation and state.next_offset(queue) > offset

    view, before = View(topic.store, topic.paths, topic.runtime, cache=topic.tail.cache), -1
    try:
        await view.open(at_most=await read_floor(topic.store, topic.paths), suits=lambda state: not has_it(state))
        if has_it(view.state):  # the log was trimmed past it
            return None
        while not has_it(view.state):
            before = view.state.entry
            if not await view.step():
                return None
    except ViewLost:  # the log was trimmed meanwhile
        return None
    return view.state.entry if view.state.entry == before + 1 else None  # else the view was led around damage
