"""Describes a topic as seen from outside: settings, offsets, and where its load lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .limits import shown
from .message.message import from_ms, from_us
from .read.reader import Reader
from .topic.settings import TopicSettings
from .topic.topics import Topic

SAMPLE_MESSAGES = 10_000
HOTTEST = 5
SLOTS = 40


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """One queue of a topic."""

    queue: int
    earliest: int
    next: int
    sampled: int
    table_bytes: int = 0
    """The bytes in the table; rows of the log alone are not counted."""


@dataclass(frozen=True, slots=True)
class StoredOverTime:
    """The messages stored in each of `SLOTS` slots of equal length."""

    start: datetime
    end: datetime
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic at one moment."""

    name: str
    settings: TopicSettings
    created: datetime
    entries: int
    last_stored: datetime | None
    queues: tuple[QueueDescription, ...]
    named_producers: dict[str, int]
    """The last sequence of each producer seen within 30 days."""
    sampled: int
    """The number of the newest messages that figures on skew are based on."""
    hottest_groups: tuple[tuple[str, int], ...]
    over_time: StoredOverTime | None
    """The messages since the moment from which the sample is complete. None where they are too few, or of one moment."""
    idempotent_producers: int = 0
    """The pairs of idempotent producer and queue whose retries are known: at most 10,000, of about the last 15 minutes."""

    def __repr__(self) -> str:
        return shown(self, f"of {self.name}", self.settings.message_type, f"queues {len(self.queues)}", f"messages {self.messages}")

    @property
    def hottest_queues(self) -> tuple[QueueDescription, ...]:
        return tuple(sorted(self.queues, key=lambda one: -one.sampled)[:HOTTEST])

    @property
    def table_bytes(self) -> int:
        return sum(one.table_bytes for one in self.queues)

    @property
    def messages(self) -> int:
        return sum(one.next - one.earliest for one in self.queues)


async def describe(topic: Topic, reader: Reader) -> TopicDescription:
    """Fold up to the end, and count queues and message groups over the newest messages."""
    offsets, sizes = await reader.offsets(), reader.table_bytes()
    state = topic.tail.state
    total = sum(following - earliest for earliest, following in offsets.values())
    groups: Counter[str] = Counter()
    sampled: Counter[int] = Counter()
    times_us: list[npt.NDArray[np.int64]] = []
    whole_from_us = 0
    ranges = {}
    for queue, (earliest, following) in offsets.items():
        # Each queue gives its share of the sample, so that a hot queue's groups weigh as they do in the topic.
        share = -(-(following - earliest) * min(SAMPLE_MESSAGES, total) // total) if total else 0
        ranges[queue] = (max(earliest, following - share), following)
    async with aclosing(reader.ranges(ranges, columns=["message_group", "store_timestamp"])) as batches:
        async for batch in batches:
            queue = batch.column("queue")[0].as_py()
            times_us.append(batch.column("store_timestamp").cast(pa.int64()).to_numpy())
            if not sampled[queue] and ranges[queue][0] > offsets[queue][0]:
                whole_from_us = max(whole_from_us, int(times_us[-1][0]))
            sampled[queue] += batch.num_rows
            groups.update(group for group in batch.column("message_group").to_pylist() if group is not None)
    return TopicDescription(
        name=topic.paths.topic,
        settings=topic.settings,
        created=from_ms(topic.record.created_ms),
        entries=state.entry,
        last_stored=from_ms(state.store_time_ms) if state.store_time_ms else None,
        queues=tuple(QueueDescription(queue, *offsets[queue], sampled[queue], sizes[queue]) for queue in sorted(offsets)),
        named_producers={name: row.last for name, row in state.named.items()},
        sampled=sampled.total(),
        hottest_groups=tuple(groups.most_common(HOTTEST)),
        over_time=stored_over_time(times_us, whole_from_us),
        idempotent_producers=len(state.idempotent),
    )


def stored_over_time(times_us: Sequence[npt.NDArray[np.int64]], from_us_on: int) -> StoredOverTime | None:
    """The messages since a moment. None where they are too few, or of one moment."""
    times = np.concatenate([np.empty(0, np.int64), *times_us])
    times = times[times >= from_us_on]
    if len(times) < 2 or times.min() == times.max():
        return None
    counts, _ = np.histogram(times, bins=SLOTS, range=(int(times.min()), int(times.max())))
    return StoredOverTime(from_us(int(times.min())), from_us(int(times.max())), tuple(map(int, counts)))
