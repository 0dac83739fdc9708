"""A group's record that is full: who lives in the group goes on, who is dead leaves, and there is room again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.groups.codec import encode_group
from penstock.coordinator.groups.record import GroupRecord
from penstock.coordinator.rebalance.assignment import Assignment
from penstock.coordinator.rebalance.member_context import MemberContext
from penstock.coordinator.rebalance.ownership import Ownership
from penstock.coordinator.registry import groups
from penstock.coordinator.registry.groups import GroupRegistry
from penstock.log.errors import LimitExceeded
from penstock.log.limits import KIB
from tests.coordinator.stage import Stage
from tests.simulation.process import SimProcess

ROOM_BYTES = 8 * KIB


async def resolve() -> tuple[int, ...]:
    return (0, 0)


class Group:
    """A consumer group that has begun on a topic, in one process."""

    def __init__(self, stage: Stage, process: SimProcess) -> None:
        self.stage, self.process = stage, process
        cells = stage.cells(process)
        self.cells, self.records = cells, GroupRegistry(cells, process.runtime)

    async def begin(self) -> None:
        """With as many members as a record has room for, all of them dead, and nobody lived who took them off."""
        await self.records.ensure("billing", {})
        await self.records.begin("billing", "orders", 1, resolve)
        room = ROOM_BYTES - WRITE_ID_BYTES - len(encode_group(await self.records.get("billing")))
        names = tuple(f"{number:032x}/1" for number in range(room // len('"0123456789abcdef0123456789abcdef/1",')))

        def joined(record: GroupRecord) -> GroupRecord:
            return GroupRecord(settings=record.settings, positions=record.positions, members=names, secret=record.secret)

        await self.records.update("billing", joined)


@pytest.mark.parametrize("kind", [Ownership, Assignment])
def test_members_that_died_make_room_for_who_joins(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "CELL_STORED_BYTES_MAX", ROOM_BYTES)
    stage = Stage()

    async def life(process: SimProcess) -> None:
        group = Group(stage, process)
        await group.begin()
        worker = stage.worker(process)
        member = await worker.join("billing", ["orders"])
        queues: Any = {"orders": 2} if kind is Ownership else [("orders", 0), ("orders", 1)]
        context = MemberContext(
            cells=group.cells,
            groups=group.records,
            watch=stage.watch(process),
            member=member,
            clock=process.runtime.clock,
            group="billing",
            lease_s=5.0,
        )
        owning = kind(context, queues)
        async with asyncio.timeout(60):
            while len(owning.keepers) < 2:
                await owning.round()
        assert (await group.records.get("billing")).all_members == (member.id,)
        await owning.leave()

    async def script() -> None:
        process = stage.process("w")
        await process.run(life(process))

    stage.play(script)


def test_topics_that_a_group_has_begun_leave_room_for_its_members() -> None:
    stage = Stage()

    async def life(process: SimProcess) -> None:
        found = Group(stage, process).records
        await found.ensure("billing", {})
        wide = tuple(range(2**40, 2**40 + 4096))

        async def resolve_wide() -> tuple[int, ...]:
            return wide

        await found.begin("billing", "orders", 1, resolve)
        for number in range(2):
            await found.begin("billing", f"t{number}", 1, resolve_wide)
        with pytest.raises(LimitExceeded, match="no room"):
            await found.begin("billing", "t2", 1, resolve_wide)
        with pytest.raises(LimitExceeded, match="no room"):
            await found.reset("billing", "orders", 2, 4096, dict(enumerate(wide)))
        with pytest.raises(LimitExceeded, match="no room"):
            await found.ensure("billing", {"filters": {f"topic{number}": "a" * 4000 for number in range(10)}})
        names = [f"{number:032x}/1" for number in range(1_500)]
        await found.update("billing", lambda record: replace(record, members=(*names,)))
        assert await found.begin("billing", "orders", 1, resolve) == await found.get("billing")
        await found.update("billing", lambda record: record.left_by(*names))
        await found.delete("billing")
        await found.ensure("billing", {})
        await found.begin("billing", "one more", 1, resolve_wide)

    async def script() -> None:
        process = stage.process("w")
        await process.run(life(process))

    stage.play(script)
