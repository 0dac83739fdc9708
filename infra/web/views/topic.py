"""One topic: settings, queues, load, and each group's distance to retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ....aio import Lake
from ....log.errors import InvalidArgument, TopicNotFound
from ...operating.topics import StoredTopic, topic_of
from ..faults import PagePart
from ..lakes.source import LakeSnapshot
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest

QUEUES_SHOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositionRow:
    """A group's place between the oldest kept message and the topic's end."""

    group: str
    kept: int
    """Kept messages in the queues that the group has begun."""
    done: int
    """Done messages, which retention drops without loss."""
    lag: int
    lag_time: timedelta | None
    lost: int
    """Messages that retention dropped ahead of the group."""
    left: timedelta | None
    """The time until retention drops a message that the group lacks. None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """The content of the page."""

    topic: str
    stored: PagePart[StoredTopic]
    positions: PagePart[tuple[GroupPositionRow, ...]]
    waiting_timers: int


async def gather(context: PageContext, request: PageRequest) -> TopicPage:
    name = request["topic"]
    stored = await context.part(lambda lake: topic_of(lake, name, queues=QUEUES_SHOWN), fatal=(TopicNotFound, InvalidArgument))
    retention = None if stored.value is None else stored.value.settings.retention

    async def positions(lake: Lake) -> tuple[GroupPositionRow, ...]:
        looked = await context.source.look()
        offsets = await (await lake.reader(name)).offsets()
        return positions_of(looked, name, offsets, retention)

    timers = await context.part(lambda _: context.source.look())
    return TopicPage(
        topic=name,
        stored=stored,
        positions=await context.part(positions),
        waiting_timers=0 if timers.value is None else timers.value.seen.timers.get(name, 0),
    )


def positions_of(
    looked: LakeSnapshot, topic: str, offsets: dict[int, tuple[int, int]], retention: timedelta | None
) -> tuple[GroupPositionRow, ...]:
    """The shortest time left first."""
    found = []
    for seen in looked.topic(topic):
        kept = done = lost = lag = 0
        for one in seen.queues:
            earliest, following = offsets.get(one.progress.queue, (0, 0))
            kept += following - earliest
            # Lag counts what waits for a retry or is parked, too, though it lies before the floor.
            done += max(min(one.progress.next_offset or 0, following) - earliest - one.progress.lag, 0)
            lost += max(earliest - one.progress.committed_offset, 0)
            lag += one.progress.lag
        ages = [one.lag_ms for one in seen.queues if one.lag_ms is not None]
        lag_time = timedelta(milliseconds=max(ages)) if ages else None
        left = None if retention is None or not lag or lag_time is None else max(retention - lag_time, timedelta())
        found.append(GroupPositionRow(group=seen.group, kept=kept, done=done, lag=lag, lag_time=lag_time, lost=lost, left=left))
    return tuple(sorted(found, key=lambda one: (one.left is None, one.left or timedelta(), -one.lag, one.group)))


def live(shown: TopicPage) -> dict[str, object]:
    found: dict[str, object] = {}
    if shown.stored.value is not None:
        found["messages"] = shown.stored.value.messages
        found["last_stored"] = shown.stored.value.last_stored
        found |= {f"next:{one.queue}": one.next for one in shown.stored.value.queues}
    for one in shown.positions.value or ():
        found |= {f"lag:{one.group}": one.lag, f"lag_time:{one.group}": one.lag_time}
    return found


PAGE = PageDefinition(
    name="topic",
    path="/topics/{topic}",
    title="Topic {topic}",
    about="Settings, queues, where the load lies, and each group's position beside what retention keeps.",
    shows=TopicPage,
    gather=gather,
    command=lambda request: ["topic", "describe", request["topic"]],
    crumbs=lambda request: [Breadcrumb("Topics", "topics")],
    live=live,
)
