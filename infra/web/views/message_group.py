"""One message group: its messages in order, and each consumer group's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from ....aio import Lake
from ....consumers.trace.message_group import GroupCell, MessageGroupTrace, cells_of, traced
from ....coordinator.registry.failures import LastFailure
from ....log.format.growth import former_queues
from ....log.message.message import views
from ....log.message.routing import queue_of
from ....log.read.message_search import SearchResult
from ....log.read.reader import Reader
from ....log.table.delta.lookup import Lookup
from ....log.topic.topics import Topic
from ...operating.life import delivery_state_text
from ..faults import PagePart
from .message_rows import MessageRow, row_of
from .messages import AFTER, crumbs_below, lag_of
from .page import PageContext, PageDefinition, PageRequest, QueryParameter
from .positions import cursor_of, cursor_text
from .scan import FILES_AT_ONCE, ROWS, Offsets, TopicExtent, extent, fields_of

GROUPS_MAX = 16
"""The most consumer groups on the page, a request each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupProgress:
    """A consumer group's place in the message group."""

    group: str
    queue: int
    owner: str | None
    stands_at: int | None
    """The first unfinished offset, of those on the page and the one that blocks; None: all are done."""
    fate: str | None
    """The code of that message's state."""
    why: str
    due: datetime | None
    attempts: int | None
    failed_attempts: int | None
    is_parked: bool
    failure: LastFailure | None
    """Why it failed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupRow:
    """A message with its state in each consumer group."""

    message: MessageRow
    fates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupContent:
    """Messages of the group in their order."""

    rows: tuple[MessageGroupRow, ...]
    groups: tuple[str, ...]
    groups_total: int
    stands: tuple[MessageGroupProgress, ...]
    held_by: tuple[str, ...]
    """The consumer groups blocked at the first message."""
    looked: int
    older: str | None
    """The parameter ``before``."""
    newer: str
    """The parameter ``after``."""
    newer_messages: int
    """The number for all message groups, behind that place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupPage:
    """The content of the page."""

    topic: str
    message_group: str
    ordered: PagePart[MessageGroupContent]


async def gather(context: PageContext, request: PageRequest) -> MessageGroupPage:
    name, message_group = request["topic"], request["message_group"]
    await context.using(lambda lake: lake.topic(name))
    looked = await context.part(lambda _: context.source.look())
    seen = () if looked.value is None else looked.value.topic(name)
    furthest = sorted(seen, key=lambda one: (-sum(queue.progress.lag for queue in one.queues), one.group))[:GROUPS_MAX]
    groups = sorted(one.group for one in furthest)

    async def ordered(lake: Lake) -> MessageGroupContent:
        reader, stored = await lake.reader(name), await lake.topic(name)
        own = own_queues(message_group, stored)
        topic = await extent(reader, None, also=own)
        cells = await cells_of(lake, lake.coordination, stored, queues=own, groups=groups)
        held = {} if request.text("before") or request.text("after") else heads_of(cells, message_group)
        at, onward = begin_of(request, topic, begin_behind(held, own))
        found = await _found(reader, topic, at, onward, own, message_group)
        elsewhere = sorted(set(found.rows["queue"].to_pylist()) - set(own))
        cells += await cells_of(lake, lake.coordination, stored, queues=elsewhere, groups=groups) if elsewhere else []
        traces = [traced(one, stored, message_group, found.rows) for one in sorted(cells, key=lambda one: (one.group, one.queue))]
        fields = fields_of(await lake.topic_schema(name))
        messages = [row_of(one, fields) for one in views(name, found.rows)]
        older = {queue: start for queue, (start, _) in found.looked.items()}
        newer = {queue: limit for queue, (_, limit) in found.looked.items()}
        return MessageGroupContent(
            rows=rows_of(messages, traces, groups),
            groups=tuple(groups),
            groups_total=len(seen),
            stands=tuple(map(stand_of, traces)),
            held_by=tuple(group for group, head in held.items() if head == min(held.values())),
            looked=sum(limit - start for start, limit in found.looked.values()),
            older=cursor_text(older) if any(start > topic.kept[queue][0] for queue, start in older.items()) else None,
            newer=cursor_text(newer),
            newer_messages=lag_of(newer, topic.next),
        )

    return MessageGroupPage(topic=name, message_group=message_group, ordered=await context.part(ordered))


