"""The messages that retention must spare for consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ..cells.cells import Cells
from ..cells.keys import queue_key
from ..queues.cell import QueueCell
from ..queues.codec import decode_cell
from ..queues.commands import caught_up
from .groups import GroupRegistry


async def retention_guards(cells: Cells, groups: GroupRegistry, topic: str) -> Mapping[int, int]:
    """The first offset, by queue, that some group has blocked, parked, waiting, or given up without a dead letter. Unread messages are not spared.
    Raises what the table raises.
    """
    found: dict[int, int] = {}
    for group, record in (await groups.all()).items():
        position = record.positions.get(topic)
        if position is None:
            continue
        keys = [queue_key(group, topic, queue) for queue in range(len(position.offsets))]
        for queue, stored in enumerate(await asyncio.gather(*(cells.read(key) for key in keys))):
            if stored is None:
                continue
            cell = decode_cell(stored.data, where=keys[queue])
            # The cell as its owner will find it: messages given up before a reset are still to be written. It may be ahead of the
            # record, which was read before it.
            if (offset := first_needed(caught_up(cell, record, topic, queue))) is not None:
                found[queue] = min(offset, found.get(queue, offset))
    return found


def first_needed(cell: QueueCell) -> int | None:
    listed = [] if cell.first_listed is None else [cell.first_listed]
    return min([*listed, *cell.dead_letters.own], default=None)
