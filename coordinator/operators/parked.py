"""Parked message groups, and the message at which each stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ...log.read.reader import Reader
from ..queues.cell import Marker, QueueCell, State

_TOGETHER_OFFSETS = 1000
"""The distance up to which heads are read in one go."""
_COLUMNS = ["offset", "message_id", "message_group", "tag", "store_timestamp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedGroup:
    """A message group that used up the attempts of a message, and stands still until an operator releases or skips it."""

    topic: str
    queue: int
    offset: int
    """The offset of the message at which it stopped."""
    attempts: int
    """The number of deliveries of that message."""
    strikes: int
    """The number of these deliveries that failed and count."""
    message_id: str | None
    """The message's id. It and the fields below are None when the message cannot be read any more."""
    message_group: str | None
    """The message group; also None for messages without a group, which are one group."""
    tag: str | None
    stored: datetime | None


async def parked_in(topic: str, reader: Reader | None, cells: Sequence[QueueCell]) -> list[ParkedGroup]:
    """The parked message groups of a topic's cells, by queue and offset. ``reader`` is None for a topic that is gone."""
    found: list[ParkedGroup] = []
    for queue, cell in enumerate(cells):
        markers = sorted(
            (marker for marker in cell.markers.values() if marker.tries.state is State.PARKED), key=lambda marker: marker.head
        )
        rows = {} if reader is None or not markers else await rows_at(reader, queue, [marker.head for marker in markers])
        found += [_parked(topic, queue, marker, rows.get(marker.head, {})) for marker in markers]
    return found


def _parked(topic: str, queue: int, marker: Marker, row: dict[str, object]) -> ParkedGroup:
    stored = row.get("store_timestamp")
    return ParkedGroup(
        topic=topic,
        queue=queue,
        offset=marker.head,
        attempts=marker.tries.attempts,
        strikes=marker.tries.strikes,
        message_id=_text(row.get("message_id")),
        message_group=_text(row.get("message_group")),
        tag=_text(row.get("tag")),
        stored=stored if isinstance(stored, datetime) else None,
    )


async def rows_at(reader: Reader, queue: int, heads: Sequence[int]) -> dict[int, dict[str, object]]:
    """The messages at these ascending offsets, as far as they can be read."""
    earliest = (await reader.offsets())[queue][0]
    kept = [head for head in heads if head >= earliest]
    wanted, found = set(kept), dict[int, dict[str, object]]()
    for first, last in _runs(kept):
        source = reader.read(queue=queue, start=first, end=last + 1, columns=_COLUMNS, damaged="skip")
        try:
            async for batch in source:
                found.update((row["offset"], row) for row in batch.to_pylist() if row["offset"] in wanted)
        finally:
            await source.aclose()
    return found


def _runs(ascending: Sequence[int]) -> list[tuple[int, int]]:
    """The (first, last) of runs of numbers that are close together."""
    runs: list[tuple[int, int]] = []
    for number in ascending:
        if runs and number - runs[-1][1] <= _TOGETHER_OFFSETS:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
