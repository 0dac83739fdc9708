"""Queues' cells in tests, written as their owners would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock import aio
from penstock.coordinator.cell import Marker, QueueCell, State, Tries
from penstock.coordinator.cell_codec import decode_cell, encode_cell
from penstock.coordinator.commands import begin, caught_up
from penstock.coordinator.keys import queue_key


def change_cell(
    connect: Callable[[], aio.Lake],
    queue: int,
    change: Callable[[QueueCell], QueueCell] = lambda cell: cell,
    *,
    group: str = "billing",
    topic: str = "orders",
) -> QueueCell:
    """Catch up with the group's record, change the cell, write it."""

    async def run() -> QueueCell:
        async with connect() as lake:
            cells, key = lake.coordination.cells, queue_key(group, topic, queue)
            record = await lake.coordination.groups.get(group)
            stored = await cells.read(key)
            before = begin(record.positions[topic], queue) if stored is None else decode_cell(stored.data, where=key)
            cell = change(caught_up(before, record, topic, queue))
            await cells.write(key, encode_cell(cell), on=stored, deadline_s=9e18)
            return cell

    return asyncio.run(run())


def parked(head: int, *, attempts: int = 17) -> Marker:
    """The marker of a message group that gave up at this offset."""
    return Marker(head, head + 1, Tries(State.PARKED, attempts, attempts))
