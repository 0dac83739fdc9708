"""Runs: immutable Parquet objects of messages that wait long, by delivery time.

Row groups are read when their time comes; the footer has their bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from ....log.errors import DataDamaged
from ....log.format.sealed import UNSEALED, seal
from ....log.format.stored_json import Number, parse_stored
from ....log.limits import TIME_MAX_MS
from ....log.message.message import MESSAGE_SCHEMA
from ....log.runtime.runtime import Runtime
from ....log.stores.protocol import ObjectStore
from ....log.table.delta.segment_reader import SegmentReader
from ....log.table.delta.segments import TableFile
from ...cells.keys import timer_folder
from ..cell.selection import WaitingIndex
from ..cell.state import DuePosition, TimerRun
from .memtable import TimedRows, due_times, sizes

_GROUPS_KEY = "penstock.timers"
_NEVER_NULL = ("offset", "message_id", "born_timestamp")
TimeUs: TypeAlias = Annotated[int, Meta(ge=0, le=1000 * TIME_MAX_MS + 999)]


class RunRowGroup(NamedTuple):
    """A row group of a run."""

    first: DuePosition
    last: DuePosition
    rows: int


def run_key(topic: str, log_incarnation: str, name: str) -> str:
    return f"{timer_folder(topic, log_incarnation)}{name}.parquet"


class RunWriter:
    """Builds one run in memory, from rows in delivery order."""

    def __init__(self, *, group_bytes: int) -> None:
        self._group_bytes = group_bytes
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            MESSAGE_SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=["queue", "message_group", "tag", "producer"],
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        )
        self._groups: list[RunRowGroup] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows that come after all before."""
        ends = np.cumsum(sizes(rows))
        start = 0
        while start < rows.num_rows:
            before = int(ends[start - 1]) if start else 0
            count = max(1, int(np.searchsorted(ends, before + self._group_bytes, side="right")) - start)
            group = rows.slice(start, count)
            times, offsets = due_times(group), group.column("offset").to_numpy()
            first, last = DuePosition(int(times[0]), int(offsets[0])), DuePosition(int(times[-1]), int(offsets[-1]))
            self._groups.append(RunRowGroup(first, last, count))
            self._writer.write_table(group, row_group_size=count)
            start += count

    def close(self, name: str) -> tuple[TimerRun, bytes] | None:
        """None without rows."""
        self._writer.add_key_value_metadata({_GROUPS_KEY: json.dumps(self._groups), **UNSEALED})
        self._writer.close()
        if not self._groups:
            return None
        data = seal(self._sink.getvalue())
        return TimerRun(name, sum(group.rows for group in self._groups), len(data), self._groups[-1].last), data


class OpenRun:
    """A run whose footer was read."""

    def __init__(self, run: TimerRun, reader: SegmentReader, groups: Sequence[RunRowGroup], runtime: Runtime) -> None:
        self.run = run
        self.rows = TimedRows()
        self._reader = reader
        self._groups = list(groups)
        self._runtime = runtime
        self._loaded = 0

    @classmethod
    async def open(cls, store: ObjectStore, runtime: Runtime, key: str, run: TimerRun, *, whole_bytes_max: int) -> OpenRun:
        """Read the footer, or all of a small run. Raises `ObjectMissing` and `DataDamaged`."""
        file = TableFile(
            path=key,
            queue=0,
            first_offset=0,
            limit_offset=0,
            rows=run.rows,
            size_bytes=run.size_bytes,
            store_first_ms=0,
            store_last_ms=0,
        )
        reader = await SegmentReader(store, "", file).open(whole_bytes_max=whole_bytes_max)
        groups = _groups(reader, key)
        return cls(run, reader, groups, runtime)

    @property
    def next(self) -> DuePosition | None:
        """The due time of the first unloaded message."""
        return self._groups[self._loaded].first if self._loaded < len(self._groups) else None

    @property
    def left(self) -> int:
        """The number of messages neither dropped nor passed over."""
        return len(self.rows) + sum(group.rows for group in self._groups[self._loaded :])

    def pass_over(self, due: DuePosition) -> None:
        while self._loaded < len(self._groups) and self._groups[self._loaded].last <= due:
            self._loaded += 1

    async def load(self) -> None:
        """Read the next row group. Raises `ObjectMissing` and `DataDamaged`."""
        number = self._loaded
        await self._reader.fetch_group(number)
        table = await self._runtime.offload(lambda: self._reader.decode_group(number))
        self._reader.drop_group(number)
        if self._loaded == number:
            self._loaded += 1
            _check_rows(table, self._groups[number], self._reader.key)
            for batch in table.cast(MESSAGE_SCHEMA).combine_chunks().to_batches():
                self.rows.add(batch)


def _check_rows(table: pa.Table, group: RunRowGroup, key: str) -> None:
    """Raise `DataDamaged` unless the rows match the run's footer."""
    nulls = [name for name in _NEVER_NULL if table.column(name).null_count]
    if not nulls and table.num_rows == group.rows > 0:
        waiting = WaitingIndex(due_times(table), table.column("offset").to_numpy())
        first, last = (DuePosition(int(waiting.time_us[at]), int(waiting.offset[at])) for at in (0, -1))
        if waiting.is_by_due and (first, last) == (group.first, group.last):
            return
    raise DataDamaged(
        "a run of timers has other rows than it says",
        operation="play timers",
        object=key,
        expected=f"{group.rows} rows by delivery time, from {group.first.time_us} to {group.last.time_us} microseconds since 1970",
        observed=f"{table.num_rows} rows"
        + (f" with nulls in {', '.join(nulls)}" if nulls else " with others, or in another order"),
    )


def next_unloaded(runs: Iterable[OpenRun]) -> OpenRun | None:
    left = [run for run in runs if run.next is not None]
    return min(left, key=lambda run: run.next or run.run.last, default=None)


class _GroupForm(NamedTuple):
    first: tuple[TimeUs, Number]
    last: tuple[TimeUs, Number]
    rows: Number


def _groups(reader: SegmentReader, key: str) -> list[RunRowGroup]:
    stored = (reader.metadata.metadata or {}).get(_GROUPS_KEY.encode(), b"")
    found = parse_stored(stored, list[_GroupForm], what="a run of timers", where=key)
    groups = [RunRowGroup(DuePosition(*one.first), DuePosition(*one.last), one.rows) for one in found]
    if len(groups) != reader.row_groups:
        raise DataDamaged("the run has other row groups than it says", object=key, expected=len(groups), observed=reader.row_groups)
    return groups
