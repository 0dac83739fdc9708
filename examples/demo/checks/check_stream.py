"""Checks whether the topic holds every event of the capture exactly once, with the events of every row in order.

The comparison of the tables alone would not tell: only a row's last event shows there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .capture import Event, Position, event_of, query_table

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class StreamDifference:
    """The result of a check. All is well when `equal`."""

    expected: int
    """The number of events of the capture."""
    found: int
    """The number of messages of the topic."""
    missing: int
    doubled: int
    """The number of messages beyond the first of an event."""
    foreign: int
    """The number of messages that are no event of the capture, byte for byte."""
    out_of_order: int
    """The number of messages that come after a later event of their row, or in a queue that does not follow the one before."""
    examples: tuple[str, ...]
    """A few of these messages, in words."""

    @property
    def equal(self) -> bool:
        """Whether no event is missing, doubled, foreign or out of order."""
        return not (self.missing or self.doubled or self.foreign or self.out_of_order)


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of the topic, in the order of queue and offset."""

    queue: int
    offset: int
    event: Event


def compare_stream(capture: Iterable[Event], stored: Iterable[Stored], *, queues: int) -> StreamDifference:
    """Compare the events of a capture, in its order, with the messages of a topic, in the order of (queue, offset). The topic began with so many
    ``queues``: as it grows, a row's events go on in a later queue of the same remainder.
    """
    line_of: dict[Position, tuple[int, bytes]] = {event.position: (line, event.body) for line, event in enumerate(capture)}
    seen: Counter[Position] = Counter()
    last_of_row: dict[tuple[str, str], tuple[int, int]] = {}
    foreign = out_of_order = found = 0
    examples: list[str] = []
    for message in stored:
        found += 1
        event = message.event
        place = f"queue {message.queue}, offset {message.offset}"
        line, body = line_of.get(event.position, (-1, b""))
        if body != event.body:
            foreign += 1
            examples.append(f"foreign: {place}")
            continue
        seen[event.position] += 1
        if seen[event.position] > 1:
            examples.append(f"doubled: {place}, event {line + 1}")
            continue
        before_line, before_queue = last_of_row.get(event.row, (-1, message.queue))
        if line < before_line or (message.queue - before_queue) % queues:
            out_of_order += 1
            examples.append(f"out of order: {place}, event {line + 1} after event {before_line + 1}")
        last_of_row[event.row] = max(line, before_line), message.queue
    missing = [line for position, (line, _) in line_of.items() if position not in seen]
    return StreamDifference(
        expected=len(line_of),
        found=found,
        missing=len(missing),
        doubled=seen.total() - len(seen),
        foreign=foreign,
        out_of_order=out_of_order,
        examples=(*(f"missing: event {line + 1}" for line in missing[:_EXAMPLES]), *examples[:_EXAMPLES]),
    )


def read_topic(url: str, storage_options: Mapping[str, str] | None = None) -> Iterator[Stored]:
    """The messages of a topic's Delta table, by (queue, offset), read without Spark. An absent table has none."""
    table = query_table(url, 'select queue, "offset", body from t order by queue, "offset"', storage_options)
    if table is None:
        return
    for batch in table.to_batches(max_chunksize=10_000):
        for queue, offset, body in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Stored(queue, offset, event_of(body))
