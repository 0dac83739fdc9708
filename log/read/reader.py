"""Reads a topic without a consumer group: old offsets from its Delta table, new ones from its log."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import pyarrow as pa

from ..errors import DataDamaged, InvalidArgument, MissingDependency
from ..filter.filters import check_filter, columns_read, filters_of, passing
from ..filter.tags import is_unicode
from ..limits import check_flag, plain, shown
from ..message.message import MessageView, to_us, views
from ..schema.topic_schema import TopicSchema
from ..stores.caching_store import CachingStore
from ..table.delta.lookup import Lookup, lookup
from ..table.delta.scan import GROUPS_AHEAD, offset_at
from ..table.delta.snapshot import Snapshot
from ..topic.topics import Topic
from .merged_rows import MergedRows, Span, out_of_range
from .message_search import MessageSearch, Ranges, SearchResult
from .projection import Projection, projection_of
from .tables import table_of

_STORE_TIMES_PER_QUEUE = 8

Position: TypeAlias = "int | datetime | Literal['earliest', 'latest']"
"""An offset, a store time, or one of the two ends."""


class ReadArguments(TypedDict, total=False):
    """The arguments of `Reader.to_arrow`."""

    queue: int | None
    start: Position
    end: Position
    tags: str | None
    where: str | None
    columns: list[str] | None
    damaged: Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Unreadable offsets of a queue, passed over on request."""

    queue: int
    first_offset: int
    limit_offset: int
    """Exclusive."""

    @property
    def messages(self) -> int:
        return self.limit_offset - self.first_offset


