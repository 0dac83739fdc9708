"""Locates one message: the entry of the log that brought it, and the file of the table that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ViewLost
from ..format.checkpoint import decode_checkpoint
from ..format.state import State
from ..stores.protocol import ObjectMissing
from ..table.delta.delta_log import DeltaLog
from ..table.delta.scan import files_between
from ..tail.view import View, read_floor
from ..topic.topics import Topic


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A message in its topic's Delta table."""

    version: int
    """The version of the table as it was read."""
    path: str
    """The path of the file that has the message at that version, relative to the table. Compaction moves rows to other files."""


async def published_in(topic: Topic, queue: int, offset: int) -> PublishedRow | None:
    """The file of the table that has a message. None while the message is in the log alone."""
    delta = DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime, keep_removes=False)
    snapshot = await delta.refresh()
    found = files_between(snapshot, queue, offset, offset + 1)
    return PublishedRow(snapshot.version, found[0].path) if found else None


async def entry_of(topic: Topic, queue: int, offset: int) -> int | None:
    """The entry that brought a message. None when the log is damaged there, or was trimmed past it, which happens an hour or more after
    publication.

    Reads few checkpoints, then the entries from one to the next at most. Raises `DataDamaged` when one of those cannot be read.
    """

    def has_it(state: State) -> bool:
        return state.incarnation == topic.record.incarnation and state.next_offsets[queue] > offset

    start = await _last_checkpoint_before(topic, has_it)
    if start is None:
        return None
    view = View(topic.store, topic.paths, topic.runtime, cache=topic.tail.cache)
    before = start
    try:
        await view.open(at_most=start)
        while not has_it(view.state):
            before = view.state.entry
            if not await view.step():
                return None
    except ViewLost:  # the log was trimmed meanwhile
        return None
    return view.state.entry if view.state.entry == before + 1 else None  # else the view was led around damage


async def _last_checkpoint_before(topic: Topic, has_it: Callable[[State], bool]) -> int | None:
    """The number of the newest checkpoint whose state does not have it yet, 0 for the log's beginning. None: all have it."""
    paths = topic.paths
    floor = await read_floor(topic.store, paths)
    listed = await topic.store.list(paths.checkpoints, after=paths.checkpoint(floor - 1) if floor else None)
    numbers = sorted(number for info in listed if (number := paths.checkpoint_entry(info.key)) is not None)
    first, last = 0, len(numbers)
    while first < last:
        middle = (first + last) // 2
        key = paths.checkpoint(numbers[middle])
        try:
            state = decode_checkpoint((await topic.store.get(key)).data, where=key)
        except ObjectMissing:  # the checkpoint was trimmed meanwhile, so it is older than what is kept
            first = middle + 1
            continue
        if has_it(state):
            last = middle
        else:
            first = middle + 1
    if first == 0:
        return None if floor else 0
    return numbers[first - 1]
