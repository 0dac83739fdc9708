"""Reads a topic's rows: first its table's, then its log's. Rows that both have lost are named, or left out.

Rows that retention took are out of range, not damaged. Rows trimmed from the log during the read are in the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from ..errors import DataDamaged, OffsetOutOfRange, TopicDeleted, ViewLost
from ..format.fold import FoldedEntry, VoidReason
from ..format.state import TopicState
from ..stores.protocol import ObjectMissing
from ..table.delta.scan import GROUPS_AHEAD, files_between, scan_queue
from ..table.delta.segments import queue_slices
from ..table.delta.snapshot import Snapshot
from ..tail.arrivals import Arrivals
from ..tail.entry_rows import LostRange, entry_pieces
from ..tail.salvage import fold_known
from ..tail.view import View, read_floor
from ..topic.topics import Topic
from .tables import table_of

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Span:
    """The rows still to be read."""

    position: dict[int, int]
    """The next offset by queue; moves along."""
    limits: Mapping[int, int] | None
    follow: bool = False
    skip_damaged: bool = False
    left_out: list[tuple[int, int, int]] = field(default_factory=list)
    movable: bool = False
    """Whether an unread queue may begin later, as retention took its first rows."""

    @property
    def queues(self) -> list[int]:
        return [queue for queue, at in self.position.items() if self.limits is None or at < self.limits[queue]]

    def limit(self, queue: int, end: int) -> int:
        return end if self.limits is None else min(end, self.limits[queue])


class MergedRows:
    """Reads the rows of one topic, following it until ``closed`` is set. ``groups_ahead``: see `scan_queue`."""

    def __init__(self, topic: Topic, closed: asyncio.Event, *, groups_ahead: int = GROUPS_AHEAD) -> None:
        self._topic = topic
        self._store = topic.store
        self.files = topic.store
        self._paths = topic.paths
        self._delta = table_of(topic)
        self._closed = closed
        self._groups_ahead = groups_ahead

    async def refresh(self) -> Snapshot:
        """The newest table, with a tail at least as new. Raises `TopicDeleted`."""
        snapshot = await self._delta.refresh()
        await self._topic.tail.catch_up()
        if not self._topic.is_current:
            raise self._deleted()
        return snapshot

    async def known(self, limits: Mapping[int, int]) -> Snapshot:
        """The table as last read, or the newest if limits lie beyond."""
        state = self._topic.tail.state
        is_known = (
            self._delta.was_read and self._topic.is_current and all(state.next_offset(queue) >= at for queue, at in limits.items())
        )
        return self._delta.snapshot if is_known else await self.refresh()

    async def with_table(self, use: Callable[[Snapshot], Awaitable[T]]) -> T:
        """The result of ``use`` on the newest table, repeated if the log was trimmed past it."""
        snapshot = await self.refresh()
        while True:
            try:
                return await use(snapshot)
            except ViewLost as lost:
                snapshot = await self._behind_the_trim(lost)
            except ObjectMissing as error:
                before, snapshot = snapshot, await self.refresh()
                if snapshot.version == before.version:
                    self._delta.forget()  # who comes after a repair must not go by what was before it
                    raise DataDamaged("a file of the table is missing", operation="read", object=error.object) from error

    async def joined(
        self, snapshot: Snapshot, span: Span, columns: Callable[[], list[str]]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of ``span``: first the table's, queue by queue, then the log's. ``columns`` is called again for later parts of the table, as the
        topic's schema may evolve.
        """
        begun = dict(span.position)
        while True:
            try:
                for queue in span.queues:
                    self._check_kept(snapshot, span, queue, begun)
                    limit = span.limit(queue, snapshot.end(queue))
                    if span.position[queue] < limit:
                        async with aclosing(self._table(snapshot, span, queue, limit, columns())) as rows:
                            async for batch in rows:
                                span.position[queue] = batch.column("offset")[batch.num_rows - 1].as_py() + 1
                                yield batch
                        span.position[queue] = limit
                async with aclosing(self.log(snapshot, span)) as rows:
                    async for batch in rows:
                        yield _only(batch, columns())
                return
            except ViewLost as lost:
                snapshot = await self._behind_the_trim(lost)

    async def log(self, snapshot: Snapshot, span: Span) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of entries that the table lacks; a yielded batch lies before the position. Raises `ViewLost`."""
        if not span.queues:
            return
        tail = self._topic.tail
        view = View(self._store, self._paths, self._topic.runtime, cache=tail.cache)
        await view.open(at_most=max(snapshot.published, tail.state.created_entry), suits=self._is_early(snapshot, span))
        arrivals = Arrivals(self._store, self._paths, view)
        while True:
            await self._account(arrivals, span)
            if not span.queues:
                return
            if view.state.entry >= tail.state.entry:
                if not self._topic.is_current:
                    raise self._deleted()
                if not span.follow or self._closed.is_set():
                    return
                await self._wait_past(view.state.entry)
                continue
            arrivals.begin(view.state)
            await fold_known(view, self._store, self._paths, view.state.entry + 1)
            for folded, data in await arrivals.entries():
                is_new = folded.number > snapshot.published and folded.state.incarnation == self._topic.record.incarnation
                if is_new and _is_wanted(folded, span):
                    async with aclosing(self._entry(folded, data, span, after=arrivals.before.entry)) as rows:
                        async for batch in rows:
                            yield batch

    def _is_early(self, snapshot: Snapshot, span: Span) -> Callable[[TopicState], bool] | None:
        """A test whether all wanted rows come after a state."""
        wanted, incarnation = {queue: span.position[queue] for queue in span.queues}, self._topic.record.incarnation
        if all(at <= snapshot.end(queue) for queue, at in wanted.items()):
            return None
        return lambda state: (
            state.incarnation == incarnation and all(state.next_offset(queue) <= at for queue, at in wanted.items())
        )

    async def _behind_the_trim(self, lost: ViewLost) -> Snapshot:
        """The table after the log was trimmed. Raises `DataDamaged` for rows that neither has."""
        floor = await read_floor(self._store, self._paths)
        snapshot = await self.refresh()
        if floor > max(snapshot.published, self._topic.tail.state.created_entry):
            self._delta.forget()
            raise DataDamaged(
                "the log is trimmed further than the table reaches, so rows are lost",
                operation="read",
                object=self._paths.table(snapshot.folder),
                expected=f"entries up to {floor}",
                observed=f"entries up to {snapshot.published}" if snapshot.exists else "no table",
                hint="put the table's folder back as it was",
            ) from lost
        return snapshot

    # --- The table

    def _check_kept(self, snapshot: Snapshot, span: Span, queue: int, begun: dict[int, int]) -> None:
        at, earliest = span.position[queue], snapshot.start(queue)
        if at >= earliest:
            return
        if not span.movable or at != begun[queue]:
            raise out_of_range(self._paths.topic, queue, at, f"the earliest kept is {earliest}")
        span.position[queue] = begun[queue] = earliest

    async def _table(
        self, snapshot: Snapshot, span: Span, queue: int, limit: int, columns: list[str]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        start, folder = span.position[queue], self._paths.table(snapshot.folder)
        named = (
            None if span.skip_damaged else next((one for one in snapshot.lost(queue) if one[0] < limit and one[1] > start), None)
        )
        stop = limit if named is None else max(start, named[0])
        expected = start
        async with aclosing(self._readable(snapshot, span, queue, start, stop, columns)) as readable:
            async for batch in readable:
                edges = np.concatenate(([expected - 1], batch.column("offset").to_numpy()))
                holes = np.flatnonzero(np.diff(edges) > 1)
                if len(holes) and not span.skip_damaged:
                    at = int(holes[0])
                    if at:
                        yield batch.slice(0, at)
                    raise _damaged(LostRange(queue, int(edges[at]) + 1, int(edges[at + 1]), folder, _NOT_IN_TABLE))
                span.left_out += [(queue, int(edges[at]) + 1, int(edges[at + 1])) for at in holes]
                expected = int(edges[-1]) + 1
                yield batch
        if expected < stop:
            if not span.skip_damaged:
                raise _damaged(LostRange(queue, expected, stop, folder, _NOT_IN_TABLE))
            span.left_out.append((queue, expected, stop))
        if named is not None:
            raise _damaged(LostRange(queue, stop, named[1], folder, "its rows were lost before they were published"))

    async def _readable(
        self, snapshot: Snapshot, span: Span, queue: int, start: int, stop: int, columns: list[str]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The table's rows from ``start`` to ``stop``. An unreadable file ends them, or is left out."""
        root, runtime = self._paths.table(snapshot.folder), self._topic.runtime
        until, failed = stop, None
        while start < until:
            try:
                scanned = scan_queue(
                    self.files, self._paths, snapshot, queue, start, until, columns,
                    runtime=runtime, groups_ahead=self._groups_ahead,
                )  # fmt: skip
                async with aclosing(scanned):
                    async for batch in scanned:
                        start = batch.column("offset")[batch.num_rows - 1].as_py() + 1
                        yield batch
                start = until
            except (DataDamaged, ObjectMissing) as error:
                files = files_between(snapshot, queue, start, until)
                file = next((file for file in files if root + file.path == error.object), None)
                if file is None:
                    raise
                if isinstance(error, ObjectMissing) and file.path not in (await self._delta.refresh()).paths:
                    raise ViewLost("the table was compacted and its old files collected", object=error.object) from error
                self._delta.forget()  # as in `with_table`
                # Reading ahead may have met the error early: the rows before it come first.
                until, failed = max(start, file.first_offset), (file, error)
            if start >= until and failed is not None:
                file, cause = failed
                limit = min(file.limit_offset, stop)
                if not span.skip_damaged:
                    raise _damaged(LostRange(queue, start, limit, root + file.path, cause.message)) from cause
                start, until, failed = limit, stop, None

    # --- The log

    async def _entry(self, folded: FoldedEntry, data: bytes, span: Span, *, after: int) -> AsyncGenerator[pa.RecordBatch, None]:
        runtime = self._topic.runtime
        async for piece in entry_pieces(self._store, self._paths, runtime, folded, data, queues=span.queues):
            for lost in piece.lost:
                await self._lose(lost, span, after=after)
            for queue, rows in queue_slices(piece.table):
                offsets = rows.column("offset").to_numpy()
                limit = span.limit(queue, int(offsets[-1]) + 1)
                first, last = offsets.searchsorted([span.position[queue], limit])
                if last > first:
                    await self._lose(self._gap(queue, span, int(offsets[first]), after + 1), span, after=after)
                    span.position[queue] = int(offsets[last - 1]) + 1
                    for batch in rows.slice(first, last - first).combine_chunks().to_batches():
                        yield batch

    async def _account(self, arrivals: Arrivals, span: Span) -> None:
        """Check that every row given out before the view's last step was read."""
        after, state = arrivals.before.entry, arrivals.after
        if state.incarnation != self._topic.record.incarnation:
            return  # the state is of an earlier topic of this name
        for queue in span.queues:
            reached = span.limit(queue, state.next_offset(queue))
            if span.position[queue] < reached:
                await self._lose(self._gap(queue, span, reached, arrivals.lost_entry), span, after=after)
                span.position[queue] = reached

    async def _lose(self, lost: LostRange, span: Span, *, after: int) -> None:
        """Name wanted offsets that no entry after ``after`` has. Raises `ViewLost` when the log was trimmed meanwhile."""
        limit = span.limit(lost.queue, lost.limit_offset)
        if lost.first_offset >= limit or span.position[lost.queue] >= limit:
            return
        if (floor := await read_floor(self._store, self._paths)) > after:
            raise ViewLost(
                "the log was trimmed past this view", object=self._paths.log, expected=f"floor <= {after}", observed=floor
            )
        if not span.skip_damaged:
            raise _damaged(lost)
        span.left_out.append((lost.queue, max(lost.first_offset, span.position[lost.queue]), limit))

    def _gap(self, queue: int, span: Span, limit: int, entry: int) -> LostRange:
        return LostRange(queue, span.position[queue], limit, self._paths.entry(entry), "its entries cannot be read")

    async def _wait_past(self, entry: int) -> None:
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

    def _deleted(self) -> TopicDeleted:
        return TopicDeleted(
            "the topic was deleted", operation="read", object=self._paths.topic, hint="open it anew if it was created again"
        )


def _only(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    names = {name.partition(".")[0] for name in columns}
    return batch.select([name for name in batch.schema.names if name in names])


def _is_wanted(folded: FoldedEntry, span: Span) -> bool:
    return any(
        verdict[queue] + count > span.position[queue] and (span.limits is None or verdict[queue] < span.limits[queue])
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True)
        if not isinstance(verdict, VoidReason)
        for queue, count in batch.rows.items()
        if queue in span.position
    )


_NOT_IN_TABLE = "the table does not have all its rows"


def out_of_range(topic: str, queue: int, offset: int, there_is: str) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        "the queue has no such offset",
        operation="read",
        object=f"{topic}, queue {queue}",
        expected=there_is,
        observed=f"offset {offset}",
        hint="start at 'earliest', 'latest' or a time",
    )


def _damaged(lost: LostRange) -> DataDamaged:
    return DataDamaged(
        f"offsets {lost.first_offset} to {lost.limit_offset - 1} of queue {lost.queue} cannot be read any more: {lost.reason}",
        operation="read",
        object=lost.object,
        hint=f"start at {lost.limit_offset}, or read with damaged='skip'",
    )