def own_queues(message_group: str, topic: Topic) -> list[int]:
    """The queues that the message group had, from the topic's beginning to its present one. Each is lower than the next."""
    home = queue_of(message_group, topic.settings.queues, topic.settings.routing)
    return [*reversed([former for former, _ in former_queues(topic.tail.state.growths, home)]), home]


def heads_of(cells: Sequence[GroupCell], message_group: str) -> dict[str, tuple[int, int]]:
    """The first blocking message (queue and offset), by consumer group."""
    found: dict[str, tuple[int, int]] = {}
    for one in cells:
        if (head := one.head(message_group)) is not None:
            found[one.group] = min(found.get(one.group, (one.queue, head)), (one.queue, head))
    return found


def begin_behind(heads: Mapping[str, tuple[int, int]], own: Sequence[int]) -> Offsets:
    """The page's beginning at the first block: there, and at the beginning of the queues that the message group had later."""
    if not heads:
        return {}
    queue, offset = min(heads.values())
    return {one: offset if one == queue else 0 for one in own if one >= queue}


def begin_of(request: PageRequest, topic: TopicExtent, heads: Offsets) -> tuple[Offsets, bool]:
    """The page's beginning, and whether it goes onward. A block comes first."""
    if (after := request.text("after")) is not None:
        return topic.clipped(cursor_of(after)), True
    if (before := request.text("before")) is not None:
        return topic.clipped(cursor_of(before)), False
    return (topic.clipped(heads), True) if heads else (topic.next, False)


async def _found(
    reader: Reader, topic: TopicExtent, at: Offsets, onward: bool, own: Sequence[int], message_group: str
) -> SearchResult:
    """The group's messages, first in its own queues: others have some only by their senders' choice."""
    rows: list[pa.Table] = []
    looked = {queue: (offset, offset) for queue, offset in at.items()}
    wanted, room = Lookup(message_group=message_group), ROWS
    for queues in (own, [queue for queue in at if queue not in own]):
        ranges = {queue: (at[queue], topic.next[queue]) if onward else (topic.earliest[queue], at[queue]) for queue in queues}
        if ranges and (room > 0 or not rows):
            found = await reader.find(wanted, ranges, limit=room, files=FILES_AT_ONCE, newest=not onward)
            room -= found.rows.num_rows
            rows.append(found.rows)
            looked |= found.looked
    return SearchResult(pa.concat_tables(rows).sort_by([("queue", "ascending"), ("offset", "ascending")]), looked)


def rows_of(
    messages: Sequence[MessageRow], traces: Sequence[MessageGroupTrace], groups: Sequence[str]
) -> tuple[MessageGroupRow, ...]:
    by_place: Mapping[tuple[str, int], MessageGroupTrace] = {(one.group, one.queue): one for one in traces}

    def fates(row: MessageRow) -> tuple[str, ...]:
        found = (by_place.get((group, row.queue)) for group in groups)
        return tuple("-" if one is None or row.offset not in one.fates else one.fates[row.offset].value for one in found)

    return tuple(MessageGroupRow(message=row, fates=fates(row)) for row in messages)


def stand_of(one: MessageGroupTrace) -> MessageGroupProgress:
    head = one.standing
    return MessageGroupProgress(
        group=one.group,
        queue=one.queue,
        owner=one.owner or None,
        stands_at=one.stands_at,
        fate=None if head is None else head.fate.value,
        why=delivery_state_text(head)
        if head is not None
        else "all of these are done"
        if one.fates
        else "not known: no message of it is shown below",
        due=None if head is None else head.due,
        attempts=None if head is None else head.attempts,
        failed_attempts=None if head is None else head.failed_attempts,
        is_parked=head is not None and head.fate.value == "parked",
        failure=None if head is None else head.failure,
    )


PAGE = PageDefinition(
    name="message_group",
    path="/topics/{topic}/message-groups/~{message_group:path}",
    title="Message group {message_group}",
    about="The messages of a message group in order, how each stands in each consumer group, and why a group waits there.",
    shows=MessageGroupPage,
    gather=gather,
    answer=lambda shown: shown.ordered,
    command=lambda request: ["read", request["topic"], f"--group={request['message_group']}"],
    parameters=(QueryParameter(name="before", help="Messages before this place, as `older` of a page says."), AFTER),
    crumbs=crumbs_below,
)
"""The tilde lets every name stand in a path: an empty one, and ``..``, which browsers would take for a folder."""
