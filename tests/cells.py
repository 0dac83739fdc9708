"""Queues' cells in tests, written as their owners would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock import aio
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.commands import begin, caught_up
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.registry.failures import NotedFailure, failures_of


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
    return Marker(head, head + 1, Tries(MessageState.PARKED, attempts, attempts))


def failed(cell: QueueCell, offset: int, *, due_ms: int = 0) -> QueueCell:
    """With a message that failed once, and waits by itself."""
    return cell.with_tries(offset, Tries(MessageState.WAITING, 1, 1, due_ms))


def blocked(cell: QueueCell, group: int, head: int, *, due_ms: int = 0, behind: OffsetSet | None = None) -> QueueCell:
    """With a message that failed once, and its message group blocked by it: those ``behind`` it had been granted, too."""
    listed = (behind or OffsetSet()).with_range(head, head + 1)
    return cell.with_markers({group: Marker(head, head + 1, Tries(MessageState.WAITING, 1, 1, due_ms))}, listed)


def told_why(connect: Callable[[], aio.Lake], cell: QueueCell, queue: int, offset: int, text: str) -> None:
    """Let group billing know why a message of orders failed at its first attempt."""

    async def run() -> None:
        async with connect() as lake:
            document = failures_of(lake.coordination.cells, lake.runtime.clock, "billing", "orders", queue)
            why = NotedFailure(offset, 1, "ValueError", text, "w/1", "host/7", lake.runtime.clock.wall_ms())
            await document.change(lambda before: before.with_all(cell, [why]))

    asyncio.run(run())
