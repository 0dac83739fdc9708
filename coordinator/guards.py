"""What retention must spare for consumer groups: messages that are to be run again, or that an operator is to decide on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .cell import QueueCell
from .cell_codec import decode_cell
from .cells import Cells
from .commands import caught_up
from .keys import queue_key
from .records import Groups


async def retention_guards(cells: Cells, groups: Groups, topic: str) -> Mapping[int, int]:
    """For each queue of a topic, the first offset that some group has blocked, parked, waiting or given up and not buried yet.

    Queues without any are left out. What nobody has read yet is not spared: retention is independent of consumption. Raises what the
    table raises.
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
            # As its owner will find it: what was given up before a reset is still to be written. It may be ahead of the record, read before it.
            if (offset := first_needed(caught_up(cell, record, topic, queue))) is not None:
                found[queue] = min(offset, found.get(queue, offset))
    return found


def first_needed(cell: QueueCell) -> int | None:
    """The first offset that is tracked by itself, stands at the head of a blocked message group, or is an unwritten dead letter."""
    listed = [] if cell.first_listed is None else [cell.first_listed]
    return min([*listed, *cell.dead_letters.own], default=None)
