"""Copies folded entries into the topic's Delta table, each exactly once.

The `txn` of a commit is the last entry whose rows it brings. A publisher folds the log from the entry that the snapshot names, and commits fresh
files only on a snapshot that still names it. Of two publishers one works in vain.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..errors import DataDamaged, ViewLost
from ..format.fold import FoldedEntry
from ..format.state import TopicState
from ..limits import MIB
from ..message.columns import rare_columns
from ..message.message import RARE
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..schema.topic_schema import TopicSchema
from ..stores.protocol import ObjectStore
from ..tail.arrivals import Arrivals, Jump
from ..tail.entry_rows import entry_pieces, runs_of
from ..tail.salvage import fold_known
from ..tail.view import EntryCache, View
from ..topic.settings import TopicRecord
from .comparison.copies import CopiedFile, Copies
from .comparison.ranges import Offsets
from .comparison.row_hash import RowHash
from .creation import open_table
from .delta.actions import PUBLISHED, CommitContent, end_txn, lost_txn
from .delta.delta_log import DeltaLog
from .delta.segments import SegmentWriter, TableFile, queue_slices
from .delta.snapshot import Snapshot
from .delta.table_metadata import Action
from .delta.table_schema import is_of_schema, table_form, table_update

COMMIT_BYTES = 64 * MIB
"""The size of the entries of one commit."""
FILE_BYTES_MAX = 64 * MIB
QUIET_ENTRIES = 64
"""The rowless entries that gather before an idle topic's table changes."""
_UPLOADS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of one round."""

    entries: int = 0
    """0: nothing to do, or another publisher won."""
    rows: int = 0
    files: int = 0
    bytes: int = 0
    lag_ms: int = 0
    """The age of the oldest row at the commit."""
    caught_up: bool = True


@dataclass(frozen=True, slots=True)
class _Work:
    """The entries after ``start`` up to ``after``, for one commit."""

    start: int
    bases: tuple[int, ...]
    """The end of every queue in the table."""
    after: TopicState
    entries: tuple[tuple[FoldedEntry, bytes], ...]


@dataclass(frozen=True, slots=True)
class _Uploaded:
    work: _Work
    arrivals: Arrivals
    on: Snapshot
    copied: tuple[CopiedFile, ...]
    lost: Mapping[str, int]
    """The `txn` values of offsets that no file has."""
    started_s: float
    """The beginning of the work by the monotonic clock."""
    caught_up: bool

    @property
    def files(self) -> tuple[TableFile, ...]:
        return tuple(one.file for one in self.copied)


class Publisher:
    """Publishes one life of a topic: that of ``record``."""

    def __init__(
        self,
        store: ObjectStore,
        paths: TopicPaths,
        record: TopicRecord,
        runtime: Runtime,
        *,
        delta: DeltaLog | None = None,
        cache: EntryCache | None = None,
        copies: Copies | None = None,
        commit_bytes: int = COMMIT_BYTES,
    ) -> None:
        self._store = store
        self._paths = paths
        self._record = record
        self._runtime = runtime
        self._delta = delta or DeltaLog(store, paths, record.table, runtime, keep_removes=False)
        self._cache = cache
        self._copies = copies
        self._commit_bytes = commit_bytes
        self._view: View | None = None
        self._arrivals: Arrivals | None = None
        self._uploaded: _Uploaded | None = None
        """The last round's upload, kept as its commit may be refused for hours."""

    @property
    def schema(self) -> TopicSchema | None:
        """The topic's schema as of the last entry read, if known."""
        return None if self._view is None else self._view.state.schema

    async def publish_once(self) -> PublishResult:
        """Commit once what the log has beyond the table. Raises the store's errors; may be repeated at once."""
        uploaded = await self._again() or await self._prepare()
        if isinstance(uploaded, PublishResult):
            return uploaded
        if not uploaded.lost:  # lost rows may be put back before the next try
            self._uploaded = uploaded
        committed = await self._commit(uploaded)
        self._uploaded = None
        if not committed:
            return PublishResult(caught_up=False)
        work, arrivals, files = uploaded.work, uploaded.arrivals, uploaded.files
        if self._copies is not None and arrivals.whole:
            self._copies.note(arrivals.before, arrivals.states(), uploaded.copied)
        arrivals.begin(work.after)
        with_rows = (folded.store_time_ms for folded, _ in work.entries if runs_of(folded))
        oldest_ms = min(with_rows, default=work.after.store_time_ms)
        return PublishResult(
            entries=work.after.entry - work.start,
            rows=sum(file.rows for file in files),
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
            lag_ms=max(0, self._runtime.clock.wall_ms() - oldest_ms),
            caught_up=uploaded.caught_up,
        )

    async def _again(self) -> _Uploaded | None:
        """The earlier round's upload, if it may still be committed."""
        uploaded = self._uploaded
        if uploaded is None or not self._delta.is_in_time(uploaded.started_s):
            self._uploaded = None
            return None
        return replace(uploaded, on=await self._delta.refresh(), caught_up=False)

    async def _prepare(self) -> _Uploaded | PublishResult:
        """Fold the next entries and upload their rows; a result when there is nothing to commit."""
        started_s = self._runtime.clock.monotonic_s()
        snapshot = await self._table() if self._view is None else self._delta.snapshot
        if snapshot is None:
            return PublishResult()
        try:
            caught_up = await self._read_on(snapshot)
        except ViewLost:
            self._view = None  # another publisher went on, and the log was trimmed behind it
            return PublishResult()
        arrivals = self._arrivals
        if arrivals is None or not len(arrivals):
            return PublishResult()
        snapshot = await self._delta.refresh()
        if not self.may_commit(snapshot, arrivals.before.entry):
            self._view = None
            return PublishResult(caught_up=False)
        ends = tuple(snapshot.end(queue) for queue in range(arrivals.after.queues))
        work = _Work(snapshot.published, ends, arrivals.after, tuple(await arrivals.entries()))
        copied, lost = await self._upload(work)
        is_quiet = caught_up and not copied and not lost and not _update(snapshot, work.after, ())
        if is_quiet and work.after.entry - work.start < QUIET_ENTRIES and self._lives(work.after):
            return PublishResult()
        return _Uploaded(work, arrivals, snapshot, tuple(copied), lost, started_s, caught_up)

    def may_commit(self, snapshot: Snapshot, start: int) -> bool:
        """Whether the table still ends where this work begins."""
        return snapshot.published == start

    # --- the table's end, and the log behind it

    async def _table(self) -> Snapshot | None:
        return await open_table(self._store, self._paths, self._record, self._runtime, self._delta, cache=self._cache)

    async def _read_on(self, snapshot: Snapshot) -> bool:
        """Fold until a commit is full. Returns whether nothing follows."""
        if self._view is None or self._arrivals is None or self._arrivals.before.entry != snapshot.published:
            self._view, self._arrivals = await self._open_view(snapshot)
        view, arrivals = self._view, self._arrivals
        while arrivals.size_bytes < self._commit_bytes:
            before = view.state
            if not await view.step():
                return True
            if self._lives(before) and not self._lives(view.state):
                return True  # the topic was deleted
            if not self._lives(view.state):
                self._view = self._arrivals = None  # entries of a later topic of this name
                return True
        return False

    async def _open_view(self, snapshot: Snapshot) -> tuple[View, Arrivals]:
        view = View(self._store, self._paths, self._runtime, cache=self._cache)
        await view.open(at_most=snapshot.published)
        known = deque([view.state], maxlen=2)
        view.on_fold, view.on_jump = lambda folded, _: known.append(folded.state), known.append
        await fold_known(view, self._store, self._paths, snapshot.published)
        arrivals = Arrivals(self._store, self._paths, view)
        if view.state.entry > snapshot.published:  # led around damage, past that entry: the state before the jump tells the rest
            arrivals.begin(replace(view.state, entry=snapshot.published), within=Jump(*known))
        return view, arrivals

    def _lives(self, state: TopicState) -> bool:
        return state.alive and state.incarnation == self._record.incarnation

    # --- rows to files

    async def _upload(self, work: _Work) -> tuple[list[CopiedFile], dict[str, int]]:
        """The files, and lost offsets as `txn` values."""
        expected: Counter[int] = Counter()
        for run in (run for folded, _ in work.entries for run in runs_of(folded)):
            expected[run.queue] += run.count
        schema = work.after.schema
        writers = _Writers(expected, None if schema is None else schema.stored_arrow, self._record.settings.bloom_columns)
        files: list[CopiedFile] = []
        for folded, data in work.entries:
            async for piece in entry_pieces(self._store, self._paths, self._runtime, folded, data):
                full = await self._runtime.offload(lambda rows=piece.table: writers.take(rows))  # type: ignore[misc]
                files += await self._finish(full)
        files += await self._finish(list(writers.open.values()))
        lost = {
            lost_txn(queue, first): limit
            for queue, end in enumerate(work.after.next_offsets)
            for first, limit in gaps(work.bases[queue], end, writers.offsets(queue))
        }
        return sorted(files, key=lambda one: (one.file.queue, one.file.first_offset)), lost

    async def _finish(self, writers: list[_Writer]) -> list[CopiedFile]:
        gate = asyncio.Semaphore(_UPLOADS_AT_ONCE)

        async def finish(writer: _Writer) -> CopiedFile:
            async with gate:
                fresh_id = self._runtime.new_id()
                file, data = await self._runtime.offload(lambda: writer.segment.close(fresh_id))
                await self._store.put_large(self._delta.root + file.path, data)
                return CopiedFile(file, writer.rows.hexdigest())

        return list(await asyncio.gather(*map(finish, writers)))

    async def _commit(self, uploaded: _Uploaded) -> bool:
        work = uploaded.work
        ends = {end_txn(q): end for q, end in enumerate(work.after.next_offsets) if end != work.bases[q]}
        commit = CommitContent("WRITE", adds=uploaded.files, txns={PUBLISHED: work.after.entry, **ends, **uploaded.lost})
        snapshot = uploaded.on
        while self.may_commit(snapshot, work.start):
            before = _update(snapshot, work.after, uploaded.files)
            if await self._delta.commit(commit, on=snapshot, started_s=uploaded.started_s, before=before):
                return True
            snapshot = await self._delta.refresh()
        self._view = None
        return False


