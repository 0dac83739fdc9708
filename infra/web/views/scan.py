"""The search of a topic for a page of messages, older or newer than a place, within bounds that do not depend on the topic's size.

Labels are found by the table's Bloom filters, all else in windows that grow while little is found, so a rare condition costs
few requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa

from ....log.errors import InvalidArgument
from ....log.filter.filters import Filter, check_filter, filters_of, passing
from ....log.message.message import views
from ....log.read.reader import Position, Reader
from ....log.runtime.runtime import Runtime
from ....log.schema.topic_schema import TopicSchema
from ....log.table.delta.lookup import Lookup
from .message_rows import LISTED_BODY_BYTES, MessageRow, row_of
from .positions import QUEUES_MAX

ROWS = 50
LOOKED_MAX = 20_000
"""The most messages that a page searches."""
FILES_MAX = 256
"""The most files of a label's search."""
FILES_AT_ONCE = 32
"""The files between two looks at the time."""
BYTES_MAX = 64 * 2**20
SECONDS_MAX = 4.0
_FIRST_ROWS = 800
"""The rows of all queues together; of each at most a page's."""
_GROWTH = 16
_REMEMBERED_BYTES = 16 * 2**20
_KEPT_ROWS = 1000
"""The most rows in memory."""

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageConditions:
    """Conditions, all of which hold; None is none."""

    queue: int | None = None
    key: str | None = None
    message_id: str | None = None
    message_group: str | None = None
    tag: str | None = None
    where: str | None = None

    @property
    def lookup(self) -> Lookup | None:
        if self.key is self.message_id is self.message_group is None:
            return None
        return Lookup(message_id=self.message_id, key=self.key, message_group=self.message_group)

    def filters(self, schema: TopicSchema | None) -> list[Filter]:
        """Filters for a topic with this schema. Raises `InvalidArgument`."""
        found = filters_of(self.tag, self.where) if self.tag is not None or self.where is not None else []
        for one in found:
            check_filter(one, schema)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExtent:
    """The kept part of the searched queues."""

    queues: int
    kept: Mapping[int, tuple[int, int]]
    """The earliest and next offset of each queue."""

    @property
    def earliest(self) -> Offsets:
        return {queue: start for queue, (start, _) in self.kept.items()}

    @property
    def next(self) -> Offsets:
        return {queue: end for queue, (_, end) in self.kept.items()}

    def clipped(self, offsets: Offsets) -> Offsets:
        """The nearest kept offsets. Other queues are at their end."""
        return {queue: min(max(offsets.get(queue, end), start), end) for queue, (start, end) in self.kept.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The outcome of a search."""

    rows: tuple[MessageRow, ...]
    older: Offsets
    """Older ones are before these."""
    newer: Offsets
    """Newer ones are from these on."""
    looked: int


async def extent(reader: Reader, queue: int | None, *, also: Collection[int] = ()) -> TopicExtent:
    """The searched part: one queue, or the fullest of very many and ``also``. Raises `InvalidArgument`."""
    offsets = await reader.offsets()
    if queue is not None:
        if queue not in offsets:
            raise InvalidArgument(
                "the topic has no such queue",
                operation="show messages",
                object=reader.topic,
                expected=f"0 to {len(offsets) - 1}",
                observed=queue,
            )
        return TopicExtent(queues=len(offsets), kept={queue: offsets[queue]})
    fullest = sorted(offsets, key=lambda one: (one not in also, offsets[one][0] - offsets[one][1], one))[:QUEUES_MAX]
    return TopicExtent(queues=len(offsets), kept={one: offsets[one] for one in sorted(fullest)})


async def resolve_position(reader: Reader, extent: TopicExtent, position: Position) -> Offsets:
    """Raises `InvalidArgument`, and `OffsetOutOfRange`."""
    if isinstance(position, int) and len(extent.kept) > 1:
        raise InvalidArgument(
            "an offset has a meaning in one queue only",
            operation="show messages",
            object=reader.topic,
            expected=f"a queue too, as the topic has {extent.queues} queues",
        )
    return await reader.resolve(position, queues=sorted(extent.kept))


@dataclass
class TopicScan:
    """One search of a topic."""

    reader: Reader
    schema: TopicSchema | None
    conditions: MessageConditions
    extent: TopicExtent
    runtime: Runtime
    rows_max: int = ROWS
    body_bytes: int = LISTED_BODY_BYTES
    _filters: list[Filter] = field(init=False)
    _fields: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._filters = self.conditions.filters(self.schema)
        self._fields = fields_of(self.schema)

    async def before(self, offsets: Offsets) -> ScanResult:
        """The newest messages before these offsets."""
        return await self._look(self.extent.clipped(offsets), older=True)

    async def after(self, offsets: Offsets) -> ScanResult:
        """The oldest messages from these offsets on."""
        return await self._look(self.extent.clipped(offsets), older=False)

    async def _look(self, begin: Offsets, *, older: bool) -> ScanResult:
        lookup = self.conditions.lookup
        end = self.extent.earliest if older else self.extent.next
        gathered = _Gathered(older, dict(begin), self.rows_max)
        if lookup is not None:
            await self._find(lookup, gathered, end)
        else:
            await self._windows(gathered, end)
        rows, at = gathered.page()
        looked = sum(abs(at[queue] - begin[queue]) for queue in begin)
        newest_first = tuple(sorted(rows, key=lambda one: one.order, reverse=True))
        return ScanResult(rows=newest_first, older=at if older else begin, newer=begin if older else at, looked=looked)

    async def _find(self, lookup: Lookup, gathered: _Gathered, end: Offsets) -> None:
        began_s, left = self.runtime.clock.monotonic_s(), FILES_MAX
        while (ranges := gathered.ranges(end)) and left > 0:
            wanted, files = max(1, self.rows_max - len(gathered.rows)), min(left, FILES_AT_ONCE)
            found = await self.reader.find(lookup, ranges, limit=wanted, files=files, newest=gathered.older)
            for batch in found.rows.to_batches():
                gathered.take(await self._matching(batch))
            gathered.reach({queue: start if gathered.older else limit for queue, (start, limit) in found.looked.items()})
            left -= files
            if len(gathered.rows) >= self.rows_max or self.runtime.clock.monotonic_s() - began_s > SECONDS_MAX:
                return

    async def _windows(self, gathered: _Gathered, end: Offsets) -> None:
        began_s, looked, size = self.runtime.clock.monotonic_s(), 0, 0
        self.reader.remember(_REMEMBERED_BYTES)  # windows meet in the middle of files
        width = max(4, min(self.rows_max, _FIRST_ROWS // max(1, len(end))))
        while ranges := gathered.ranges(end, width):
            window = replace(gathered, rows=[], untaken={})
            async for batch in self.reader.ranges(ranges):
                size += batch.nbytes
                if looked and (size > BYTES_MAX or self.runtime.clock.monotonic_s() - began_s > SECONDS_MAX):
                    return  # of a window that is not looked through to its end, nothing is told
                window.take(await self._matching(batch))
            gathered.join(window)
            gathered.reach({queue: start if gathered.older else limit for queue, (start, limit) in ranges.items()})
            count = sum(limit - start for start, limit in ranges.values())
            looked += count
            if not self._filters:
                gathered.level(end)
                return
            if len(gathered.rows) >= self.rows_max or looked >= LOOKED_MAX or size >= BYTES_MAX:
                return
            affordable = (BYTES_MAX - size) * looked // max(1, size)
            ahead = gathered.ranges(end, 1)
            width = max(1, min(_GROWTH * width, min(affordable, LOOKED_MAX - looked) // max(1, len(ahead))))

    async def _matching(self, batch: pa.RecordBatch) -> list[MessageRow]:
        """The matching messages, judged in a thread: a long condition on large messages takes seconds."""
        return await self.runtime.offload(lambda: self._judged(batch))

    def _judged(self, batch: pa.RecordBatch) -> list[MessageRow]:
        passed = passing(batch, self._filters, self.schema)
        return [row_of(one, self._fields, body_bytes=self.body_bytes) for one in views(self.reader.topic, passed)]


def fields_of(schema: TopicSchema | None) -> tuple[str, ...]:
    return () if schema is None else tuple(one.name for one in schema.live)


@dataclass
class _Gathered:
    older: bool
    at: dict[int, int]
    rows_max: int
    rows: list[MessageRow] = field(default_factory=list)
    untaken: dict[int, int] = field(default_factory=dict)
    """Each queue's nearest dropped offset: the page ends there."""

    def ranges(self, end: Offsets, width: int | None = None) -> dict[int, tuple[int, int]]:
        found = {}
        for queue, at in self.at.items():
            if self.older:
                start, limit = end[queue] if width is None else max(end[queue], at - width), at
            else:
                start, limit = at, end[queue] if width is None else min(end[queue], at + width)
            if start < limit:
                found[queue] = (start, limit)
        return found

    def take(self, rows: list[MessageRow]) -> None:
        self.rows += rows
        if len(self.rows) > max(_KEPT_ROWS, 4 * self.rows_max):
            self._trim()

    def join(self, other: _Gathered) -> None:
        for queue, offset in other.untaken.items():
            self._leave(queue, offset)
        self.take(other.rows)

    def reach(self, at: Offsets) -> None:
        self.at |= at

    def level(self, end: Offsets) -> None:
        """Drop rows beyond the part searched in all queues: others may lie between them."""
        short = {queue for queue, at in self.at.items() if at != end[queue]}
        stored: dict[int, list[datetime]] = {}
        for one in self.rows:
            if one.queue in short:
                stored.setdefault(one.queue, []).append(one.stored)
        if not stored:
            return
        edge = max(map(min, stored.values())) if self.older else min(map(max, stored.values()))
        beyond = [one for one in self.rows if (one.stored < edge if self.older else one.stored > edge)]
        for one in beyond:
            self._leave(one.queue, one.offset)
        self.rows = [one for one in self.rows if (one.stored >= edge if self.older else one.stored <= edge)]

    def page(self) -> tuple[list[MessageRow], Offsets]:
        self._trim()
        at = dict(self.at)
        for queue, offset in self.untaken.items():
            at[queue] = offset + 1 if self.older else offset
        return self.rows, at

    def _trim(self) -> None:
        self.rows.sort(key=lambda one: one.order, reverse=self.older)
        for one in self.rows[self.rows_max :]:
            self._leave(one.queue, one.offset)
        del self.rows[self.rows_max :]

    def _leave(self, queue: int, offset: int) -> None:
        nearest = max if self.older else min
        self.untaken[queue] = nearest(self.untaken.get(queue, offset), offset)
