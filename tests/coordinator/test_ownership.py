"""Which queues become one member's own, round by round: members of one group over one simulated table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.coordinator.cells.cells import WRITE_ID_BYTES, Cells, StoredCell
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.groups.record import GroupRecord, GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.keeper import OwnershipLost
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.rebalance.balance import Queue
from penstock.coordinator.rebalance.member_context import MemberContext
from penstock.coordinator.rebalance.ownership import Ownership
from penstock.coordinator.workers.session import LeaseLost, SessionMember
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.log.errors import PenstockError, PermissionDenied, UnknownOutcome
from tests.coordinator.stage import Stage
from tests.playing import played_on

GROUP, TOPIC = "billing", "orders"
LEASE_S = 5.0


class OneRecord:
    """The group's record, without a table."""

    def __init__(self, queues: int) -> None:
        self.record = GroupRecord(settings=GroupSettings()).begun(TOPIC, (0,) * queues, 0)

    async def get(self, group: str) -> GroupRecord:
        return self.record

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        self.record = change(self.record)
        return self.record


class DoubtfulCells(Cells):
    """Takes of queues that have no answer while ``doubtful``; the first of them arrives when the test lets it."""

    doubtful = False
    error: PenstockError = UnknownOutcome("the table does not tell", operation="write a cell")
    overtakes = False
    """Whether the late one arrives just before the next write of its queue."""
    refused = ""
    """A cell that may not be written."""
    late: tuple[str, bytes, StoredCell | None] | None = None
    reads = 0
    """Of queues' cells."""

    async def read(self, key: str) -> StoredCell | None:
        self.reads += key.startswith("queues/")
        return await super().read(key)

    async def write(self, key: str, data: bytes, *, on: StoredCell | None, deadline_s: float) -> StoredCell:
        if self.doubtful and key.startswith("queues/"):
            self.late = self.late or (key, data, on)
            raise self.error
        if key == self.refused:
            raise PermissionDenied("not this one", operation="write a cell", object=key)
        if self.overtakes and key.startswith("queues/"):
            self.overtakes = False
            await self.arrive()
        return await super().write(key, data, on=on, deadline_s=deadline_s)

    async def arrive(self) -> None:
        assert self.late is not None
        key, data, on = self.late
        self.doubtful = False
        await self.write(key, data, on=on, deadline_s=1e9)


@dataclass
class Group:
    """Members that each have a process of their own."""

    queues: int
    stage: Stage = field(default_factory=Stage)

    def __post_init__(self) -> None:
        self.records = OneRecord(self.queues)

    async def member(self, name: str) -> tuple[Ownership, SessionMember, DoubtfulCells]:
        process = self.stage.process(name)
        cells = DoubtfulCells(self.stage.table.client(process), process.runtime)
        joined = await process.run(self.stage.worker(process, lease_s=LEASE_S).join(GROUP, [TOPIC]))
        context = MemberContext(
            cells=cells,
            groups=self.records,
            watch=LeaseWatch(cells, process.runtime),
            member=joined,
            clock=process.runtime.clock,
            group=GROUP,
            lease_s=LEASE_S,
        )
        return Ownership(context, {TOPIC: self.queues}), joined, cells

    async def occupy(self, queue: int, owner: str) -> None:
        """Let a live member have a queue, whoever's it should be."""
        key = queue_key(GROUP, TOPIC, queue)
        data = b"x" * 16 + encode_cell(QueueCell().taken_by(owner))
        standing = await self.stage.table.memory.get(key)
        await self.stage.table.memory.put(key, data, expected=standing.version if standing else None)

    async def owner(self, queue: int) -> str:
        cell = await self.stage.table.memory.get(queue_key(GROUP, TOPIC, queue))
        return decode_cell(cell.data[WRITE_ID_BYTES:], where="here").owner if cell else ""

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.stage.play(script)


def numbers(queues: Any) -> list[int]:
    return sorted(number for _, number in queues)


async def settled(*ownerships: Ownership) -> None:
    """So many rounds that shares are even."""
    for _ in range(6):
        for one in ownerships:
            for queue in (await one.round()).drain:
                await one.keepers[queue].release()
            await asyncio.sleep(1)


@played_on(Group, 2)
async def test_a_member_that_is_over_owns_nothing_and_says_why(group: Group) -> None:
    ownership, member, _ = await group.member("a")
    taken = (await ownership.round()).taken
    assert numbers(taken) == [0, 1]
    await member.leave()
    with pytest.raises(LeaseLost, match="the member is over"):
        await ownership.round()
    assert not ownership.keepers
    assert all(keeper.ended.is_set() for keeper in taken.values())