def _update(snapshot: Snapshot, state: TopicState, files: Sequence[TableFile]) -> tuple[Action, ...]:
    """The actions that the table lacks for this state's schema."""
    if snapshot.metadata is None or snapshot.protocol is None:
        return ()
    version = 0 if state.schema is None else state.schema.version
    is_of_version = is_of_schema(snapshot.metadata, version)
    if is_of_version and not any(name in file.more_columns for file in files for name in RARE):
        return ()
    return table_update(snapshot.metadata, snapshot.protocol, table_form(state.schema))


@dataclass(frozen=True, slots=True)
class _Writer:
    segment: SegmentWriter
    rows: RowHash


class _Writers:
    def __init__(self, expected: Mapping[int, int], value: pa.DataType | None, bloom: Collection[str]) -> None:
        self._bloom = bloom
        self._value = value
        self.open: dict[int, _Writer] = {}
        self._expected = expected
        self._offsets: dict[int, list[Offsets]] = {}

    def take(self, rows: pa.Table) -> list[_Writer]:
        """Spread rows sorted by queue and offset. Returns the full writers."""
        full = []
        for queue, some in queue_slices(rows):
            if queue in self.open and not self.open[queue].segment.takes(some):
                full.append(self.open.pop(queue))
            if queue not in self.open:
                segment = SegmentWriter(
                    rows_expected=self._expected[queue], value=self._value, rare=rare_columns(some), bloom=self._bloom
                )
                self.open[queue] = _Writer(segment, RowHash())
            writer = self.open[queue]
            writer.segment.write(some)
            writer.rows.update(some)
            self._offsets.setdefault(queue, []).append(some.column("offset").to_numpy())
            if writer.segment.size_bytes >= FILE_BYTES_MAX:
                full.append(self.open.pop(queue))
        return full

    def offsets(self, queue: int) -> Offsets:
        return np.concatenate(self._offsets.get(queue, [_NO_OFFSETS]))


def gaps(base: int, end: int, offsets: Offsets) -> list[tuple[int, int]]:
    """The ranges (first, limit) between ``base`` and ``end`` without these ascending offsets. Raises `DataDamaged` for offsets outside."""
    if len(offsets) and (offsets[0] < base or offsets[-1] >= end):
        raise DataDamaged("log and table disagree on where a queue ends", expected=(base, end), observed=(offsets[0], offsets[-1]))
    edges = np.concatenate(([base - 1], offsets, [end]))
    holes = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[at]) + 1, int(edges[at + 1])) for at in holes]


_NO_OFFSETS: Offsets = np.empty(0, dtype=np.int64)
