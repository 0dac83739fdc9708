"""One message group: the state of its messages in each consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...coordinator.coordination import Coordination
from ...coordinator.groups.record import GroupProtocol, GroupRecord
from ...coordinator.operators.classic_queues import read_classic
from ...coordinator.operators.operators import read_cell
from ...coordinator.queues.cell import QueueCell
from ...coordinator.registry.failures import LastFailure, read_queue_failures
from ...coordinator.registry.former_work import NOTHING, FormerWork, left_before
from ...coordinator.registry.spill_objects import SpillObjects
from ...log.lake import LogLake
from ...log.message.message import from_ms
from ...log.topic.topics import Topic
from ..dead_letters.group_filter import filter_of_group
from ..feed.rows import group_hash
from .status import DeliveryState, StoredStatus, after_former_queues, committed_status, status_of
from .trace import GroupTrace

_AT_ONCE = 8
_DONE = frozenset(
    {DeliveryState.SETTLED, DeliveryState.LEFT_OUT, DeliveryState.PASSED_OVER, DeliveryState.GIVEN_UP, DeliveryState.DEAD_LETTER}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGroupTrace:
    """A message group of one queue in a consumer group, by the queue's cell."""

    group: str
    queue: int
    owner: str
    """The member that holds the queue, perhaps dead; empty: none."""
    epoch: int
    stands_at: int | None
    """The first unfinished offset of those asked for and the one that holds the group up."""
    standing: GroupTrace | None
    """The state of that message."""
    fates: Mapping[int, DeliveryState]
    """States by offset of the messages asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCell:
    """A consumer group's cell of one queue."""

    group: str
    record: GroupRecord
    queue: int
    cell: QueueCell
    left: FormerWork = NOTHING
    """What is to be done in former queues first."""
    failures: Mapping[int, LastFailure] = field(default_factory=dict)
    """Why messages failed last, by offset."""

    def head(self, message_group: str | None) -> int | None:
        marker = self.cell.markers.get(group_hash(message_group, self.record.secret))
        return None if marker is None else marker.head


async def cells_of(
    lake: LogLake, coordination: Coordination, topic: Topic, *, queues: Sequence[int], groups: Sequence[str]
) -> list[GroupCell]:
    """Raises `DataDamaged`."""
    name = topic.paths.topic
    stored = await coordination.groups.all()
    records = {group: stored.get(group) or await coordination.groups.get(group) for group in groups}
    gate = asyncio.Semaphore(_AT_ONCE)

    async def of_kafka(group: str, record: GroupRecord) -> list[GroupCell]:
        found = (await read_classic(coordination.cells, group, record)).queues(record, name)
        return [GroupCell(group=group, record=record, queue=queue, cell=found[queue]) for queue in queues if queue in found]

    async def one(group: str, record: GroupRecord, queue: int) -> GroupCell:
        async with gate:
            spilled = SpillObjects(lake.store, lake.runtime, group, name, queue)
            cell = await spilled.whole(await read_cell(coordination.cells, group, record, name, queue))
            left = await left_before(coordination.cells, group, record, topic, queue)
            failures = await read_queue_failures(coordination.cells, group, name, queue, cell)
        return GroupCell(group=group, record=record, queue=queue, cell=cell, left=left, failures=failures)

    known = {group: record for group, record in sorted(records.items()) if name in record.positions}
    begun = [(group, record.following(name, topic.life, topic.settings.queues)) for group, record in known.items()]
    native = [(group, record) for group, record in begun if record.protocol is not GroupProtocol.KAFKA]
    found = list(await asyncio.gather(*(one(group, record, queue) for group, record in native for queue in queues)))
    for group, record in begun:
        if record.protocol is GroupProtocol.KAFKA and known[group].positions[name].life == topic.life:
            found += await of_kafka(group, record)
    return sorted(found, key=lambda one: one.group)


def traced(seen: GroupCell, topic: Topic, message_group: str | None, rows: pa.Table) -> MessageGroupTrace:
    """``rows`` are some of its messages, with all columns."""
    group, record, queue, cell = seen.group, seen.record, seen.queue, seen.cell
    rows = rows.filter(pc.equal(rows["queue"], queue))
    lane, name = group_hash(message_group, record.secret), topic.paths.topic
    begun_at = record.positions[name].offsets[queue]
    schema = topic.tail.state.schema
    passing = set(filter_of_group(group, record.settings, name).apply(rows, schema)["offset"].to_pylist())

    def status(offset: int, *, passes: bool) -> StoredStatus:
        if record.protocol is GroupProtocol.KAFKA:
            return committed_status(cell, offset)
        found = status_of(cell, offset, lane=lane, begun_at=begun_at, passes=passes)
        return after_former_queues(found, seen.left, lane=lane)

    found = {offset: status(offset, passes=offset in passing) for offset in sorted(rows["offset"].to_pylist())}
    left = [offset for offset, one in found.items() if one.fate not in _DONE]
    marker = cell.markers.get(lane)
    heads = [*left[:1], *([] if marker is None else [marker.head])]
    stands_at = min(heads, default=None)
    standing = None
    if stands_at is not None:
        head = found.get(stands_at) or status(stands_at, passes=True)
        standing = GroupTrace(
            group=group,
            fate=head.fate,
            owner=cell.owner,
            epoch=cell.epoch,
            committed_offset=cell.settled.floor,
            attempts=head.attempts,
            failed_attempts=head.failed_attempts,
            due=None if head.due_ms is None else from_ms(head.due_ms),
            behind=head.behind,
            former_queue=head.former_queue,
            failure=seen.failures.get(stands_at),
        )
    return MessageGroupTrace(
        group=group,
        queue=queue,
        owner=cell.owner,
        epoch=cell.epoch,
        stands_at=stands_at,
        standing=standing,
        fates={offset: one.fate for offset, one in found.items()},
    )
