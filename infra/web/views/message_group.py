"""One message group: its messages in order, where each consumer group stands in it, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ....aio import Lake
from ....consumers.trace.message_group import MessageGroupTrace, message_group_traces
from ....log.message.message import views
from ....log.message.routing import queue_of
from ....log.table.delta.lookup import Lookup
from ...operating.life import fate_text
from ..faults import Part
from .message_rows import MessageRow, row_of
from .messages import AFTER, behind, crumbs_of
from .page import Asked, Crumb, Page, Parameter, Scene
from .positions import cursor_of, cursor_text
from .scan import FILES_MAX, ROWS, extent, fields_of

GROUPS_MAX = 16
"""The most consumer groups on the page: each costs a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where a consumer group stands in the message group."""

    group: str
    queue: int
    owner: str | None
    stands_at: int | None
    """The offset of the first message that is not done, of those on the page and the one that holds it up; None: all of them are done."""
    fate: str | None
    """How that message stands: the code for programs."""
    why: str
    """The same in words."""
    due: datetime | None
    attempts: int | None
    strikes: int | None
    is_parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRow:
    """A message, and how it stands in each of the page's consumer groups."""

    message: MessageRow
    fates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Messages of the group in their order."""

    rows: tuple[OrderedRow, ...]
    groups: tuple[str, ...]
    """The consumer groups whose fates each row has."""
    groups_total: int
    stands: tuple[Stand, ...]
    looked: int
    older: str | None
    """The place before which there may be earlier messages: the parameter ``before``."""
    newer: str
    """The place from which later ones may come: the parameter ``after``."""
    newer_messages: int
    """The messages of all message groups behind that place now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupShown:
    """What the page shows."""

    topic: str
    message_group: str
    ordered: Part[Ordered]


async def gather(scene: Scene, asked: Asked) -> MessageGroupShown:
    name, message_group = asked["topic"], asked["message_group"]
    await scene.using(lambda lake: lake.topic(name))
    looked = await scene.part(lambda _: scene.source.look())
    seen = () if looked.value is None else looked.value.topic(name)
    furthest = sorted(seen, key=lambda one: (-sum(queue.standing.lag for queue in one.queues), one.group))[:GROUPS_MAX]
    groups = sorted(one.group for one in furthest)

    async def ordered(lake: Lake) -> Ordered:
        reader = await lake.reader(name)
        topic = await extent(reader, None)
        before, after = asked.text("before"), asked.text("after")
        kept = topic.kept
        if after is not None:
            begin = topic.clipped(cursor_of(after))
            ranges = {queue: (at, kept[queue][1]) for queue, at in begin.items()}
        else:
            end = topic.clipped({} if before is None else cursor_of(before))
            ranges = {queue: (kept[queue][0], at) for queue, at in end.items()}
        wanted = Lookup(message_group=message_group)
        found = await reader.find(wanted, ranges, limit=ROWS, files=FILES_MAX, newest=after is None)
        queues = sorted({queue_of(message_group, topic.queues), *found.rows["queue"].to_pylist()})
        traces = await message_group_traces(lake, lake.coordination, name, message_group, found.rows, queues=queues, groups=groups)
        fields = fields_of(await lake.topic_schema(name))
        messages = [row_of(one, fields) for one in views(name, found.rows)]
        older = {queue: start for queue, (start, _) in found.looked.items()}
        newer = {queue: limit for queue, (_, limit) in found.looked.items()}
        return Ordered(
            rows=rows_of(messages, traces, groups),
            groups=tuple(groups),
            groups_total=len(seen),
            stands=tuple(map(stand_of, traces)),
            looked=sum(limit - start for start, limit in found.looked.values()),
            older=cursor_text(older) if any(at > kept[queue][0] for queue, at in older.items()) else None,
            newer=cursor_text(newer),
            newer_messages=behind(newer, topic.next),
        )

    return MessageGroupShown(topic=name, message_group=message_group, ordered=await scene.part(ordered))


def rows_of(messages: Sequence[MessageRow], traces: Sequence[MessageGroupTrace], groups: Sequence[str]) -> tuple[OrderedRow, ...]:
    """The messages with their fates, in the order of ``groups``."""
    by_place: Mapping[tuple[str, int], MessageGroupTrace] = {(one.group, one.queue): one for one in traces}

    def fates(row: MessageRow) -> tuple[str, ...]:
        found = (by_place.get((group, row.queue)) for group in groups)
        return tuple("-" if one is None or row.offset not in one.fates else one.fates[row.offset].value for one in found)

    return tuple(OrderedRow(message=row, fates=fates(row)) for row in messages)


def stand_of(one: MessageGroupTrace) -> Stand:
    """Where a consumer group stands, and why, in words."""
    head = one.standing
    return Stand(
        group=one.group,
        queue=one.queue,
        owner=one.owner or None,
        stands_at=one.stands_at,
        fate=None if head is None else head.fate.value,
        why="all of these are done" if head is None else fate_text(head),
        due=None if head is None else head.due,
        attempts=None if head is None else head.attempts,
        strikes=None if head is None else head.strikes,
        is_parked=head is not None and head.fate.value == "parked",
    )


def _crumbs(asked: Asked) -> Sequence[Crumb]:
    return [*crumbs_of(asked), Crumb("Messages", "messages", {"topic": asked["topic"]})]


PAGE = Page(
    name="message_group",
    path="/topics/{topic}/message-groups/~{message_group:path}",
    title="Message group {message_group}",
    about="The messages of a message group in order, how each stands in each consumer group, and why a group waits there.",
    shows=MessageGroupShown,
    gather=gather,
    command=lambda asked: ["read", asked["topic"], f"--group={asked['message_group']}"],
    parameters=(Parameter(name="before", help="Messages before this place, as `older` of a page says."), AFTER),
    crumbs=_crumbs,
)
"""The tilde lets every name stand in a path: an empty one, and ``..``, which browsers would take for a folder."""
