"""Describes a topic as seen from outside: settings, offsets, and where its load lies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from .message.message import from_ms
from .read.reader import Reader
from .topic.settings import TopicSettings
from .topic.topics import Topic

SAMPLE_MESSAGES = 10_000
HOTTEST = 5


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """One queue of a topic."""

    queue: int
    earliest: int
    """The first offset that is kept."""
    next: int
    """The offset of the next message."""
    sampled: int
    """Its share of the sample, in messages."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic at one moment."""

    name: str
    settings: TopicSettings
    created: datetime
    entries: int
    """Number of the log's last entry."""
    last_stored: datetime | None
    """Store time of that entry."""
    queues: tuple[QueueDescription, ...]
    named_producers: dict[str, int]
    """Producers seen within 30 days, with the last sequence accepted of each."""
    sampled: int
    """The number of the newest messages on which the figures on skew are based."""
    hottest_groups: tuple[tuple[str, int], ...]
    """The message groups with most messages in the sample."""

    @property
    def hottest_queues(self) -> tuple[QueueDescription, ...]:
        """The queues with most messages in the sample."""
        return tuple(sorted(self.queues, key=lambda one: -one.sampled)[:HOTTEST])

    @property
    def messages(self) -> int:
        """The number of messages that are kept."""
        return sum(one.next - one.earliest for one in self.queues)


async def describe(topic: Topic, reader: Reader) -> TopicDescription:
    """Fold up to the end, and count queues and message groups over the newest messages, by store time as far as offsets tell."""
    offsets = await reader.offsets()
    state = topic.tail.state
    total = sum(following - earliest for earliest, following in offsets.values())
    groups: Counter[str] = Counter()
    sampled: Counter[int] = Counter()
    for queue, (earliest, following) in offsets.items():
        # Each queue gives its share of the sample, so that a hot queue's groups weigh as they do in the topic.
        share = -(-(following - earliest) * min(SAMPLE_MESSAGES, total) // total) if total else 0
        async for batch in reader.read(
            queue=queue, start=max(earliest, following - share), columns=["message_group"], damaged="skip"
        ):
            sampled[queue] += batch.num_rows
            groups.update(group for group in batch.column("message_group").to_pylist() if group is not None)
    return TopicDescription(
        name=topic.paths.topic,
        settings=topic.settings,
        created=from_ms(topic.record.created_ms),
        entries=state.entry,
        last_stored=from_ms(state.store_time_ms) if state.store_time_ms else None,
        queues=tuple(QueueDescription(queue, *offsets[queue], sampled[queue]) for queue in sorted(offsets)),
        named_producers={name: row.last for name, row in state.named.items()},
        sampled=sampled.total(),
        hottest_groups=tuple(groups.most_common(HOTTEST)),
    )
