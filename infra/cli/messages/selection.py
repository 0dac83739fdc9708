"""The messages of `penstock read` and `penstock tail`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

import click
import pyarrow as pa
import pyarrow.compute as pc

from ....log.filter.filters import filters_of, passing
from ....log.table.delta.lookup import Lookup

if TYPE_CHECKING:
    from ....blocking.topics import Reader

Position: TypeAlias = int | datetime | Literal["earliest", "latest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageSelection:
    """Conditions, all of which hold; None is no condition."""

    queue: int | None = None
    message_group: str | None = None
    key: str | None = None
    message_id: str | None = None
    tags: str | None = None
    where: str | None = None
    start: Position = "earliest"
    end: Position = "latest"
    limit: int | None = None
    damaged: Literal["raise", "skip"] = "raise"
    columns: tuple[str, ...] | None = None
    """Only these columns and fields (``value.amount``); None: all."""

    @property
    def labelled(self) -> bool:
        """Whether a lookup finds the messages without reading the topic."""
        return not self.message_group is self.key is self.message_id is None

    def batches(self, reader: Reader, *, follow: bool = False) -> Iterator[pa.RecordBatch]:
        """The messages as they come; those of each queue in its order."""
        return at_most(self.limit, self._unlimited(reader, follow=follow))

    def _unlimited(self, reader: Reader, *, follow: bool) -> Iterator[pa.RecordBatch]:
        if self.labelled and not follow:
            yield from self._looked_up(reader)
            return
        wanted = Lookup(message_id=self.message_id, key=self.key, message_group=self.message_group) if self.labelled else None
        reading = reader.read(
            queue=self.queue,
            start=self.start,
            end=self.end,
            follow=follow,
            tags=self.tags,
            where=self.where,
            damaged=self.damaged,
            columns=None if self.columns is None else list(self.columns),
        )
        for batch in reading:
            yield batch if wanted is None else batch.take(pa.array(wanted.matching(batch), pa.int64()))

    def _looked_up(self, reader: Reader) -> Iterator[pa.RecordBatch]:
        keep = filters_of(self.tags, self.where)
        rows = reader.lookup_arrow(message_id=self.message_id, key=self.key, message_group=self.message_group)
        if self.queue is not None:
            rows = rows.filter(pc.equal(rows["queue"], self.queue))
        if (column := _column(rows, self.start)) is not None:
            rows = rows.filter(pc.greater_equal(column, self.start))
        if (column := _column(rows, self.end)) is not None:
            rows = rows.filter(pc.less(column, self.end))
        if self.start == "latest" or self.end == "earliest":
            rows = rows.slice(0, 0)
        for batch in rows.to_batches():
            yield passing(batch, keep)


def at_most(limit: int | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first messages, without empty batches. Nothing is read beyond them."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        batch = batch.slice(0, left)
        if batch.num_rows:
            yield batch
        if left is not None and (left := left - batch.num_rows) == 0:
            return


def check_selection(selection: MessageSelection, reader: Reader) -> MessageSelection:
    """The selection, checked: an offset requires one queue, and a lookup takes no positions. An empty range is refused where a read would be."""
    offsets = [position for position in (selection.start, selection.end) if isinstance(position, int)]
    if offsets and selection.queue is None and reader.queues > 1:
        raise click.UsageError(f"An offset needs --queue, as the topic has {reader.queues} queues.")
    if selection.labelled:
        start: Position = selection.start if isinstance(selection.start, int) else "earliest"
        next(reader.read(queue=selection.queue, start=start, end=start), None)
    return selection


def _column(rows: pa.Table, position: Position) -> pa.ChunkedArray | None:
    if isinstance(position, datetime):
        return rows["store_timestamp"]
    return rows["offset"] if isinstance(position, int) else None
