"""One topic: settings, queues, where its load lies, and how far each group is from what retention drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....aio import Lake
from ....log.describe import TopicDescription
from ....log.errors import InvalidArgument, TopicNotFound
from ....log.format.state import SchemaVersion
from ....log.message.message import from_ms
from ....log.schema.topic_schema import TopicSchema
from ..faults import PagePart
from ..lakes.source import LakeSnapshot
from .charts import steps
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest

QUEUES_SHOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue of the topic."""

    queue: int
    earliest: int
    next: int
    messages: int
    table_bytes: int
    """The size of its files in the table."""
    share: float | None
    """Its part of the messages stored last, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotGroupRow:
    """A message group with many of the messages stored last."""

    message_group: str
    messages: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """A version of the topic's schema."""

    version: int
    since: datetime
    changes: tuple[str, ...]
    """What it changed, in words; empty for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The topic as it is stored."""

    message_type: str
    retention: timedelta | None
    retention_bytes: int | None
    iceberg: bool
    body_bytes_max: int
    created: datetime
    last_stored: datetime | None
    entries: int
    messages: int
    table_bytes: int
    """The size of the files of the topic's table. What only the log has yet is not counted."""
    schema_version: int | None
    schema_sql: str | None
    schema_history: tuple[SchemaRow, ...]
    """The versions of the schema, the newest first; the last 100 are remembered."""
    queues_total: int
    queues: tuple[QueueRow, ...]
    """All queues, or the hottest of very many."""
    hottest_groups: tuple[HotGroupRow, ...]
    sampled: int
    """The number of the newest messages that shares are of."""
    stored_over_time: tuple[int, ...]
    """The messages stored in equal slots from ``stored_from`` to ``stored_to``."""
    stored_from: datetime | None
    stored_to: datetime | None
    stored_line: str
    """Points of an SVG polyline of ``stored_over_time``, in a box of 240 by 48."""
    named_producers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositionRow:
    """The place of a group between the oldest message that is kept and the end of the topic."""

    group: str
    kept: int
    """The messages that are kept, in the queues that the group has begun."""
    done: int
    """The part of them that the group is done with: retention may drop them without loss to the group."""
    lag: int
    age: timedelta | None
    lost: int
    """The messages that retention dropped before the group's floors were there."""
    left: timedelta | None
    """The time until retention drops the oldest message that the group lacks. None: it lacks none, or nothing is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """What the page shows."""

    topic: str
    stored: PagePart[StoredTopic]
    positions: PagePart[tuple[GroupPositionRow, ...]]
    waiting_timers: int


async def gather(scene: PageContext, asked: PageRequest) -> TopicPage:
    name = asked["topic"]
    stored = await scene.part(lambda lake: _stored(lake, name), fatal=(TopicNotFound, InvalidArgument))
    retention = None if stored.value is None else stored.value.retention

    async def positions(lake: Lake) -> tuple[GroupPositionRow, ...]:
        looked = await scene.source.look()
        offsets = await (await lake.reader(name)).offsets()
        return positions_of(looked, name, offsets, retention)

    timers = await scene.part(lambda _: scene.source.look())
    return TopicPage(
        topic=name,
        stored=stored,
        positions=await scene.part(positions),
        waiting_timers=0 if timers.value is None else timers.value.seen.timers.get(name, 0),
    )


async def _stored(lake: Lake, name: str) -> StoredTopic:
    found, schema = await lake.describe_topic(name), await lake.topic_schema(name)
    return stored_of(found, schema, () if schema is None else await lake.schema_history(name))


def stored_of(found: TopicDescription, schema: TopicSchema | None, versions: Sequence[SchemaVersion] = ()) -> StoredTopic:
    """A topic's description as the page shows it."""
    queues = found.queues if len(found.queues) <= QUEUES_SHOWN else found.hottest_queues
    over_time = found.over_time
    return StoredTopic(
        message_type=str(found.settings.message_type),
        retention=found.settings.retention,
        retention_bytes=found.settings.retention_bytes,
        iceberg=found.settings.iceberg,
        body_bytes_max=found.settings.limits.body_bytes,
        created=found.created,
        last_stored=found.last_stored,
        entries=found.entries,
        messages=found.messages,
        table_bytes=found.table_bytes,
        schema_version=None if schema is None else schema.version,
        schema_sql=None if schema is None else schema.ddl,
        schema_history=tuple(
            SchemaRow(version=one.version, since=from_ms(one.time_ms), changes=one.changes) for one in reversed(versions)
        ),
        queues_total=len(found.queues),
        queues=tuple(
            QueueRow(
                queue=one.queue,
                earliest=one.earliest,
                next=one.next,
                messages=one.next - one.earliest,
                table_bytes=one.table_bytes,
                share=one.sampled / found.sampled if found.sampled else None,
            )
            for one in queues
        ),
        hottest_groups=tuple(
            HotGroupRow(message_group=name, messages=count, share=count / found.sampled) for name, count in found.hottest_groups
        ),
        sampled=found.sampled,
        stored_over_time=() if over_time is None else tuple(over_time.counts),
        stored_from=None if over_time is None else over_time.start,
        stored_to=None if over_time is None else over_time.end,
        stored_line="" if over_time is None else steps(over_time.counts),
        named_producers=len(found.named_producers),
    )


def positions_of(
    looked: LakeSnapshot, topic: str, offsets: dict[int, tuple[int, int]], retention: timedelta | None
) -> tuple[GroupPositionRow, ...]:
    """The groups on a topic by the time that is left to them, the shortest first."""
    found = []
    for seen in looked.topic(topic):
        kept = done = lost = lag = 0
        for one in seen.queues:
            earliest, following = offsets.get(one.standing.queue, (0, 0))
            kept += following - earliest
            # Lag counts what waits for a retry or is parked, too, though it lies before the floor.
            done += max(min(one.standing.next_offset or 0, following) - earliest - one.standing.lag, 0)
            lost += max(earliest - one.standing.floor, 0)
            lag += one.standing.lag
        ages = [one.lag_ms for one in seen.queues if one.lag_ms is not None]
        age = timedelta(milliseconds=max(ages)) if ages else None
        left = None if retention is None or not lag or age is None else max(retention - age, timedelta())
        found.append(GroupPositionRow(group=seen.group, kept=kept, done=done, lag=lag, age=age, lost=lost, left=left))
    return tuple(sorted(found, key=lambda one: (one.left is None, one.left or timedelta(), -one.lag, one.group)))


def live(shown: TopicPage) -> dict[str, object]:
    found: dict[str, object] = {}
    if shown.stored.value is not None:
        found["messages"] = shown.stored.value.messages
        found["last_stored"] = shown.stored.value.last_stored
        found |= {f"next:{one.queue}": one.next for one in shown.stored.value.queues}
    for one in shown.positions.value or ():
        found |= {f"lag:{one.group}": one.lag, f"age:{one.group}": one.age}
    return found


def _crumbs(_: PageRequest) -> Sequence[Breadcrumb]:
    return [Breadcrumb("Topics", "topics")]


PAGE = PageDefinition(
    name="topic",
    path="/topics/{topic}",
    title="Topic {topic}",
    about="Settings, queues, where the load lies, and each group's position beside what retention keeps.",
    shows=TopicPage,
    gather=gather,
    command=lambda asked: ["topic", "describe", asked["topic"]],
    crumbs=_crumbs,
    live=live,
)
