"""Waiting messages in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ....log.limits import MIB
from ....log.message.message import MESSAGE_SCHEMA
from ..cell.selection import WaitingIndex, within
from ..cell.state import DeliveredBounds

_ROW_BYTES = 300
_LOOSE_ROWS = 10_000
_LOOSE_BYTES = 8 * MIB


class TimedRows:
    """Rows with `MESSAGE_SCHEMA`, each offset once, with delivery times and sizes."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._firsts: list[int] = []
        self._count = 0
        self.held_bytes = 0
        """The rows in memory, dropped rows that are still held included."""
        self._time_us = np.empty(0, np.int64)
        self._offset = np.empty(0, np.int64)
        self._size = np.empty(0, np.int64)
        self._place = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._offset)

    @property
    def size_bytes(self) -> int:
        return int(self._size.sum())

    @property
    def waiting(self) -> WaitingIndex:
        return WaitingIndex(self._time_us, self._offset)

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._time_us = np.concatenate((self._time_us, due_times(batch)))
        self._offset = np.concatenate((self._offset, batch.column("offset").to_numpy()))
        found = sizes(batch)
        self._size = np.concatenate((self._size, found))
        self._place = np.concatenate((self._place, np.arange(self._count, self._count + batch.num_rows)))
        self._keep(batch, found)

    def sizes_of(self, chosen: WaitingIndex) -> npt.NDArray[np.int64]:
        return self._size[self._find(chosen)]

    def take(self, chosen: WaitingIndex) -> pa.Table:
        """The chosen rows, in that order."""
        places = self._place[self._find(chosen)]
        of_batch = np.searchsorted(self._firsts, places, side="right") - 1
        pieces, order = [], []
        for number in np.unique(of_batch):
            mine = np.flatnonzero(of_batch == number)
            pieces.append(self._batches[number].take(pa.array(places[mine] - self._firsts[number])))
            order.append(mine)
        if not pieces:
            return MESSAGE_SCHEMA.empty_table()
        ranks = np.argsort(np.concatenate(order))
        return pa.Table.from_batches(pieces, MESSAGE_SCHEMA).combine_chunks().take(pa.array(ranks))

    def drop(self, bounds: DeliveredBounds) -> None:
        self._only(~within(self.waiting, bounds))

    def drop_below(self, offset: int) -> None:
        self._only(self._offset >= offset)

    def has(self, waiting: WaitingIndex) -> npt.NDArray[np.bool_]:
        return np.isin(waiting.offset, self._offset)

    def _find(self, chosen: WaitingIndex) -> npt.NDArray[np.int64]:
        order = np.argsort(self._offset, kind="stable")
        return order[np.searchsorted(self._offset, chosen.offset, sorter=order)]

    def _only(self, kept: npt.NDArray[np.bool_]) -> None:
        if kept.all():
            return
        self._time_us, self._offset, self._size = self._time_us[kept], self._offset[kept], self._size[kept]
        self._place = self._place[kept]
        if self._count > _LOOSE_ROWS + 2 * len(self) or self.held_bytes > _LOOSE_BYTES + 2 * self.size_bytes:
            rows = self.take(self.waiting)
            self._batches, self._firsts, self._count, self.held_bytes = [], [], 0, 0
            self._place = np.arange(len(self))
            for batch in rows.to_batches():
                self._keep(batch, sizes(batch))

    def _keep(self, batch: pa.RecordBatch, found: npt.NDArray[np.int64]) -> None:
        self.held_bytes += int(found.sum())
        self._batches.append(batch)
        self._firsts.append(self._count)
        self._count += batch.num_rows


class CombinedRows:
    """Rows in several places, each row in one."""

    def __init__(self, places: Sequence[TimedRows]) -> None:
        self._places = [rows for rows in places if len(rows)]
        self.waiting = WaitingIndex(
            np.concatenate([np.empty(0, np.int64), *(rows.waiting.time_us for rows in self._places)]),
            np.concatenate([np.empty(0, np.int64), *(rows.waiting.offset for rows in self._places)]),
        )

    def sizes_of(self, chosen: WaitingIndex) -> npt.NDArray[np.int64]:
        found = np.zeros(len(chosen), np.int64)
        for rows in self._places:
            mine = rows.has(chosen)
            found[mine] = rows.sizes_of(chosen.only(mine))
        return found

    def take(self, chosen: WaitingIndex) -> pa.Table:
        pieces, order = [MESSAGE_SCHEMA.empty_table()], [np.empty(0, np.int64)]
        for rows in self._places:
            mine = np.flatnonzero(rows.has(chosen))
            pieces.append(rows.take(WaitingIndex(chosen.time_us[mine], chosen.offset[mine])))
            order.append(mine)
        ranks = np.argsort(np.concatenate(order))
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(ranks))


def due_times(rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
    """Microseconds since the epoch."""
    column = rows.column("delivery_timestamp").cast(pa.int64())
    return np.asarray(column.fill_null(0).to_numpy() if column.null_count else column.to_numpy())


def ready_ms(rows: pa.Table) -> int:
    """The time, in milliseconds since the epoch, when the first row was due and sent."""
    stored = rows.column("store_timestamp").cast(pa.int64()).to_numpy()
    return int(np.maximum(due_times(rows), stored).min()) // 1000


def sizes(rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
    """The approximate memory of each row."""
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    return np.concatenate([np.empty(0, np.int64), *(_sizes(batch) for batch in batches)])


def _sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    found = np.full(batch.num_rows, _ROW_BYTES, np.int64)
    for name in ("body", "message_group", "tag"):
        found += _lengths(batch.column(name))
    keys, properties = batch.column("keys"), batch.column("properties")
    found += _sums(keys, _lengths(keys.values))
    return found + _sums(properties, _lengths(properties.keys) + _lengths(properties.items))


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False), np.int64)


def _sums(column: pa.ListArray | pa.MapArray, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if not len(column):
        return np.empty(0, np.int64)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))[column.offsets.to_numpy()]
    return np.diff(ends)
