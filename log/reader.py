"""Reading a topic: old offsets from its Delta table, new ones from its log, joined without a seam; no consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from .errors import DataDamaged, InvalidArgument, OffsetOutOfRange, TopicDeleted, ViewLost
from .fold import Folded
from .messages import MESSAGE_SCHEMA, MessageView, to_us, views
from .rows import LostRange, entry_pieces
from .table.delta import DeltaLog
from .table.lookup import Lookup, lookup
from .table.scan import offset_at, scan_queue
from .table.snapshot import Snapshot
from .tags import TagFilter
from .topics import Topic
from .view import View

Position: TypeAlias = "int | datetime | Literal['earliest', 'latest']"
"""An offset, a store time, or one of the two ends."""


class Reader:
    """Reads any queue from any place. Made by ``lake.reader``."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._store = topic.store
        self._paths = topic.paths
        self._delta = DeltaLog(topic.store, topic.paths, topic.record.table, topic.runtime, keep_removes=False)
        self._closed = asyncio.Event()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._paths.topic

    @property
    def queues(self) -> int:
        """How many queues the topic has."""
        return self._topic.settings.queues

    async def read(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Messages as Arrow batches with `MESSAGE_SCHEMA` (or only ``columns`` of it); within each queue in the order of offsets.

        ``queue=None`` reads all queues: what is in the table queue by queue, then the log entry by entry. ``start`` is inclusive and ``end``
        exclusive; a time means the first message stored at or after it. ``follow=True`` does not end. ``tags`` is a filter such as
        ``paid || refunded``.

        Raises `TopicDeleted` once the topic is gone, `OffsetOutOfRange` for an offset older than the earliest kept or beyond the next
        one, and `DataDamaged` where rows cannot be read any more, naming object and offsets; ``damaged="skip"`` leaves those out.
        """
        if follow and end != "latest":
            raise InvalidArgument("what follows a topic has no end", operation="read", observed=f"follow=True, end={end!r}")
        keep = TagFilter.parse(tags)
        names = _checked_columns(columns)
        queues = self._checked_queues(queue)
        next_offset, limits = await self._bounds(queues, start, None if follow else end)
        needed = sorted({*names, "queue", "offset", "tag"}, key=MESSAGE_SCHEMA.names.index)
        source = self._rows(next_offset, limits, follow=follow, skip_damaged=damaged == "skip", columns=needed)
        try:
            async for batch in source:
                batch = keep.apply(batch)
                if batch.num_rows:
                    yield batch.select(names)
        finally:
            await source.aclose()

    async def messages(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> AsyncGenerator[MessageView, None]:
        """The same, message by message."""
        source = self.read(queue=queue, start=start, end=end, follow=follow, tags=tags, damaged=damaged)
        try:
            async for batch in source:
                for message in views(self._paths.topic, batch):
                    yield message
        finally:
            await source.aclose()

    async def to_arrow(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        tags: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> pa.Table:
        """All that `read` yields, as one table, by queue and offset."""
        names = _checked_columns(columns)
        wanted = [*names, *(name for name in ("queue", "offset") if name not in names)]
        source = self.read(queue=queue, start=start, end=end, tags=tags, columns=wanted, damaged=damaged)
        batches = [batch async for batch in source]
        schema = pa.schema([MESSAGE_SCHEMA.field(name) for name in wanted])
        table = pa.Table.from_batches(batches, schema).sort_by([("queue", "ascending"), ("offset", "ascending")])
        return table.select(names)

    async def offsets(self) -> dict[int, tuple[int, int]]:
        """For every queue, the earliest kept offset and the one after the last."""
        snapshot = await self._refresh()
        following = self._topic.tail.state.next_offsets
        return {queue: (snapshot.start(queue), following[queue]) for queue in range(self.queues)}

    async def lookup(
        self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None
    ) -> list[MessageView]:
        """The messages for which all that is given holds, by queue and offset; reads little of a large topic."""
        wanted = Lookup(message_id=message_id, key=key, message_group=message_group)
        snapshot = await self._refresh()
        found = [batch async for batch in lookup(self._store, self._paths, snapshot, wanted)]
        ends = dict(enumerate(self._topic.tail.state.next_offsets))
        position = {queue: snapshot.end(queue) for queue in ends}
        tail = self._log(position, ends, snapshot, follow=False, skip_damaged=True)
        found += [batch.take(pa.array(wanted.matching(batch), pa.int64())) async for batch in tail]
        table = pa.Table.from_batches(found, MESSAGE_SCHEMA)
        return list(views(self._paths.topic, table.sort_by([("queue", "ascending"), ("offset", "ascending")])))

    async def close(self) -> None:
        """Stop following: iterations end."""
        self._closed.set()

    # --- Where to read ----------------------------------------------------------------------------------------------------------

    async def _refresh(self) -> Snapshot:
        """The newest table, and the tail at least as new."""
        snapshot = await self._delta.refresh()
        await self._topic.tail.catch_up()
        if not self._topic.is_current:
            raise self._deleted()
        return snapshot

    async def _bounds(
        self, queues: list[int], start: Position, end: Position | None
    ) -> tuple[dict[int, int], dict[int, int] | None]:
        """For every queue the first offset to read and, unless ``end`` is None, the one to stop before."""
        snapshot = await self._refresh()
        starts = {queue: await self._offset(snapshot, queue, start) for queue in queues}
        if end is None:
            return starts, None
        return starts, {queue: await self._offset(snapshot, queue, end, is_end=True) for queue in queues}

    async def _offset(self, snapshot: Snapshot, queue: int, position: Position, *, is_end: bool = False) -> int:
        earliest, following = snapshot.start(queue), self._topic.tail.state.next_offsets[queue]
        if position == "earliest":
            return earliest
        if position == "latest":
            return following
        if isinstance(position, datetime):
            return await self._offset_at(snapshot, queue, to_us(position))
        if not isinstance(position, int) or isinstance(position, bool):
            raise InvalidArgument(
                "a position is an offset, a datetime, 'earliest' or 'latest'", operation="read", observed=position
            )
        if position < (0 if is_end else earliest):
            raise self._out_of_range(queue, position, f"the earliest kept is {earliest}")
        if position > following and not is_end:
            raise self._out_of_range(queue, position, f"the next one to be written is {following}")
        return min(position, following) if is_end else position

    async def _offset_at(self, snapshot: Snapshot, queue: int, time_us: int) -> int:
        """The first offset stored at or after a time."""
        in_table = await offset_at(self._store, self._paths, snapshot, queue, -(-time_us // 1000))
        if in_table is not None:
            return in_table
        following = self._topic.tail.state.next_offsets[queue]
        async for batch in self._log({queue: snapshot.end(queue)}, {queue: following}, snapshot, follow=False, skip_damaged=True):
            stored = batch.column("store_timestamp").cast(pa.int64()).to_numpy()
            late = (stored >= time_us).nonzero()[0]
            if len(late):
                return int(batch.column("offset")[int(late[0])].as_py())
        return following

    def _out_of_range(self, queue: int, offset: int, observed: str) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            "the queue has no such offset",
            operation="read",
            object=f"{self._paths.topic}, queue {queue}",
            expected=f"offset {offset}",
            observed=observed,
            hint="start at 'earliest', 'latest' or a time",
        )

    # --- Reading ----------------------------------------------------------------------------------------------------------------

    async def _rows(
        self, position: dict[int, int], limits: Mapping[int, int] | None, *, follow: bool, skip_damaged: bool, columns: list[str]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows from ``position`` on, which moves along; from the table what it has, then from the log."""
        while True:
            snapshot = await self._delta.refresh()
            for queue in list(position):
                limit = min(snapshot.end(queue), limits[queue] if limits is not None else snapshot.end(queue))
                if position[queue] < limit:
                    async for batch in self._table(snapshot, queue, position[queue], limit, columns, skip_damaged=skip_damaged):
                        position[queue] = batch.column("offset")[batch.num_rows - 1].as_py() + 1
                        yield batch
                    position[queue] = limit
            if limits is not None and all(position[queue] >= limits[queue] for queue in position):
                return
            try:
                async for batch in self._log(position, limits, snapshot, follow=follow, skip_damaged=skip_damaged):
                    yield batch.select(columns)
                return
            except ViewLost:  # trimmed meanwhile: what the log had is in the table now
                continue

    async def _table(
        self, snapshot: Snapshot, queue: int, start: int, limit: int, columns: list[str], *, skip_damaged: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The table's rows of a queue; where some are missing, those before them and then the error that names them."""
        expected, folder = start, self._paths.table(snapshot.folder)
        lost = next((one for one in snapshot.lost(queue) if one[0] < limit and one[1] > start and not skip_damaged), None)
        stop = limit if lost is None else max(start, lost[0])
        async for batch in scan_queue(self._store, self._paths, snapshot, queue, start, stop, columns, runtime=self._topic.runtime):
            first, last = batch.column("offset")[0].as_py(), batch.column("offset")[batch.num_rows - 1].as_py()
            if not skip_damaged and (first != expected or last - first >= batch.num_rows):
                raise self._lost(LostRange(queue, expected, last, folder, "the table does not have all its rows"))
            expected = last + 1
            yield batch
        if lost is not None:
            raise self._lost(LostRange(queue, stop, lost[1], folder, "its rows were lost before they were published"))

    async def _log(
        self, position: dict[int, int], limits: Mapping[int, int] | None, snapshot: Snapshot, *, follow: bool, skip_damaged: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Rows of the entries behind the published ones; ``position`` moves along. Raises `ViewLost`."""
        view = View(self._store, self._paths, self._topic.runtime, cache=self._topic.tail.cache)
        folded_now: list[tuple[Folded, bytes]] = []
        view.on_fold = lambda folded, data: folded_now.append((folded, data))
        await view.open(at_most=max(snapshot.published, self._topic.tail.state.created_entry))
        while limits is None or any(position[queue] < limits[queue] for queue in position):
            if view.state.entry >= self._topic.tail.state.entry:
                if not self._topic.is_current:
                    raise self._deleted()
                if not follow or self._closed.is_set():
                    return
                await self._wait_past(view.state.entry)
            folded_now.clear()
            if not await view.step():  # an entry between two others is missing: only a look at what follows leads around it
                await view.catch_up(until=self._topic.tail.state.entry, expect_many=True)
            for folded, data in folded_now:
                if folded.state.incarnation != self._topic.record.incarnation:
                    continue  # of an earlier topic of this name
                wanted = [queue for queue in position if limits is None or position[queue] < limits[queue]]
                async for piece in entry_pieces(self._store, self._paths, folded, data, queues=wanted):
                    for lost in piece.lost:
                        if lost.limit_offset > position[lost.queue] and not skip_damaged:
                            raise self._lost(lost)
                    for batch in self._cut(piece.table, position, limits, skip_damaged=skip_damaged):
                        yield batch

    async def _wait_past(self, entry: int) -> None:
        """Return when there is an entry behind this one, or the reader was closed."""
        moved = asyncio.ensure_future(self._topic.tail.wait_past(entry))
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((moved, closed), return_when=asyncio.FIRST_COMPLETED)
            if moved.done():
                moved.result()
        finally:
            moved.cancel()
            closed.cancel()
            await asyncio.gather(moved, closed, return_exceptions=True)

    def _cut(
        self, rows: pa.Table, position: dict[int, int], limits: Mapping[int, int] | None, *, skip_damaged: bool
    ) -> list[pa.RecordBatch]:
        """Per queue, the rows between position and limit; position moves behind them."""
        batches: list[pa.RecordBatch] = []
        start = 0
        for run in rows["queue"].combine_chunks().dictionary_encode().dictionary.to_pylist() if rows.num_rows else []:
            count = int(pc.sum(pc.equal(rows["queue"], run)).as_py())
            offsets = rows["offset"].slice(start, count).to_numpy()
            limit = limits[run] if limits is not None else int(offsets[-1]) + 1
            first, last = offsets.searchsorted([position[run], limit])
            if last > first:
                if offsets[first] > position[run] and not skip_damaged:
                    raise self._lost(
                        LostRange(run, position[run], int(offsets[first]), self._paths.log, "its entries cannot be read")
                    )
                batches += rows.slice(start + int(first), int(last - first)).combine_chunks().to_batches()
                position[run] = int(offsets[last - 1]) + 1
            start += count
        return batches

    def _deleted(self) -> TopicDeleted:
        return TopicDeleted(
            "the topic was deleted", operation="read", object=self._paths.topic, hint="open it anew if it was created again"
        )

    def _lost(self, lost: LostRange) -> DataDamaged:
        return DataDamaged(
            f"offsets {lost.first_offset} to {lost.limit_offset - 1} of queue {lost.queue} cannot be read any more: {lost.reason}",
            operation="read",
            object=lost.object,
            hint=f"start at {lost.limit_offset}, or read with damaged='skip'",
        )

    def _checked_queues(self, queue: int | None) -> list[int]:
        if queue is None:
            return list(range(self.queues))
        if not isinstance(queue, int) or isinstance(queue, bool) or not 0 <= queue < self.queues:
            raise InvalidArgument(
                "the topic has no such queue",
                operation="read",
                object=self._paths.topic,
                expected=f"0 to {self.queues - 1}",
                observed=queue,
            )
        return [queue]


def _checked_columns(columns: list[str] | None) -> list[str]:
    names = MESSAGE_SCHEMA.names if columns is None else columns
    unknown = [name for name in names if name not in MESSAGE_SCHEMA.names]
    if unknown:
        raise InvalidArgument(
            f"there are no columns {', '.join(unknown)}", operation="read", expected=", ".join(MESSAGE_SCHEMA.names)
        )
    return names
