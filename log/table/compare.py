"""Rows of a range compared between log and table, before the log's are deleted: number, and a hash over all columns in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataDamaged, ViewLost
from ..fold import Folded
from ..limits import CHECKPOINT_ENTRIES, MIB
from ..paths import TopicPaths
from ..rows import entry_rows
from ..runtime import Runtime
from ..salvage import fold_known, salvage
from ..state import State
from ..stores.protocol import ObjectStore
from ..view import View
from .rowhash import row_digest
from .scan import scan_queue
from .segments import queue_slices
from .snapshot import Snapshot

_ROUND_BYTES = 32 * MIB
_STATES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Difference:
    """A queue's range on which log and table do not agree."""

    queue: int
    first_offset: int
    limit_offset: int
    log_rows: int
    table_rows: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out of comparing some entries."""

    rows: int
    """That were compared."""
    differences: tuple[Difference, ...]


class Comparer:
    """Walks the log from the floor to what is published. What it knows lives in memory only: a new one starts at the floor again."""

    def __init__(self, store: ObjectStore, paths: TopicPaths, runtime: Runtime, *, incarnation: str | None = None) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._incarnation = incarnation
        self._view: View | None = None
        self._before = State()
        self._arrived: list[tuple[Folded, bytes] | State] = []
        self._arrived_bytes = 0
        self.compared = -1
        """Every published row of entries up to this one is equal in log and table; -1: nothing is known yet."""
        self.checkpoint_states: dict[int, State] = {}
        """The states this fold had at the numbers that checkpoints have, the newest ones."""

    @property
    def whole(self) -> bool:
        """Whether the fold has passed no entry over."""
        return self._view is not None and not self._view.skipped

    async def compare_once(self, snapshot: Snapshot, floor: int) -> bool:
        """Compare the next entries, up to 32 MiB of them; false when all that is published is compared.

        Raises `DataDamaged` when log and table differ: then nothing behind may be trimmed.
        """
        if self._view is None or self.compared < floor:
            await self._open(floor)
        view = self._view
        assert view is not None
        try:
            while view.state.entry < snapshot.published and self._arrived_bytes < _ROUND_BYTES:
                await fold_known(view, self._store, self._paths, view.state.entry + 1)
        except ViewLost:
            self._view = None
            raise
        after, entries = await self._entries()
        if after.entry > snapshot.published:  # led around damage, past what is published: wait for the publisher
            self._view = None
            return False
        mine = [(folded, data) for folded, data in entries if self._incarnation in {None, folded.state.incarnation}]
        comparison = await compare_entries(self._store, self._paths, self._runtime, snapshot, mine)
        if comparison.differences:
            self._view = None
            raise DataDamaged(
                "log and table differ, so the log is not trimmed",
                object=self._paths.table(snapshot.folder),
                expected="equal rows",
                observed=comparison.differences[0],
                hint="`penstock verify` shows all differences",
            )
        self._start(view)
        return self.compared < snapshot.published

    async def _open(self, floor: int) -> None:
        view = View(self._store, self._paths, self._runtime)
        await view.open(at_most=floor)
        self.checkpoint_states = {}
        self._start(view)
        self._view = view

    def _start(self, view: View) -> None:
        """Begin a range behind the view's state, up to which all is compared."""
        self.compared, self._before = view.state.entry, view.state
        self._arrived, self._arrived_bytes = [], 0
        view.on_fold = self._take
        view.on_jump = self._arrived.append

    def _take(self, folded: Folded, data: bytes) -> None:
        self._arrived.append((folded, data))
        self._arrived_bytes += len(data) + sum(part.size_bytes for batch in folded.header.batches for part in batch.parts)
        if folded.number % CHECKPOINT_ENTRIES == 0:
            self._remember(folded.state)

    def _remember(self, state: State) -> None:
        self.checkpoint_states[state.entry] = state
        if len(self.checkpoint_states) > _STATES_KEPT:
            del self.checkpoint_states[min(self.checkpoint_states)]

    async def _entries(self) -> tuple[State, list[tuple[Folded, bytes]]]:
        entries: list[tuple[Folded, bytes]] = []
        state = self._before
        for item in tuple(self._arrived):
            if isinstance(item, State):
                entries += await salvage(self._store, self._paths, state, item)
                state = item
                self._remember(item)
            else:
                entries.append(item)
                state = item[0].state
        return state, entries


async def compare_entries(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot, entries: Sequence[tuple[Folded, bytes]]
) -> Comparison:
    """Whether the rows that these entries brought are in the table as they are in the log.

    Excepted is what retention took, what the table names as lost, and what cannot be read in the log any more.
    """
    pieces: dict[int, list[pa.Table]] = {}
    for folded, data in entries:
        for queue, rows in queue_slices((await entry_rows(store, paths, folded, data)).table):
            pieces.setdefault(queue, []).append(rows)
    compared = 0
    differences: list[Difference] = []
    for queue, tables in sorted(pieces.items()):
        rows, difference = await _compare_queue(store, paths, runtime, snapshot, queue, pa.concat_tables(tables))
        compared += rows
        differences += [difference] if difference is not None else []
    return Comparison(compared, tuple(differences))


async def _compare_queue(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot, queue: int, rows: pa.Table
) -> tuple[int, Difference | None]:
    offsets = rows.column("offset").to_numpy()
    expected = ~_within(offsets, [(0, snapshot.start(queue)), *snapshot.lost(queue)])
    rows, offsets = rows.filter(pa.array(expected)), offsets[expected]
    if not len(offsets):
        return 0, None
    first, limit = int(offsets[0]), int(offsets[-1]) + 1
    stored = []
    async for batch in scan_queue(store, paths, snapshot, queue, first, limit, runtime=runtime):
        known = np.isin(batch.column("offset").to_numpy(), offsets, assume_unique=True)
        stored.append(batch if known.all() else batch.filter(pa.array(known)))
    ours, theirs = await runtime.offload(lambda: (row_digest([rows]), row_digest(stored)))
    return len(offsets), None if ours == theirs else Difference(queue, first, limit, ours[0], theirs[0])


def _within(offsets: np.ndarray[Any, Any], ranges: Iterable[tuple[int, int]]) -> np.ndarray[Any, Any]:
    inside = np.zeros(len(offsets), dtype=bool)
    for first, limit in ranges:
        inside |= (offsets >= first) & (offsets < limit)
    return inside
