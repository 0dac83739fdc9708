"""Merges small consecutive files of a queue.

By size classes, each eight times the one below, a row is rewritten once per class. Merged rows are proved equal by number and hash before a commit
with ``dataChange=false``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataDamaged, PenstockError
from ..limits import KIB, MIB
from ..message.message import VALUE
from ..runtime.runtime import Runtime
from ..schema.stored_columns import wider_type
from ..stores.protocol import ObjectStore
from .comparison.row_hash import RowHash
from .delta.actions import CommitContent
from .delta.delta_log import DeltaLog
from .delta.scan import WHOLE_FILE_BYTES
from .delta.segment_reader import SegmentReader
from .delta.segments import SegmentWriter, TableFile
from .delta.snapshot import Snapshot

TARGET_BYTES = 128 * MIB
FAN_IN = 8
SPAN_MS = 6 * 3600 * 1000
"""The store time in a merged file; retention removes whole files only."""
_FILES_MAX = 64
_SMALLEST_CLASS_BYTES = 32 * KIB


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of one round."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


def plan(
    files: Sequence[TableFile], *, target_bytes: int = TARGET_BYTES, fan_in: int = FAN_IN, span_ms: int = SPAN_MS
) -> Sequence[TableFile]:
    """Consecutive files of a queue to merge next, smallest class first."""
    largest_class_bytes = _SMALLEST_CLASS_BYTES
    while True:
        run: list[TableFile] = []
        run_bytes = 0
        for file in files:
            if file.size_bytes > min(largest_class_bytes, target_bytes // 2):
                if is_worth(run, run_bytes, target_bytes, fan_in):
                    return run
                run, run_bytes = [], 0
                continue
            if run and file.store_last_ms - run[0].store_first_ms > span_ms:
                if is_worth(run, run_bytes, target_bytes, fan_in):
                    return run
                run, run_bytes = [], 0
            if len(run) == _FILES_MAX or run_bytes + file.size_bytes > target_bytes:
                return run
            run.append(file)
            run_bytes += file.size_bytes
        if is_worth(run, run_bytes, target_bytes, fan_in):
            return run
        if largest_class_bytes >= target_bytes:
            return ()
        largest_class_bytes *= FAN_IN


def is_worth(run: Sequence[TableFile], run_bytes: int, target_bytes: int, fan_in: int) -> bool:
    """Whether the files are many, none of which is most of the whole."""
    if len(run) < 2 or 2 * max(file.size_bytes for file in run) > run_bytes:
        return False
    return len(run) >= fan_in or run_bytes >= target_bytes // 2


@dataclass(frozen=True, slots=True)
class _Merged:
    file: TableFile
    sources: tuple[TableFile, ...]
    started_s: float
    """The beginning of the merge by the monotonic clock."""


class Compactor:
    """Merges files of one table."""

    def __init__(
        self,
        store: ObjectStore,
        delta: DeltaLog,
        runtime: Runtime,
        *,
        target_bytes: int = TARGET_BYTES,
        fan_in: int = FAN_IN,
        bloom: Collection[str] = (),
    ) -> None:
        self._bloom = tuple(bloom)
        self._store = store
        self._delta = delta
        self._runtime = runtime
        self._target_bytes = target_bytes
        self._fan_in = fan_in
        self._merged: list[_Merged] = []
        """Merged files, not merged again: their commit may be refused for hours."""

    async def compact_once(self) -> CompactionResult:
        """Merge a run of files of every queue in one commit. A queue's error is raised after the others' commit."""
        started_s = self._runtime.clock.monotonic_s()
        snapshot = await self._delta.refresh()
        self._merged = [one for one in self._merged if self._is_of_use(one, snapshot)]
        merged_queues = {one.file.queue for one in self._merged}
        errors: list[PenstockError] = []
        for queue, files in snapshot.files.items():
            run = () if queue in merged_queues else plan(files, target_bytes=self._target_bytes, fan_in=self._fan_in)
            try:
                if run:
                    merged = await _merge(self._store, self._delta.root, self._runtime, run, self._bloom)
                    self._merged.append(_Merged(merged, tuple(run), started_s))
            except PenstockError as error:
                errors.append(error)
        done = await self._commit(snapshot) if self._merged else CompactionResult()
        if errors:
            raise errors[0]
        return done

    def _is_of_use(self, merged: _Merged, snapshot: Snapshot) -> bool:
        return self._delta.is_in_time(merged.started_s) and sources_unchanged(snapshot, merged.sources)

    async def _commit(self, snapshot: Snapshot) -> CompactionResult:
        files = [one.file for one in self._merged]
        sources = [file for one in self._merged for file in one.sources]
        started_s = min(one.started_s for one in self._merged)
        while sources_unchanged(snapshot, sources):
            commit = CommitContent(
                "OPTIMIZE", adds=tuple(files), removes=tuple(sources), data_change=False, removed_ms=await self._store.clock_ms()
            )
            if await self._delta.commit(commit, on=snapshot, started_s=started_s):
                self._merged = []
                return CompactionResult(len(sources), sum(file.rows for file in files), sum(file.size_bytes for file in files))
            snapshot = await self._delta.refresh()
        return CompactionResult()


def sources_unchanged(snapshot: Snapshot, sources: Sequence[TableFile]) -> bool:
    """Whether no source was removed by retention or another compactor."""
    return snapshot.paths.issuperset(file.path for file in sources)


async def _merge(store: ObjectStore, root: str, runtime: Runtime, run: Sequence[TableFile], bloom: Collection[str]) -> TableFile:
    readers = [SegmentReader(store, root, file) for file in run]
    more_columns = {name for file in run for name in file.more_columns}
    value: pa.DataType | None = None
    if VALUE in more_columns:  # what all the files hold together must be known before the first is copied
        all_fit = sum(file.size_bytes for file in run) <= WHOLE_FILE_BYTES
        for reader in readers:
            await reader.open(whole_bytes_max=WHOLE_FILE_BYTES if all_fit else 0)
        value = reduce(wider_type, [kind for reader in readers if (kind := reader.value_type) is not None])
    writer = SegmentWriter(rows_expected=sum(file.rows for file in run), value=value, rare=more_columns, bloom=bloom)
    source = RowHash()
    for reader in readers:
        if value is None:
            await reader.open(whole_bytes_max=WHOLE_FILE_BYTES)
        for group in range(reader.row_groups):
            await reader.fetch_group(group)
            await runtime.offload(lambda reader=reader, group=group: _copy(reader.decode_group(group), writer, source))  # type: ignore[misc]
            reader.drop_group(group)
        reader.close()
    fresh_id = runtime.new_id()
    merged, data = await runtime.offload(lambda: writer.close(fresh_id))
    await runtime.offload(
        lambda: check_merged(data, source, expected_rows=sum(file.rows for file in run), where=root + merged.path)
    )
    await store.put_large(root + merged.path, data)
    # The file is as old as the newest of its rows: it expires when they would, and comes before what was published later.
    return replace(merged, modified_ms=max(file.modified_ms for file in run))


def check_merged(data: bytes, source: RowHash, *, expected_rows: int, where: str) -> None:
    """Raise `DataDamaged` unless a merged file has exactly its sources' rows."""
    merged = RowHash()
    for group in range(pq.read_metadata(pa.BufferReader(data)).num_row_groups):
        merged.update(
            pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read_row_group(group, use_threads=False)
        )
    if not merged.rows == source.rows == expected_rows:
        raise DataDamaged("a compaction changed the number of rows", object=where, expected=expected_rows, observed=merged.rows)
    if merged.hexdigest() != source.hexdigest():
        raise DataDamaged("a compaction changed rows", object=where, expected=source.hexdigest(), observed=merged.hexdigest())


def _copy(rows: pa.Table, writer: SegmentWriter, source: RowHash) -> None:
    writer.write(rows)
    source.update(rows)