class Reader:
    """Reads a topic's messages without a consumer group: any queue, from any place. ``lake.reader`` makes it."""

    def __init__(self, topic: Topic, *, groups_ahead: int = GROUPS_AHEAD) -> None:
        """``groups_ahead``: see `scan_queue`."""
        self._topic = topic
        self._store = topic.store
        self._paths = topic.paths
        self._closed = asyncio.Event()
        self._rows = MergedRows(topic, self._closed, groups_ahead=groups_ahead)
        self._left_out: list[tuple[int, int, int]] = []

    def __repr__(self) -> str:
        return shown(self, f"of {self.topic}", "closed" if self._closed.is_set() else "")

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._paths.topic

    @property
    def queues(self) -> int:
        """The number of the topic's queues."""
        return self._topic.settings.queues

    @property
    def left_out(self) -> list[SkippedRange]:
        """The offsets passed over by ``damaged="skip"``, in order."""
        merged: list[SkippedRange] = []
        for queue, first, limit in sorted(self._left_out):
            if merged and merged[-1].queue == queue and first <= merged[-1].limit_offset:
                merged[-1] = SkippedRange(queue, merged[-1].first_offset, max(limit, merged[-1].limit_offset))
            else:
                merged.append(SkippedRange(queue, first, limit))
        return merged

    @property
    def _schema(self) -> TopicSchema | None:
        """The schema as far as this process has read."""
        return self._topic.tail.state.schema

    async def read(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        where: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Read messages as Arrow batches of ``columns`` of `MESSAGE_SCHEMA`, or all; within each queue by offset. A typed topic's also have the
        struct ``value``, or its named fields (``value.amount``). Batches have the schema of the call's time, with ``follow`` later ones as they come.

        ``queue=None`` reads all queues: the table queue by queue, then the log entry by entry. ``start`` is inclusive, ``end`` exclusive. A time
        means the first message stored at or after it; after a silence of more than a day store timestamps lag (docs/0001). ``follow=True`` does not
        end. ``tags`` is a filter such as ``paid || refunded``, ``where`` a condition on properties such as ``price > 10 AND region = 'north'``
        (docs/0012); both must hold.

        Raises `TopicDeleted`; `OffsetOutOfRange` for an offset older than the earliest kept, also when retention overtakes the reading, or beyond the
        next one; `DataDamaged`, naming object and offsets, for unreadable rows, after those before them. ``damaged="skip"`` leaves such rows out, and
        `left_out` has their offsets.
        """
        check_flag("follow", follow, operation="read")
        if follow and end != "latest":
            raise InvalidArgument("what follows a topic has no end", operation="read", observed=f"follow=True, end={end!r}")
        keep = filters_of(tags, where)
        skip_damaged = _checked_skip(damaged)
        queues = self._checked_queues(queue)
        snapshot, positions, limits = await self._rows.with_table(
            lambda snapshot: self._bounds(snapshot, queues, start, None if follow else end)
        )
        span = Span(
            position=positions,
            limits=limits,
            follow=follow,
            skip_damaged=skip_damaged,
            left_out=self._left_out,
            movable=start == "earliest" or isinstance(start, datetime),
        )
        schema = self._schema
        for one in keep:
            check_filter(one, schema)
        looked_at = columns_read(keep, typed=schema is not None)

        def asked_of(schema: TopicSchema | None) -> tuple[Projection, Projection]:
            wanted = projection_of(columns, schema)
            names = wanted.names if columns is None else columns
            return wanted, projection_of(sorted({*names, "queue", "offset", *looked_at}), schema)

        wanted, needed = asked_of(schema)
        source = self._rows.joined(snapshot, span, lambda: asked_of(self._schema if follow else schema)[1].stored)
        try:
            async for batch in source:
                if follow and self._schema is not schema:  # what came before is read with the schema of then
                    schema = self._schema
                    wanted, needed = asked_of(schema)
                batch = needed.shown(batch, where=self._paths.topic)
                batch = passing(batch, keep, schema)
                if batch.num_rows:
                    yield wanted.part(batch)
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
        where: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> AsyncGenerator[MessageView, None]:
        """The messages of `read`, one by one."""
        source = self.read(queue=queue, start=start, end=end, follow=follow, tags=tags, where=where, damaged=damaged)
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
        where: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> pa.Table:
        """All rows of `read` as one table, by queue and offset."""
        projection_of(columns, self._schema)  # what is wrong with them is said before they are joined with others
        names = None if columns is None else [*columns, *(name for name in ("queue", "offset") if name not in columns)]
        source = self.read(queue=queue, start=start, end=end, tags=tags, where=where, columns=names, damaged=damaged)
        batches = [batch async for batch in source]
        schema = batches[0].schema if batches else projection_of(names, self._schema).arrow
        table = pa.Table.from_batches(batches, schema).sort_by([("queue", "ascending"), ("offset", "ascending")])
        return table if columns is None else table.select(list(projection_of(columns, self._schema).names))

    async def to_pandas(self, **where: Unpack[ReadArguments]) -> Any:  # noqa: ANN401 - pandas is optional
        """All rows of `read` as a pandas DataFrame; ``properties`` is a dict in each row."""
        table = await self.to_arrow(**where)
        return await self._topic.runtime.offload(lambda: table.to_pandas(maps_as_pydicts="lossy"))

    async def to_polars(self, **where: Unpack[ReadArguments]) -> Any:  # noqa: ANN401 - polars is optional
        """All rows of `read` as a Polars DataFrame. Raises `MissingDependency`."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingDependency("Polars is not installed", operation="read", hint="pip install polars") from error
        table = await self.to_arrow(**where)
        return await self._topic.runtime.offload(lambda: pl.from_arrow(table))

    async def offsets(self) -> dict[int, tuple[int, int]]:
        """The earliest kept offset and the one after the last, by queue."""
        snapshot = await self._rows.refresh()
        following = self._topic.tail.state.next_offsets
        return {queue: (snapshot.start(queue), following[queue]) for queue in range(self.queues)}

    def table_bytes(self) -> dict[int, int]:
        """The bytes of each queue's table files, as of the last request."""
        files = table_of(self._topic).snapshot.files
        return {queue: sum(one.size_bytes for one in files.get(queue, ())) for queue in range(self.queues)}

    def known_offsets(self) -> dict[int, tuple[int, int]]:
        """`offsets` as far as this process has read, without a request."""
        return {queue: self.known_offsets_of(queue) for queue in range(self.queues)}

    def known_offsets_of(self, queue: int) -> tuple[int, int]:
        """`known_offsets` of one queue."""
        following = self._topic.tail.state.next_offset(queue)
        return min(table_of(self._topic).snapshot.start(queue), following), following

    async def resolve(self, position: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """The offset at which reading from a position would begin, by queue. Raises `InvalidArgument` and `OffsetOutOfRange`."""
        if queues is not None and (isinstance(queues, str | bytes) or not isinstance(queues, Sequence)):
            raise InvalidArgument(
                "queues are numbers in a list", operation="resolve", object=self._paths.topic, observed=plain(queues)
            )
        chosen = self._checked_queues(None) if queues is None else [one for queue in queues for one in self._checked_queues(queue)]
        return (await self._rows.with_table(lambda snapshot: self._bounds(snapshot, chosen, position, None)))[1]

    async def stored_at(self, offsets: Mapping[int, int]) -> dict[int, datetime]:
        """The store times of readable messages at these offsets."""
        known = self._topic.store_times
        found = {queue: at for queue, offset in offsets.items() if (at := known.get((queue, offset))) is not None}
        asked = {queue: offset for queue, offset in offsets.items() if queue not in found}
        if asked:
            read = await self._stored_at(asked)
            found |= read
            for queue, at in read.items():
                known[queue, offsets[queue]] = at
            for place in list(known)[: max(0, len(known) - _STORE_TIMES_PER_QUEUE * self.queues)]:
                del known[place]
        return found

    async def _stored_at(self, offsets: Mapping[int, int]) -> dict[int, datetime]:
        limits = {queue: offset + 1 for queue, offset in offsets.items() if self._checked_queues(queue)}
        span = Span(position=dict(offsets), limits=limits, skip_damaged=True, movable=True)
        snapshot = await self._rows.known(limits)
        source = self._rows.joined(snapshot, span, lambda: ["queue", "offset", "store_timestamp"])
        found: dict[int, datetime] = {}
        try:
            async for batch in source:
                found.update(zip(batch.column("queue").to_pylist(), batch.column("store_timestamp").to_pylist(), strict=True))
        finally:
            await source.aclose()
        return found

    async def lookup(
        self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None
    ) -> list[MessageView]:
        """The messages that match all given values, by queue and offset."""
        return list(views(self._paths.topic, await self.lookup_arrow(message_id=message_id, key=key, message_group=message_group)))

    async def lookup_arrow(
        self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None
    ) -> pa.Table:
        """The messages of `lookup` as rows with all columns."""
        for name, value in (("message_id", message_id), ("key", key), ("message_group", message_group)):
            _check_text(name, value)
        wanted = Lookup(message_id=message_id, key=key, message_group=message_group)
        table = await self._rows.with_table(lambda snapshot: self._found(snapshot, wanted))
        return table.sort_by([("queue", "ascending"), ("offset", "ascending")])

    async def ranges(self, offsets: Ranges, *, columns: list[str] | None = None) -> AsyncGenerator[pa.RecordBatch, None]:
        """The messages of these queues within ranges of offsets, in one pass over table and log. Each batch is of one queue.

        Expired and unreadable messages are left out; `left_out` names the latter. ``columns`` come with ``queue`` and ``offset``; None: all.
        """
        limits = {queue: end for queue, (_, end) in offsets.items()}
        snapshot, schema = await self._rows.known(limits), self._schema
        span = Span(
            position={queue: start for queue, (start, _) in offsets.items() if self._checked_queues(queue)},
            limits=limits,
            skip_damaged=True,
            left_out=self._left_out,
            movable=True,
        )
        wanted = projection_of(None if columns is None else sorted({*columns, "queue", "offset"}), schema)
        source = self._rows.joined(snapshot, span, lambda: wanted.stored)
        try:
            async for batch in source:
                yield wanted.shown(batch, where=self._paths.topic)
        finally:
            await source.aclose()

    def remember(self, bytes_max: int) -> None:
        """Cache parts of the table's files, at most so many bytes."""
        self._rows.files = CachingStore(self._store, bytes_max)

    async def find(self, wanted: Lookup, offsets: Ranges, *, limit: int, files: int, newest: bool = False) -> SearchResult:
        """The matching messages among these offsets: the first ``limit``, or with ``newest`` the last ones of each queue.

        At most so many ``files`` of the table are read. The result has the searched ranges.
        """

        async def of(snapshot: Snapshot) -> SearchResult:
            finding = MessageSearch(self._topic, self._rows, snapshot, wanted, limit=limit, files=files, newest=newest)
            return await finding.run({queue: span for queue, span in offsets.items() if self._checked_queues(queue)})

        return await self._rows.with_table(of)

    async def close(self) -> None:
        """Stop following, which ends the iterations."""
        self._closed.set()

    async def _found(self, snapshot: Snapshot, wanted: Lookup) -> pa.Table:
        found = [batch async for batch in lookup(self._rows.files, self._paths, snapshot, wanted, runtime=self._topic.runtime)]
        async for batch in self._rows.log(snapshot, self._behind_the_table(snapshot, range(self.queues))):
            found.append(batch.take(pa.array(wanted.matching(batch), pa.int64())))  # noqa: PERF401 - of an asynchronous generator
        shown = projection_of(None, self._schema)
        return pa.Table.from_batches([shown.shown(batch, where=self._paths.topic) for batch in found], shown.arrow)

    # --- Where to read ----------------------------------------------------------------------------------------------------------

    async def _bounds(
        self, snapshot: Snapshot, queues: list[int], start: Position, end: Position | None
    ) -> tuple[Snapshot, dict[int, int], dict[int, int] | None]:
        starts = {queue: await self._offset(snapshot, queue, start) for queue in queues}
        if end is None:
            return snapshot, starts, None
        return snapshot, starts, {queue: await self._offset(snapshot, queue, end, is_end=True) for queue in queues}

    async def _offset(self, snapshot: Snapshot, queue: int, position: Position, *, is_end: bool = False) -> int:
        earliest, following = snapshot.start(queue), self._topic.tail.state.next_offset(queue)
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
            raise out_of_range(self._paths.topic, queue, position, f"the earliest kept is {earliest}")
        if position > following and not is_end:
            raise out_of_range(self._paths.topic, queue, position, f"the next one to be written is {following}")
        return min(position, following) if is_end else position

    async def _offset_at(self, snapshot: Snapshot, queue: int, time_us: int) -> int:
        in_table = await offset_at(self._store, self._paths, snapshot, queue, -(-time_us // 1000), runtime=self._topic.runtime)
        if in_table is not None:
            return in_table
        following = self._topic.tail.state.next_offset(queue)
        async for batch in self._rows.log(snapshot, self._behind_the_table(snapshot, [queue])):
            stored = batch.column("store_timestamp").cast(pa.int64()).to_numpy()
            late = (stored >= time_us).nonzero()[0]
            if len(late):
                return int(batch.column("offset")[int(late[0])].as_py())
        return following

    def _behind_the_table(self, snapshot: Snapshot, queues: Sequence[int]) -> Span:
        following = self._topic.tail.state.next_offsets
        return Span(
            position={queue: snapshot.end(queue) for queue in queues},
            limits={queue: following[queue] for queue in queues},
            skip_damaged=True,
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


def not_seen(topic: Topic, left_out: Sequence[SkippedRange]) -> DataDamaged | None:
    """The error of a search that left out rows which may be put back, other than those that the table names as lost."""
    snapshot, name = table_of(topic).snapshot, topic.paths.topic
    for one in left_out:
        at = one.first_offset
        for first, limit in snapshot.lost(one.queue):
            at = limit if first <= at < limit else at
        if at < one.limit_offset:
            return DataDamaged(
                f"offsets {at} to {one.limit_offset - 1} of queue {one.queue} cannot be read, so it cannot be told whether these messages "
                "stand there",
                operation="look for messages",
                object=name,
                hint=f"`penstock verify {shlex.quote(name)}` names what is damaged: put it back as it was. Retention ends this too",
            )
    return None


def _checked_skip(damaged: object) -> bool:
    if damaged not in ("raise", "skip"):
        raise InvalidArgument(
            "what is to happen at damaged rows is not known", operation="read", expected="'raise' or 'skip'", observed=damaged
        )
    return damaged == "skip"


def _check_text(name: str, value: object) -> None:
    if value is not None and not is_unicode(value):
        raise InvalidArgument(
            f"{name} is not a text", operation="lookup", expected="a str of Unicode characters", observed=repr(value)
        )
