"""Hashes of the rows that this process copied from the log into the table, so that a comparison need not read the log again.

Before the log is trimmed, the files on the store must give the same hash. Other processes' entries, and those before a restart, are read from the log
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...format.state import TopicState
from ...limits import CHECKPOINT_ENTRIES, MIB
from ...paths import TopicPaths
from ...runtime.runtime import Runtime
from ...stores.protocol import ObjectStore
from ..delta.scan import scan_queue
from ..delta.segments import TableFile
from ..delta.snapshot import Snapshot
from .ranges import RangeDifference
from .row_hash import RowHash

STATES_KEPT = 64
_FILES_MAX = 50_000
_ROUND_BYTES = 1024 * MIB


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A published file, with a hash of the log's rows for it."""

    file: TableFile
    digest: str


@dataclass(frozen=True, slots=True)
class CopiedCommit:
    """One commit: the entries after ``start``, up to ``end``."""

    start: int
    start_digest: str
    end: int
    end_digest: str
    files: tuple[CopiedFile, ...]


class Copies:
    """The newest commits, and the fold's states where checkpoints are."""

    def __init__(self, *, files_max: int = _FILES_MAX) -> None:
        self._commits: deque[CopiedCommit] = deque()
        self._files = 0
        self._files_max = files_max
        self.states: dict[int, TopicState] = {}

    def note(self, before: TopicState, states: Sequence[TopicState], files: Iterable[CopiedFile]) -> None:
        """Add a commit: the entries after ``before``, and the states after each."""
        after = states[-1]
        copied = CopiedCommit(before.entry, before.digest, after.entry, after.digest, tuple(files))
        self._commits.append(copied)
        self._files += 1 + len(copied.files)
        while self._files > self._files_max:
            self._files -= 1 + len(self._commits.popleft().files)
        remember(self.states, states)

    def behind(self, entry: int, digest: str, published: int) -> list[CopiedCommit]:
        """The commits that follow this state without a gap, up to ``published`` and about a GiB of files."""
        found: list[CopiedCommit] = []
        size_bytes = 0
        for copied in self._commits:
            if (copied.start, copied.start_digest) == (entry, digest) and copied.end <= published and size_bytes < _ROUND_BYTES:
                found.append(copied)
                entry, digest = copied.end, copied.end_digest
                size_bytes += sum(one.file.size_bytes for one in copied.files)
        return found

    def next_start(self, entry: int, published: int) -> int:
        """The entry before which the log must be read from ``entry``."""
        return min((copied.start for copied in self._commits if entry < copied.start < published), default=published)

    def forget_below(self, floor: int) -> None:
        while self._commits and self._commits[0].end <= floor:
            self._files -= 1 + len(self._commits.popleft().files)

    def forget(self) -> None:
        self._commits.clear()
        self.states.clear()
        self._files = 0


def remember(kept: dict[int, TopicState], states: Iterable[TopicState]) -> None:
    kept.update({state.entry: state for state in states if state.entry % CHECKPOINT_ENTRIES == 0})
    for number in sorted(kept)[:-STATES_KEPT]:
        del kept[number]


async def differences(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, snapshot: Snapshot, files: Iterable[CopiedFile]
) -> list[RangeDifference]:
    """The ranges in which the table on the store lacks copied rows that retention left."""
    queues: dict[int, list[CopiedFile]] = {}
    for one in files:
        if one.file.first_offset >= snapshot.start(one.file.queue):
            queues.setdefault(one.file.queue, []).append(one)
    found: list[RangeDifference] = []
    for queue, copied in sorted(queues.items()):
        pieces = _Pieces(copied)
        start, limit = copied[0].file.first_offset, copied[-1].file.limit_offset
        async for batch in scan_queue(store, paths, snapshot, queue, start, limit, runtime=runtime, whole_files=True):
            await runtime.offload(lambda pieces=pieces, batch=batch: pieces.take(batch))  # type: ignore[misc]
        found += pieces.finish()
    return found


class _Pieces:
    """A queue's present rows, cut at the bounds of the published files."""

    def __init__(self, copied: Sequence[CopiedFile]) -> None:
        self._copied = copied
        self._at = 0
        self._rows = RowHash()
        self._differences: list[RangeDifference] = []

    def take(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column("offset").to_numpy()
        while len(offsets):
            while self._copied[self._at].file.limit_offset <= offsets[0]:
                self._end()
            count = int(np.searchsorted(offsets, self._copied[self._at].file.limit_offset))
            self._rows.update(batch.slice(0, count))
            batch, offsets = batch.slice(count), offsets[count:]

    def finish(self) -> list[RangeDifference]:
        while self._at < len(self._copied):
            self._end()
        return self._differences

    def _end(self) -> None:
        one, rows = self._copied[self._at], self._rows
        if (one.file.rows, one.digest) != (rows.rows, rows.hexdigest()):
            file = one.file
            self._differences.append(RangeDifference(file.queue, file.first_offset, file.limit_offset, file.rows, rows.rows))
        self._at, self._rows = self._at + 1, RowHash()
