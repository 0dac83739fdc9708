"""One consumer group: settings, members, queues, parked message groups, and waiting messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....aio import Lake
from ....consumers.trace.held_messages import HeldMessage, held_messages
from ....coordinator import GroupDescription, GroupNotFound, LastFailure, ParkedGroup, QueueProgress
from ....coordinator.groups.record import GroupProtocol
from ....coordinator.operators.classic_queues import read_classic
from ....coordinator.operators.operators import read_cell
from ....coordinator.registry.former_work import left_before
from ...operating.groups import GroupProgress, progress_of
from ..faults import ErrorReport, PagePart
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest

PARKED_SHOWN = 200
QUEUES_SHOWN = 500
MEMBERS_SHOWN = 100
HELD_QUEUES, HELD_SHOWN = 4, 5
"""The queues, and the messages of each, whose waits are shown: the page reads cell and messages for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedGroupList:
    """The parked message groups, each with its message."""

    total: int
    rows: tuple[ParkedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessageList:
    """Messages that wait for another try."""

    total: int
    """All, blocked message groups as one."""
    rows: tuple[HeldMessage, ...]
    """The oldest, of the queues with the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """The content of the page."""

    group: str
    left_out: ErrorReport | None
    standing: PagePart[GroupProgress]
    parked: PagePart[ParkedGroupList]
    held: PagePart[HeldMessageList]


async def gather(context: PageContext, request: PageRequest) -> GroupPage:
    name = request["group"]
    whole = await context.part(lambda lake: lake.describe_group(name, table_age=context.source.refresh), fatal=(GroupNotFound,))
    found = whole.value or (await context.part(lambda lake: _readable(context, lake, name))).value
    if found is None:
        return GroupPage(
            group=name,
            left_out=None,
            standing=PagePart(fault=whole.fault),
            parked=PagePart(fault=whole.fault),
            held=PagePart(fault=whole.fault),
        )
    queues = found.queues
    topics = sorted({one.topic for one in queues if one.parked})

    async def parked(lake: Lake) -> ParkedGroupList:
        if topics and whole.value is not None:
            rows = await lake.parked(name)
        else:  # which asks for topics that cannot be read, too
            rows = [one for topic in topics for one in await lake.parked(name, topic=topic)]
        return ParkedGroupList(total=len(rows), rows=tuple(rows[:PARKED_SHOWN]))

    return GroupPage(
        group=name,
        left_out=whole.fault,
        standing=PagePart(value=progress_of(found, queues=QUEUES_SHOWN, members=MEMBERS_SHOWN)),
        parked=await context.part(parked),  # which reads no cell where nothing is parked
        held=await context.part(lambda lake: held_of(lake, name, queues, found.failures)),
    )


async def _readable(context: PageContext, lake: Lake, group: str) -> GroupDescription | None:
    record, looked = await lake.coordination.groups.get(group), await context.source.look()
    queues = tuple(queue.progress for one in looked.group(group) for queue in one.queues)
    if not queues:
        return None
    look = await read_classic(lake.coordination.cells, group, record) if record.protocol is GroupProtocol.KAFKA else None
    return GroupDescription(
        group,
        record.settings,
        record.all_members if look is None else look.member_ids,
        queues,
        protocol=record.protocol,
        kafka=None if look is None else look.described,
    )


async def held_of(lake: Lake, group: str, queues: Sequence[QueueProgress], failures: Sequence[LastFailure] = ()) -> HeldMessageList:
    counts = {(one.topic, one.queue): one.waiting + one.blocked + one.interrupted for one in queues if one.next_offset is not None}
    most = sorted((place for place, count in counts.items() if count), key=lambda place: (-counts[place], place))[:HELD_QUEUES]
    rows: list[HeldMessage] = []
    record = await lake.coordination.groups.get(group) if most else None
    for topic, queue in most:
        assert record is not None
        cell = await read_cell(lake.coordination.cells, group, record, topic, queue)
        left = await left_before(lake.coordination.cells, group, record, await lake.topic(topic), queue)
        reader = await lake.reader(topic)
        rows += await held_messages(reader, topic, queue, cell, most=HELD_SHOWN, elsewhere=left.blocked, failures=failures)
    return HeldMessageList(total=sum(counts.values()), rows=tuple(sorted(rows, key=lambda one: (one.topic, one.queue, one.offset))))


def live(shown: GroupPage) -> dict[str, object]:
    found: dict[str, object] = {}
    if (standing := shown.standing.value) is not None:
        found |= {"lag": standing.lag, "lag_time": standing.lag_time, "members": standing.members_total}
        for one in standing.queues:
            at = f"{one.topic}:{one.queue}"
            found |= {
                f"committed_offset:{at}": one.committed_offset,
                f"next:{at}": one.next_offset,
                f"lag:{at}": one.lag,
                f"lag_time:{at}": one.lag_time,
            }
            found |= {
                f"{name}:{at}": getattr(one, name) for name in ("epoch", "in_flight", "waiting", "blocked", "parked", "interrupted")
            }
    if shown.parked.value is not None:
        found["parked"] = shown.parked.value.total
    return found


PAGE = PageDefinition(
    name="group",
    path="/groups/{group}",
    title="Consumer group {group}",
    about="Settings, members, the progress of every queue, the parked message groups, and the messages that wait for another try.",
    shows=GroupPage,
    gather=gather,
    command=lambda request: ["group", "describe", request["group"]],
    crumbs=lambda request: [Breadcrumb("Groups", "groups")],
    live=live,
)
