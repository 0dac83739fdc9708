"""Messages of a topic as a file of JSON lines, within bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ....aio import Lake
from ....log.errors import PenstockError
from ....log.filter.filters import Filter, passing
from ....log.message.message import views
from ....log.read.reader import Reader
from ....log.runtime.runtime import Runtime
from ....log.schema.topic_schema import TopicSchema
from ....log.table.delta.lookup import Lookup
from ...json_values import json_value
from ...operating.messages import message_document
from ...terminal.output import json_line
from ..faults import ErrorReport
from .messages import AFTER, CONDITIONS, START, conditions_of
from .page import Download, DownloadContent, PageContext, PageRequest
from .positions import cursor_of, cursor_text, position_of
from .scan import Offsets, TopicExtent, extent, resolve_position

LINES_MAX = 10_000
LINES_BYTES_MAX = 64 * 2**20
LOOKED_MAX = 1_000_000
"""The most messages that a download searches."""
SECONDS_MAX = 60.0
_FILES_MAX = 64
_FOUND_AT_ONCE = 200


@dataclass
class MessageLines:
    """Messages as JSON lines, the oldest first in each queue. A last line marks a bound, and the place to go on from."""

    reader: Reader
    schema: TopicSchema | None
    lookup: Lookup | None
    """The Bloom filters' part; None: all messages are read."""
    filters: Sequence[Filter]
    extent: TopicExtent
    at: dict[int, int]
    """Each queue's next offset."""
    runtime: Runtime

    @staticmethod
    async def of(lake: Lake, topic: str, request: PageRequest, runtime: Runtime) -> MessageLines:
        """The lines of a request, checked. Raises `InvalidArgument`, `TopicNotFound` and `OffsetOutOfRange`."""
        reader, conditions, schema = await lake.reader(topic), conditions_of(request), await lake.topic_schema(topic)
        filters = conditions.filters(schema)
        seen = await extent(reader, conditions.queue)
        start, after = request.text("start"), request.text("after")
        begin: Offsets = seen.earliest
        if after is not None:
            begin = seen.clipped(cursor_of(after))
        elif start is not None:
            begin = await resolve_position(reader, seen, position_of(start, operation="download"))
        return MessageLines(reader, schema, conditions.lookup, filters, seen, dict(begin), runtime)

    async def text(self) -> AsyncIterator[str]:
        until_s, count, size, looked = self.runtime.clock.monotonic_s() + SECONDS_MAX, 0, 0, 0
        async for rows, behind in self._parts():
            matching = await self.runtime.offload(partial(passing, rows, self.filters, self.schema))  # it may take seconds
            for message in views(self.reader.topic, matching):
                line = json_line(message_document(message))
                count, size = count + 1, size + len(line)
                yield line
                if count >= LINES_MAX or size >= LINES_BYTES_MAX:
                    self.at[message.queue] = message.offset + 1
                    if self._left:
                        yield self._go_on(count)
                    return
            looked += sum(at - self.at[queue] for queue, at in behind.items())
            self.at |= behind
            if (looked >= LOOKED_MAX or self.runtime.clock.monotonic_s() > until_s) and self._left:
                yield self._go_on(count)
                return

    def _go_on(self, count: int) -> str:
        return json_line({"not_complete": True, "messages": count, "after": cursor_text(self.at)})

    async def _parts(self) -> AsyncIterator[tuple[pa.RecordBatch | pa.Table, Offsets]]:
        if self.lookup is None:
            async for batch in self.reader.ranges(self._left):
                yield batch, {batch.column("queue")[0].as_py(): batch.column("offset")[batch.num_rows - 1].as_py() + 1}
            return
        while left := self._left:
            found = await self.reader.find(self.lookup, left, limit=_FOUND_AT_ONCE, files=_FILES_MAX)
            for queue, (_, end) in found.looked.items():
                yield found.rows.filter(pc.equal(found.rows["queue"], queue)), {queue: end}

    @property
    def _left(self) -> dict[int, tuple[int, int]]:
        return {queue: (at, self.extent.next[queue]) for queue, at in self.at.items() if at < self.extent.next[queue]}


async def gather(context: PageContext, request: PageRequest) -> DownloadContent:
    name, runtime = request["topic"], context.source.runtime
    found = await context.using(lambda lake: MessageLines.of(lake, name, request, runtime))
    return DownloadContent(f"{name}.jsonl", _encoded(found))


async def _encoded(found: MessageLines) -> AsyncIterator[bytes]:
    try:
        async for line in found.text():
            yield line.encode("utf-8", "backslashreplace")
    except PenstockError as error:
        yield json_line({"not_complete": True, "error": json_value(ErrorReport.of(error))}).encode()


DOWNLOAD = Download(
    name="lines",
    path="/topics/{topic}/messages.jsonl",
    about="Messages as JSON lines, oldest first in each queue, at most 10,000; a last line says where to go on if there are more.",
    parameters=(*CONDITIONS, START, AFTER),
    gather=gather,
)