@played_on(Group, 1)
async def test_a_take_in_doubt_that_arrives_late_is_ours_though_the_queue_is_not_our_share_any_more(group: Group) -> None:
    """Nobody else would take it, as long as we live."""
    ownership, member, cells = await group.member("a")
    cells.doubtful = True
    for _ in range(2):
        assert not (await ownership.round()).taken
        await asyncio.sleep(1)
    # From now on the only queue is another's by right, whichever of the two comes first.
    ownership.consume({})
    assert not (await ownership.round()).taken
    assert await group.owner(0) == ""
    await cells.arrive()
    assert numbers((await ownership.round()).taken) == [0]
    assert await group.owner(0) == member.id


@played_on(Group, 1)
async def test_a_write_in_doubt_that_arrives_as_the_queue_is_taken_again_costs_nobody_the_queue(group: Group) -> None:
    """Its member has its share without it, and all others see an owner that lives: nobody would ever look again."""
    ownership, member, cells = await group.member("a")
    (keeper,) = (await ownership.round()).taken.values()
    cells.doubtful = True
    with pytest.raises(OwnershipLost):
        await keeper.change(lambda cell: cell.with_granted(OffsetSet.of([(0, 1)])))
    ownership.consume({})
    cells.doubtful, cells.overtakes = False, True
    (again,) = (await ownership.round()).taken.values()
    assert await group.owner(0) == member.id
    assert (again.epoch, set(again.cell.tries)) == (2, {0})
    await again.change(lambda cell: cell.with_settled(OffsetSet.of([(0, 1)])))


@played_on(Group, 1)
async def test_a_take_that_ends_with_an_error_of_any_kind_is_in_doubt(group: Group) -> None:
    ownership, _, cells = await group.member("a")
    cells.doubtful, cells.error = True, PermissionDenied("not for now", operation="write a cell")
    with pytest.raises(PermissionDenied):
        await ownership.round()
    ownership.consume({})
    await cells.arrive()
    assert numbers((await ownership.round()).taken) == [0]


@played_on(Group, 2)
async def test_a_round_ends_when_all_its_takes_have(group: Group) -> None:
    """Otherwise the next round would take a queue that an unfinished take is about to get, and both would go on with it."""
    ownership, _, cells = await group.member("a")
    held = group.stage.table.hold(verb="put", key=lambda key: key.startswith("queues/"))
    cells.refused = queue_key(GROUP, TOPIC, 0)
    around = asyncio.ensure_future(ownership.round())
    await held.reached()
    await asyncio.sleep(0.1)
    assert not around.done()
    held.release()
    with pytest.raises(PermissionDenied):
        await around
    assert numbers((await ownership.round()).taken) == [1]


@played_on(Group, 1)
async def test_a_take_in_doubt_is_forgotten_once_another_has_the_queue(group: Group) -> None:
    ownership, _, cells = await group.member("a")
    cells.doubtful = True
    await ownership.round()
    cells.doubtful = False
    await group.occupy(0, "somebody/1")
    ownership.consume({})
    reads_before = cells.reads
    assert not (await ownership.round()).taken
    assert cells.reads == reads_before + 1
    assert not (await ownership.round()).taken
    assert cells.reads == reads_before + 1, "there is no doubt any more"


@played_on(Group, 4)
async def test_what_others_have_too_much_of_is_expected_and_what_they_may_keep_is_not(group: Group) -> None:
    first, _, _ = await group.member("a")
    await settled(first)
    assert len(first.keepers) == 4
    second, _, cells = await group.member("b")
    await second.round()
    assert numbers(second.expected) == [0, 1, 2, 3], "the first has more than its share, and may release any of them"
    reads_before = cells.reads
    await asyncio.sleep(0.4)
    await second.round()
    assert cells.reads == reads_before + 4, "they are looked at again soon"
    await settled(first, second)
    assert (len(first.keepers), len(second.keepers), second.expected) == (2, 2, frozenset())


@played_on(Group, 3)
async def test_who_has_its_share_expects_nothing_of_who_has_too_much(group: Group) -> None:
    first, _, _ = await group.member("a")
    second, _, _ = await group.member("b")
    third, _, _ = await group.member("c")
    await first.round()
    assert len(first.keepers) == 3
    for one in (second, third, first):
        await one.round()
    freed: Queue = next(iter(first.keepers))
    await first.keepers[freed].release()
    await asyncio.sleep(1)
    await second.round()
    assert list(second.keepers) == [freed]
    assert second.expected == frozenset(), "the first has one too many, which is the third's"


@played_on(Group, 1)
async def test_a_queue_that_was_to_be_taken_in_vain_is_expected_soon(group: Group) -> None:
    ownership, _, cells = await group.member("a")
    cells.doubtful = True
    await ownership.round()
    assert numbers(ownership.expected) == [0], "it is looked at again soon, as what came of the take is not known"
    cells.doubtful = False
    await asyncio.sleep(1)
    assert numbers((await ownership.round()).taken) == [0]
    assert ownership.expected == frozenset()
