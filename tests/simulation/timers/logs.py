"""A topic's log as it ever was: which message stands where in which life of the topic, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from penstock.coordinator.timers.cell.state import DuePosition
from penstock.log.format.entry import read_header
from penstock.log.format.fold import fold
from penstock.log.format.header import Created, Deleted
from penstock.log.format.state import TopicState
from penstock.log.limits import STORE_TIME_STEP_MAX_MS
from penstock.log.paths import TopicPaths
from tests.rows import entry_rows
from tests.simulation.log.history import Archive, Past


class Row(NamedTuple):
    """A message in a log."""

    queue: int
    offset: int
    message_id: str
    message_group: str | None
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes
    born_us: int
    store_us: int
    due_us: int
    producer: str
    landed_ms: int
    """When its entry came to be, by the store's clock."""
    lags: bool
    """Whether its store time is a day after that of the entry before, the most that it may go on by: after a longer silence it lags."""

    @property
    def due(self) -> DuePosition:
        """As a timer log's row."""
        return DuePosition(self.due_us, self.offset)


@dataclass(slots=True)
class Life:
    """A topic from its creation to its deletion."""

    incarnation: str
    rows: list[Row] = field(default_factory=list)
    """In the order of entries; those of one queue in theirs."""
    ended_ms: int | None = None
    """When it was deleted."""


_COLUMNS = (
    "queue", "offset", "message_id", "message_group", "tag", "keys", "properties", "body", "born_timestamp", "store_timestamp",
    "delivery_timestamp", "producer",
)  # fmt: skip
_TIMES = ("born_timestamp", "store_timestamp", "delivery_timestamp")


class Log:
    """All lives of a topic, from every entry that ever was. It goes on from where it was read to before."""

    def __init__(self, archive: Archive, paths: TopicPaths) -> None:
        self._archive = archive
        self._paths = paths
        self._state = TopicState()
        self.lives: list[Life] = []

    async def read(self) -> list[Life]:
        past = Past(self._archive)
        while (stored := self._archive.first.get(where := self._paths.entry(self._state.entry + 1))) is not None:
            folded = fold(self._state, read_header(stored.data, where=where), where=where)
            before, self._state = self._state, folded.state
            for action in folded.header.actions:
                if isinstance(action, Created) and folded.state.created_entry == folded.number:
                    self.lives.append(Life(folded.state.incarnation))
                elif isinstance(action, Deleted) and before.alive and not folded.state.alive:
                    self.lives[-1].ended_ms = stored.last_modified_ms
            if any(folded.verdicts):
                table = (await entry_rows(past, self._paths, folded, stored.data)).table
                step_ms = folded.state.store_time_ms - before.store_time_ms
                self.lives[-1].rows += _rows(table, stored.last_modified_ms, lags=step_ms == STORE_TIME_STEP_MAX_MS)
        return self.lives


def _rows(table: pa.Table, landed_ms: int, *, lags: bool) -> Iterator[Row]:
    table = table.select(_COLUMNS)
    for name in _TIMES:
        table = table.set_column(table.column_names.index(name), name, table[name].cast("int64"))
    for row in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
        queue, offset, message_id, group, tag, keys, properties, body, born_us, store_us, due_us, producer = row
        labels = (tag, tuple(keys or ()), dict(properties or ()))
        times = (born_us, store_us, -1 if due_us is None else due_us)
        yield Row(queue, offset, message_id, group, *labels, body, *times, producer, landed_ms, lags)
