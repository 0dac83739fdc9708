"""When a member looks at whom, and what it makes of that: rounds at exact times, over a watch that says what the test tells it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping

import pytest

from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.groups.record import ALL, GroupRecord
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.rebalance.member_context import MemberContext
from penstock.coordinator.rebalance.ownership import Ownership
from penstock.coordinator.tables.memory import MemoryTable
from penstock.coordinator.workers.lease import ListedMember
from penstock.coordinator.workers.session import SessionMember
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.log.errors import LimitExceeded, StoreUnavailable
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.tables.sqlite_files import HandClock
from tests.coordinator.test_ownership import GROUP, LEASE_S, TOPIC, OneRecord, numbers

ME = "me/1"


class Living(SessionMember):
    """A member that needs no heartbeat."""

    def __init__(self) -> None:
        self.id = ME
        self.ended = asyncio.Event()
        self.error = None

    @property
    def until_s(self) -> float:
        return math.inf


class ToldWatch(LeaseWatch):
    """Knows of others what the test says, and notes who was looked at."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.topics: dict[str, tuple[str, ...]] = {}
        self.looks: list[set[str]] = []
        self.on_look: Callable[[], None] = lambda: None

    async def look(self, owners: Collection[str]) -> None:
        self.looks.append(set(owners))
        self.on_look()

    def is_dead(self, owner: str) -> bool:
        return owner in self.dead

    async def fence(self, owner: str) -> bool:
        return owner in self.dead

    def listed(self, owner: str) -> ListedMember | None:
        return ListedMember(1, GROUP, self.topics[owner]) if owner in self.topics else None

    def due_s(self, owners: Iterable[str]) -> float:
        return -math.inf


class CountedCells(Cells):
    """Counts reads."""

    reads = 0

    async def read(self, key: str) -> StoredCell | None:
        self.reads += 1
        return await super().read(key)


class StubbornRecord(OneRecord):
    """Does not answer the next write when ``silent``, and has room for ``room`` members."""

    silent = False
    room = 100

    async def update(self, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
        if self.silent:
            self.silent = False
            raise StoreUnavailable("no answer", operation="put", object=group)
        if len(change(self.record).members) > self.room:
            raise LimitExceeded("too many members", operation="put", object=group)
        return await super().update(group, change)


class Scene:
    """One member, and others that only the record, the watch and the cells of queues know of."""

    def __init__(self, queues: int, *others: str, consumed: Mapping[str, int] | None = None) -> None:
        self.clock, self.table, self.watch, self.member = HandClock(), MemoryTable(), ToldWatch(), Living()
        self.records = StubbornRecord(queues)
        for one in (ME, *others):
            self.records.record = self.records.record.joined_by(one)
        runtime = Runtime(clock=self.clock, random=random.Random(7), threads=False)
        self.cells = CountedCells(self.table, runtime)
        context = MemberContext(
            cells=self.cells,
            groups=self.records,
            watch=self.watch,
            member=self.member,
            clock=self.clock,
            group=GROUP,
            lease_s=LEASE_S,
        )
        self.ownership = Ownership(context, {TOPIC: queues} if consumed is None else consumed)

    async def own(self, owner: str, *queues: int) -> None:
        for queue in queues:
            data = b"x" * 16 + encode_cell(QueueCell().taken_by(owner))
            await self.table.put(queue_key(GROUP, TOPIC, queue), data, expected=None)

    async def reads_at(self, now_s: float) -> int:
        """The number of cells that a round at this time reads."""
        self.clock.now_s, before = now_s, self.cells.reads
        await self.ownership.round()
        return self.cells.reads - before

    async def looked_at(self, now_s: float) -> set[str]:
        """The members that a round at this time looks at first."""
        self.clock.now_s = now_s
        self.watch.looks.clear()
        await self.ownership.round()
        return self.watch.looks[0]


async def test_a_queue_that_the_group_has_not_begun_on_is_not_taken() -> None:
    scene = Scene(2, consumed={TOPIC: 3, "payments": 1})
    assert sorted((await scene.ownership.round()).taken) == [(TOPIC, 0), (TOPIC, 1)]


# --- Members --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "taken"), [(None, 1), ((TOPIC,), 1), ((ALL,), 1), (("payments",), 2), (("payments", TOPIC), 1), ((), 2)]
)
async def test_queues_are_shared_with_members_that_consume_their_topic(listed: tuple[str, ...] | None, taken: int) -> None:
    scene = Scene(2, "b/1")
    scene.watch.topics = {ME: ("what it consumed before",)} | ({} if listed is None else {"b/1": listed})
    assert len((await scene.ownership.round()).taken) == taken


async def test_queues_are_not_shared_with_a_member_that_is_over() -> None:
    scene = Scene(4, "b/1")
    scene.watch.dead.add("b/1")
    assert numbers((await scene.ownership.round()).taken) == [0, 1, 2, 3]
    assert scene.records.record.members == (ME,)


