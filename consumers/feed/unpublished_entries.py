"""The places in the log of unpublished rows, so that a few can be read without a walk."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...log.errors import DataDamaged, ViewLost
from ...log.format.entry import read_header
from ...log.format.fold import FoldedEntry
from ...log.format.state import TopicState
from ...log.limits import MIB
from ...log.paths import TopicPaths
from ...log.stores.protocol import ObjectMissing
from ...log.tail.arrivals import entry_bytes
from ...log.tail.entry_rows import decode_entry, staged_parts
from ...log.tail.salvage import fold_known
from ...log.tail.view import View
from ...log.topic.topics import Topic

Offsets = npt.NDArray[np.int64]

ENTRIES_MAX = 8_192
"""The entries, at some 2 KiB each, 4 KiB with batches in 16 queues. The first are forgotten."""
_TOGETHER = 16
_TOGETHER_BYTES = 16 * MIB
"""The bytes of entries decoded together; a larger one is left to the reader."""
_WALK_ENTRIES = 16
"""The entries after which others get their turn."""


@dataclass(frozen=True, slots=True)
class _Entry:
    folded: FoldedEntry
    """Reduced to ``next_offsets`` and two more fields of its state."""
    size_bytes: int

    def following(self, queue: int) -> int:
        return self.folded.state.next_offset(queue)


class UnpublishedEntries:
    """The entries behind the table, each folded once, at the first pick. The reader decides about missing rows."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._view: View | None = None
        self._entries: list[_Entry] = []
        self._walking = asyncio.Lock()

    async def pick(self, published: int, queue: int, offsets: Offsets) -> list[pa.RecordBatch]:
        """The rows found for these rising offsets; ``published`` is the table's last entry.

        At most one request for each entry outside of memory, and one for what it links. Raises `StoreUnavailable`.
        """
        await self._walk(published)
        found: list[pa.RecordBatch] = []
        for entries in _together(list(self._with_any(queue, offsets))):
            answers = await asyncio.gather(*(self._stored(entry, queue) for entry in entries), return_exceptions=True)
            stored: list[_Stored] = []
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                if answer is not None:
                    stored.append(answer)
            found += await self._topic.runtime.offload(partial(_rows_at, self._topic.paths, stored, queue, offsets))
        return found

    # --- Where they are

    async def _walk(self, published: int) -> None:
        topic, tail = self._topic, self._topic.tail
        async with self._walking:
            try:
                if self._view is None or self._view.state.entry < published:
                    self._entries.clear()
                    self._view = None
                    view = View(topic.store, topic.paths, topic.runtime, cache=tail.cache)
                    await view.open(at_most=max(published, tail.state.created_entry))
                    view.on_fold = self._folded
                    self._view = view
                del self._entries[: bisect_right(self._entries, published, key=lambda entry: entry.folded.number)]
                while self._view.state.entry < tail.state.entry:
                    known = min(self._view.state.entry + _WALK_ENTRIES, tail.state.entry)
                    await fold_known(self._view, topic.store, topic.paths, known)
                    await asyncio.sleep(0)
            except (ViewLost, DataDamaged):
                self._view = None  # entries that were folded stay valid; the reader finds what is left of the others

    def _folded(self, folded: FoldedEntry, data: bytes) -> None:
        state = folded.state
        if state.incarnation != self._topic.record.incarnation:
            return
        # Only these parts of the state are needed, and the states of thousands of entries are large.
        slim = TopicState(
            entry=state.entry, store_time_ms=state.store_time_ms, next_offsets=state.next_offsets, schema=state.schema
        )
        self._entries.append(_Entry(replace(folded, state=slim), entry_bytes(folded, data)))
        if len(self._entries) > ENTRIES_MAX:
            del self._entries[: ENTRIES_MAX // 8]

    def _with_any(self, queue: int, offsets: Offsets) -> Iterator[_Entry]:
        """The entries with rows of these offsets, perhaps one more where others were lost."""
        at = 0
        while at < len(offsets):
            offset = int(offsets[at])
            place = bisect_right(self._entries, offset, key=lambda entry: entry.following(queue))
            if place == len(self._entries):
                return
            yield self._entries[place]
            at = int(np.searchsorted(offsets, self._entries[place].following(queue)))

    # --- What they hold

    async def _stored(self, entry: _Entry, queue: int) -> _Stored | None:
        """None if the entry has changed."""
        topic, folded = self._topic, entry.folded
        where = topic.paths.entry(folded.number)
        data = topic.tail.cache.get(folded.number)
        if data is None:
            try:
                data = (await topic.store.get(where)).data
                if read_header(data, where=where) != folded.header:  # the entry was written in the place of one that was trimmed
                    return None
            except (ObjectMissing, DataDamaged):
                return None
        return _Stored(folded, data, await staged_parts(topic.store, topic.paths, folded, queues=(queue,)))


@dataclass(frozen=True, slots=True)
class _Stored:
    folded: FoldedEntry
    data: bytes
    parts: dict[str, bytes | None]


def _together(entries: Sequence[_Entry]) -> Iterator[Sequence[_Entry]]:
    some: list[_Entry] = []
    size_bytes = 0
    for entry in entries:
        if entry.size_bytes > _TOGETHER_BYTES:
            continue
        if some and (len(some) == _TOGETHER or size_bytes + entry.size_bytes > _TOGETHER_BYTES):
            yield some
            some, size_bytes = [], 0
        some.append(entry)
        size_bytes += entry.size_bytes
    if some:
        yield some


def _rows_at(paths: TopicPaths, stored: Sequence[_Stored], queue: int, offsets: Offsets) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = []
    for one in stored:
        try:
            table = decode_entry(paths, one.folded, one.data, one.parts, queues=(queue,)).table
        except DataDamaged:
            continue
        at = np.flatnonzero(np.isin(table.column("offset").to_numpy(), offsets))
        found += table.take(pa.array(at)).combine_chunks().to_batches()
    return found
