"""What retention spares for consumer groups, from cells to the table."""

from __future__ import annotations

import asyncio

import pytest

from penstock import aio
from penstock.coordinator import GroupSettings
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Spill, Tries
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.registry.retention import first_needed, retention_guards
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore

FOREVER = float("inf")


@pytest.mark.parametrize(
    ("cell", "offset"),
    [
        (QueueCell().with_settled(OffsetSet.of([(0, 40)])), None),
        (QueueCell().with_granted(OffsetSet.of([(3, 9)])), None),
        (QueueCell().with_tries(7, Tries(MessageState.WAITING)).with_tries(5, Tries(MessageState.SUSPECT)), 5),
        (QueueCell().with_markers({11: Marker(4, 5, Tries(MessageState.PARKED))}, OffsetSet.of([(4, 5)])), 4),
        (QueueCell(spills=(Spill("ab" * 16, 0, 9, 1_000, 3),)).with_tries(7, Tries(MessageState.WAITING)), 3),
        (QueueCell().with_dead_letters([6, 8]), 6),
    ],
)
def test_what_is_to_be_run_again_is_needed_and_what_nobody_read_is_not(cell: QueueCell, offset: int | None) -> None:
    assert first_needed(cell) == offset


async def put(lake: aio.Lake, group: str, queue: int, cell: QueueCell) -> None:
    key = queue_key(group, "orders", queue)
    found = await lake.coordination.cells.read(key)
    await lake.coordination.cells.write(key, encode_cell(cell), on=found, deadline_s=FOREVER)


def test_guards_are_the_least_of_all_groups_in_their_generation() -> None:
    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await lake.create_topic("orders", TopicSettings(queues=3))
            groups = lake.coordination.groups
            for group in ("a", "b"):
                await groups.create(group, GroupSettings())
                await groups.begin(group, "orders", 1, origin)
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {}
            now = {group: (await groups.get(group)).positions["orders"].generations[0] for group in ("a", "b")}
            await put(lake, "a", 0, QueueCell(generation=now["a"]).with_tries(9, Tries(MessageState.WAITING)))
            await put(lake, "b", 0, QueueCell(generation=now["b"]).with_tries(4, Tries(MessageState.WAITING)))
            ahead = QueueCell(generation=now["b"] + 1).with_tries(
                2, Tries(MessageState.WAITING)
            )  # a reset came after the record was read
            await put(lake, "b", 2, ahead)
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {0: 4, 2: 2}

    async def origin() -> tuple[int, ...]:
        return (0, 0, 0)

    asyncio.run(work())


def test_what_was_given_up_before_a_reset_that_no_owner_has_seen_is_needed_and_what_waited_is_not() -> None:
    async def work() -> None:
        async with aio.connect(store=MemoryStore()) as lake:
            await lake.create_topic("orders", TopicSettings(queues=1))
            groups = lake.coordination.groups
            await groups.create("a", GroupSettings())
            record = await groups.begin("a", "orders", 1, origin)
            cell = QueueCell(generation=record.positions["orders"].generations[0])
            await put(lake, "a", 0, cell.with_tries(3, Tries(MessageState.WAITING)).with_dead_letters([5]))
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {0: 3}
            await groups.reset("a", "orders", 1, 1, {0: 9})
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {0: 5}
            await groups.begin("a", "orders", 2, origin)  # a later life of the topic: they are other messages
            assert await retention_guards(lake.coordination.cells, groups, "orders") == {}

    async def origin() -> tuple[int, ...]:
        return (0,)

    asyncio.run(work())
