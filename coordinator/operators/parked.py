"""Parked message groups, and the message at which each stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from ...log.read.reader import Reader
from ..queues.cell import Marker, MessageState, QueueCell
from ..registry.failures import LastFailure

_TOGETHER_OFFSETS = 1000
"""The distance up to which heads are read together."""
_COLUMNS = ["offset", "message_id", "message_group", "tag", "store_timestamp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedGroup:
    """A message group that stands still at a message that used up its attempts, until an operator releases or skips it."""

    topic: str
    queue: int
    offset: int
    """The offset of the message."""
    attempts: int
    """The number of deliveries."""
    failed_attempts: int
    """The failed deliveries that count."""
    message_id: str | None
    """None, like the fields below, when the message is unreadable."""
    message_group: str | None
    """None for messages without a group, which are one group."""
    tag: str | None
    stored: datetime | None
    failure: LastFailure | None = None
    """Why the message failed last. None: not known."""


async def parked_in(
    topic: str, reader: Reader | None, cells: Sequence[QueueCell], failures: Iterable[LastFailure] = ()
) -> list[ParkedGroup]:
    """Sorted by queue and offset. ``reader`` is None for a topic that is gone."""
    whys = {(one.queue, one.offset): one for one in failures if one.topic == topic}
    stopped = {
        queue: sorted((one for one in cell.markers.values() if one.tries.state is MessageState.PARKED), key=lambda one: one.head)
        for queue, cell in enumerate(cells)
    }
    heads = {queue: [one.head for one in markers] for queue, markers in stopped.items() if markers}
    rows: dict[tuple[int, int], dict[str, object]] = {}
    if reader is not None and heads:
        await reader.offsets()  # what retention dropped by now is not told
        rows = await _rows_of(reader, heads)
    return [
        _parked(topic, queue, one, rows.get((queue, one.head), {}), whys.get((queue, one.head)))
        for queue, markers in stopped.items()
        for one in markers
    ]


def _parked(topic: str, queue: int, marker: Marker, row: dict[str, object], failure: LastFailure | None) -> ParkedGroup:
    stored = row.get("store_timestamp")
    return ParkedGroup(
        topic=topic,
        queue=queue,
        offset=marker.head,
        attempts=marker.tries.attempts,
        failed_attempts=marker.tries.strikes,
        message_id=_text(row.get("message_id")),
        message_group=_text(row.get("message_group")),
        tag=_text(row.get("tag")),
        stored=stored if isinstance(stored, datetime) else None,
        failure=failure,
    )


async def rows_at(reader: Reader, queue: int, heads: Sequence[int]) -> dict[int, dict[str, object]]:
    return {offset: row for (_, offset), row in (await _rows_of(reader, {queue: heads})).items()}


async def _rows_of(reader: Reader, heads: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], dict[str, object]]:
    wanted = {(queue, head) for queue, some in heads.items() for head in some}
    runs = {queue: _runs(some) for queue, some in heads.items()}
    found: dict[tuple[int, int], dict[str, object]] = {}
    for turn in range(max(map(len, runs.values()), default=0)):
        ranges = {queue: (some[turn][0], some[turn][1] + 1) for queue, some in runs.items() if turn < len(some)}
        async with aclosing(reader.ranges(ranges, columns=_COLUMNS)) as batches:
            async for batch in batches:
                found.update((at, row) for row in batch.to_pylist() if (at := (row["queue"], row["offset"])) in wanted)
    return found


def _runs(ascending: Sequence[int]) -> list[tuple[int, int]]:
    """The (first, last) of runs of close numbers."""
    runs: list[tuple[int, int]] = []
    for number in ascending:
        if runs and number - runs[-1][1] <= _TOGETHER_OFFSETS:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
