"""What a queue that a topic got later waits for, in an ORDERLY consumer group: the work that is left in its former queues.

While the generations of the former queues stand, less and less is left, as floors only rise and message groups are blocked by what is above the floor
alone. So whoever read it some time ago waits longer than it must, and never too short a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...log.format.growth import Growth, former_queues
from ...log.topic.topics import Topic
from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..groups.record import DeliveryOrder, GroupRecord, Position
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.commands import begin


@dataclass(frozen=True, slots=True)
class FormerWork:
    """What is left below the marks of a queue's former queues."""

    queue: int | None = None
    """A former queue that has messages which are neither settled nor behind the marker of their message group. None: there is none."""
    blocked: Mapping[int, int] = field(default_factory=dict)
    """The former queue of each message group that is blocked there, by the group's hash."""


NOTHING = FormerWork()


def former_work(former: Iterable[tuple[int, int]], position: Position, cells: Mapping[int, QueueCell]) -> FormerWork:
    """What is left in these former queues (queue and mark); ``cells`` has theirs.

    A cell in another generation than the position's is to be reset, or was since the position was read: what is left is not known then.
    """
    blocked: dict[int, int] = {}
    for queue, mark in former:
        if not mark:
            continue
        cell = cells[queue]
        listed = (*cell.tries, *(spill.first_offset for spill in cell.spills))
        if cell.generation != position.generations[queue] or cell.settled.floor < mark or any(offset < mark for offset in listed):
            return FormerWork(queue)
        # Messages without a message group have no order across queues.
        blocked |= {group: queue for group, marker in cell.markers.items() if group and marker.head < mark}
    return FormerWork(None, blocked)


def works_left(growths: Sequence[Growth], record: GroupRecord, topic: str, cells: Mapping[int, QueueCell]) -> dict[int, FormerWork]:
    """What each queue waits for, by the ``cells`` of all."""
    if not growths or record.settings.delivery_order is not DeliveryOrder.ORDERLY:
        return {}
    return {queue: former_work(former_queues(growths, queue), record.positions[topic], cells) for queue in cells}


async def left_before(cells: Cells, group: str, record: GroupRecord, topic: Topic, queue: int) -> FormerWork:
    """What a queue waits for, with resets that are ordered and not carried out taken for unknown. Raises as `read_former_work`."""
    former = list(former_queues(topic.tail.state.growths, queue))
    if not former or record.settings.delivery_order is not DeliveryOrder.ORDERLY:
        return NOTHING
    return await read_former_work(cells, group, record, topic.paths.topic, former)


async def read_former_work(
    cells: Cells, group: str, record: GroupRecord, topic: str, former: Sequence[tuple[int, int]]
) -> FormerWork:
    """What is left, by the cells as they are now. Raises what the table raises, and `DataDamaged`."""
    position = record.positions.get(topic)
    if position is None:  # the group was made again, which the owner is about to find
        return FormerWork(former[0][0])
    keys = {one: queue_key(group, topic, one) for one, mark in former if mark}
    stored = dict(zip(keys, await asyncio.gather(*map(cells.read, keys.values())), strict=True))
    found = {
        one: begin(position, one) if (cell := stored[one]) is None else decode_cell(cell.data, where=key)
        for one, key in keys.items()
    }
    return former_work(former, position, found)