@pytest.mark.parametrize("dead", [(), ("b/1",)])
async def test_a_full_group_takes_a_member_in_place_of_one_that_is_over_and_no_more(dead: tuple[str, ...]) -> None:
    scene = Scene(2, "b/1", "c/1")
    scene.records.record = scene.records.record.left_by(ME)
    scene.records.room = 2
    scene.watch.dead = set(dead)
    if dead:
        assert len((await scene.ownership.round()).taken) == 1
        return
    with pytest.raises(LimitExceeded):
        await scene.ownership.round()
    assert scene.records.record.members == ("b/1", "c/1")


async def test_everybody_is_watched_below_the_share_and_seven_neighbours_with_it() -> None:
    others = [f"w{number}/1" for number in range(9)]
    scene = Scene(12, *others)
    for queue, other in enumerate((*others, others[0])):
        await scene.own(other, queue)
    assert await scene.looked_at(0.0) == set(others)
    assert await scene.looked_at(1.0) == set(others), "at the round before it had no queue yet"
    neighbours = await scene.looked_at(2.0)
    assert len(neighbours) == 7
    assert await scene.looked_at(2 * LEASE_S - 0.1) == neighbours
    assert await scene.looked_at(2 * LEASE_S) == set(others), "the others are looked at every two leases"
    assert await scene.looked_at(2 * LEASE_S + 0.1) == neighbours


async def test_everybody_is_watched_by_who_would_take_a_queue_when_another_one_ends() -> None:
    """By a neighbour it would learn of the end a heartbeat late."""
    others = [f"w{number}/1" for number in range(9)]
    scene = Scene(10, *others)
    for queue, other in enumerate(others):
        await scene.own(other, queue)
    assert [await scene.looked_at(now_s) for now_s in (0.0, 1.0, 2.0)] == [set(others)] * 3


async def test_a_rest_ends_when_one_of_the_living_dies() -> None:
    scene = Scene(1, "b/1", "c/1")
    scene.watch.dead.add("b/1")
    await scene.ownership.round()
    scene.watch.looks.clear()

    def c_dies() -> None:
        scene.clock.now_s += 0.3
        scene.watch.dead.add("c/1")

    scene.watch.on_look = c_dies
    await scene.ownership.rest()
    assert scene.watch.looks == [{"c/1"}]


async def test_a_member_that_could_not_say_that_it_leaves_says_it_in_the_next_round() -> None:
    scene = Scene(2)
    await scene.ownership.round()
    scene.records.silent = True
    with pytest.raises(StoreUnavailable):
        await scene.ownership.give_up()
    assert numbers((await scene.ownership.round()).drain) == [0, 1]
    assert scene.records.record.members == ()


# --- Queues ---------------------------------------------------------------------------------------------------------------------


async def test_a_member_with_its_share_reads_no_cells_of_others() -> None:
    scene = Scene(2, "b/1")
    await scene.own("b/1", 0)
    assert [await scene.reads_at(now_s) for now_s in (0.0, 1.0)] == [2, 0]


async def test_all_are_read_less_and_less_often_and_what_may_be_released_soon() -> None:
    scene = Scene(6, "b/1", "c/1")
    await scene.own("b/1", 0, 1, 2, 3)
    await scene.own("c/1", 4, 5)
    assert [await scene.reads_at(now_s) for now_s in (0.0, 0.0, 0.3, 0.5, 0.6)] == [6, 0, 4, 0, 4]
    assert numbers(scene.ownership.expected) == [0, 1, 2, 3], "the third member has no more than its share"
    assert [await scene.reads_at(now_s) for now_s in (0.7, 1.4, 2.2, 2.8)] == [6, 6, 4, 6]
    scene.records.record = scene.records.record.left_by("c/1")
    assert await scene.reads_at(2.9) == 6, "with other members, shares are others"
    assert await scene.reads_at(3.0) == 0


async def test_queues_of_owners_that_are_no_members_are_expected() -> None:
    """An owner that is not listed in the record yet, or any more, has no share."""
    scene = Scene(2)
    await scene.own("stranger/1", 0)
    await scene.ownership.round()
    assert numbers(scene.ownership.keepers) == [1]
    assert numbers(scene.ownership.expected) == [0]


async def test_what_was_not_released_for_long_is_expected_no_more_and_read_less_often() -> None:
    scene = Scene(4, "b/1")
    await scene.own("b/1", 0, 1, 2, 3)
    await scene.ownership.round()
    assert numbers(scene.ownership.expected) == [0, 1, 2, 3]
    assert await scene.reads_at(10.0) == 4
    assert scene.ownership.expected == frozenset()
    assert [await scene.reads_at(now_s) for now_s in (10.4, 10.7)] == [0, 4]
