"""Coordinators die, overlap, and carry out operators' orders; members go on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from penstock import aio
from penstock.coordinator.cells.document import Document
from penstock.coordinator.cells.keys import classic_key, positions_key
from penstock.coordinator.classic.members import MEMBERS_CELL, ClassicGroup
from penstock.gateway.kafka.groups.coordinator import HOLD_S
from penstock.gateway.kafka.groups.membership.group import GroupLimits, GroupState
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from tests.gateway.kafka.groups.stage import Gateway, Member, commit, fetch, open_lake, together
from tests.gateway.kafka.stage import until
from tests.lakes import Gate, Refusing


@asynccontextmanager
async def two_gateways() -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Each believes to be alone."""
    async with open_lake() as lake:
        both = Gateway(lake, "g0"), Gateway(lake, "g1")
        yield both
        for one in both:
            await one.close()


async def test_members_go_on_without_a_rebalance_when_their_coordinator_dies() -> None:
    async with two_gateways() as (dead, heir):
        a, b = Member(dead), Member(dead, instance="i")
        await together(a, b)
        assert await a.commit("orders", {0: 5}) == {0: 0}
        a.gateway = b.gateway = heir
        assert [await a.beat(), await b.beat()] == [0, 0]
        assert await b.commit("orders", {1: 7}) == {1: 0}
        assert await fetch(heir, "billing", "orders", 0, 1) == {0: 5, 1: 7}
        assert await b.sync() == 0
        assert b.assignment == b.id.encode()


async def test_members_wait_for_a_gateway_that_can_read_what_a_later_one_wrote() -> None:
    async with two_gateways() as (later, earlier):
        member = Member(later)
        await member.enter()
        lake = later.lake
        cell = Document(lake.coordination.cells, lake.runtime.clock, classic_key("billing"), MEMBERS_CELL, absent=ClassicGroup())
        await cell.change(lambda found: replace(found, format=99))
        member.gateway = earlier
        assert await member.beat() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await member.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_rebalance_that_its_coordinator_did_not_live_to_end_is_begun_again() -> None:
    async with two_gateways() as (dead, heir):
        a, b = Member(dead), Member(dead)
        await a.enter()
        joining = asyncio.ensure_future(b.join())
        await until(lambda: dead.coordinator.groups["billing"].group.state is GroupState.PREPARING)
        await a.join()
        await joining
        a.gateway = b.gateway = heir
        assert await a.sync(**{a.id: b"x", b.id: b"y"}) == ErrorCode.ILLEGAL_GENERATION
        assert await b.sync() == ErrorCode.UNKNOWN_MEMBER_ID
        b.id = ""
        await together(a, b)
        assert a.generation == b.generation


async def test_a_former_coordinator_writes_nothing() -> None:
    async with two_gateways() as (former, present):
        member = Member(former)
        await member.enter()
        assert await member.commit("orders", {0: 5}) == {0: 0}
        assert await fetch(present, "billing", "orders", 0) == {0: 5}
        assert await member.commit("orders", {0: 6}) == {0: ErrorCode.NOT_COORDINATOR}
        assert await member.beat() == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is left to the other for some seconds"
        assert HOLD_S > 1
        assert await fetch(present, "billing", "orders", 0) == {0: 5}


async def test_a_former_coordinator_ends_no_rebalance() -> None:
    async with two_gateways() as (former, present):
        member = Member(former)
        await member.join()
        assert await fetch(present, "billing", "orders", 0) == {0: -1}
        assert await member.sync(**{member.id: b"x"}) == ErrorCode.NOT_COORDINATOR
        member.gateway = present
        assert await member.beat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_who_waits_is_told_when_its_coordinator_gives_up() -> None:
    async with two_gateways() as (former, _):
        a, b = Member(former), Member(former)
        await a.enter()
        joining = asyncio.ensure_future(b.join())
        await until(lambda: former.coordinator.groups["billing"].group.state is GroupState.PREPARING)
        await former.close()
        assert await joining == ErrorCode.NOT_COORDINATOR


async def test_a_reset_sends_members_away_and_is_carried_out() -> None:
    async with two_gateways() as (one, _):
        member = Member(one)
        await member.enter()
        await member.commit("orders", {0: 5, 1: 6})
        await reset(one.lake, 0)
        await one.coordinator.look()
        assert await member.beat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.commit("orders", {0: 7}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await fetch(one, "billing", "orders", 0, 1) == {0: 0, 1: 6}
        member.id = ""
        await member.enter()
        assert await member.commit("orders", {0: 1}) == {0: 0}
        await one.coordinator.look()
        assert await member.beat() == 0
        assert await fetch(one, "billing", "orders", 0) == {0: 1}


async def reset(lake: aio.Lake, queue: int) -> None:
    await lake.reset_offsets("billing", "orders", "earliest", queues=[queue])


async def test_a_reset_is_carried_out_by_whoever_takes_the_group_over() -> None:
    async with two_gateways() as (dead, heir):
        member = Member(dead)
        await member.enter()
        await member.commit("orders", {0: 5, 1: 6})
        await reset(dead.lake, 0)
        member.gateway = heir
        assert await member.commit("orders", {0: 7}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await fetch(heir, "billing", "orders", 0, 1) == {0: 0, 1: 6}
        member.id = ""
        await member.enter()
        third = Gateway(heir.lake, "g2")
        member.gateway = third
        assert await member.beat() == 0, "it was carried out, so nobody is sent away again"
        await third.close()


async def test_a_group_that_an_operator_deletes_is_gone() -> None:
    async with two_gateways() as (one, _):
        member = Member(one)
        await member.enter()
        await member.commit("orders", {0: 5})
        await one.lake.delete_group("billing", force=True)
        await one.coordinator.look()
        assert await member.beat() == ErrorCode.UNKNOWN_MEMBER_ID
        member.id = ""
        await member.enter()
        assert member.generation > 1
        assert await fetch(one, "billing", "orders", 0) == {0: -1}


class Writes:
    """Hears of each write of a cell by a gateway. Those of one cell wait."""

    def __init__(self, gateway: Gateway, held: str = "") -> None:
        self.keys: list[str] = []
        self.released = asyncio.Event()
        self._held = held
        self._put = gateway.lake.coordination.table.put
        gateway.lake.coordination.cells._table.put = self._heard  # type: ignore[method-assign, assignment]

    async def _heard(self, key: str, data: bytes, **rest: object) -> object:
        self.keys.append(key)
        if key == self._held:
            await self.released.wait()
        return await self._put(key, data, **rest)  # type: ignore[arg-type]


POSITIONS = positions_key("billing", "orders")


async def test_who_asks_for_positions_is_told_what_was_accepted_before() -> None:
    async with two_gateways() as (one, _):
        await commit(one, "billing", "orders", {0: 5})
        writes = Writes(one, POSITIONS)
        committing = asyncio.ensure_future(commit(one, "billing", "orders", {0: 6}))
        await until(lambda: POSITIONS in writes.keys)
        fetching = asyncio.ensure_future(fetch(one, "billing", "orders", 0))
        assert await fetch(one, "billing", "never-made", 0) == {0: -1}
        assert not fetching.done()
        writes.released.set()
        assert await fetching == {0: 6}
        assert await committing == {0: 0}


async def test_a_commit_is_void_once_the_next_generation_has_begun() -> None:
    async with two_gateways() as (one, _):
        a, b = Member(one), Member(one)
        await a.enter()
        writes = Writes(one, POSITIONS)
        committing = asyncio.ensure_future(a.commit("orders", {0: 5}))
        await until(lambda: POSITIONS in writes.keys)
        await together(a, b)
        writes.released.set()
        assert await committing == {0: ErrorCode.ILLEGAL_GENERATION}
        assert await fetch(one, "billing", "orders", 0) == {0: -1}


async def test_commits_that_come_during_a_write_share_the_next() -> None:
    async with two_gateways() as (one, _):
        await commit(one, "billing", "orders", {0: 0})
        writes = Writes(one)
        codes = await asyncio.gather(*(commit(one, "billing", "orders", {n % 4: n}) for n in range(100)))
        assert all(not code for one_of in codes for code in one_of.values())
        assert await fetch(one, "billing", "orders", 0, 1, 2, 3) == {0: 96, 1: 97, 2: 98, 3: 99}
        assert 1 <= writes.keys.count(POSITIONS) <= 4
        assert classic_key("billing") not in writes.keys


async def test_what_no_cell_holds_is_refused_and_the_rest_stays() -> None:
    async with open_lake() as lake:
        await lake.create_topic("many", TopicSettings(queues=64))
        one = Gateway(lake, "g0")
        codes = [await commit(one, "billing", "many", {queue: 1}, metadata="é" * 2_048) for queue in range(64)]
        refused = sum(code == ErrorCode.OFFSET_METADATA_TOO_LARGE for found in codes for code in found.values())
        assert 0 < refused < 30
        assert await commit(one, "billing", "many", {0: 2}) == {0: 0}
        assert await fetch(one, "billing", "many", 0) == {0: 2}
        await one.close()


async def test_many_first_calls_take_a_group_over_once() -> None:
    async with two_gateways() as (dead, heir):
        members = [Member(dead) for _ in range(3)]
        await together(*members)
        for member in members:
            member.gateway = heir
        assert await asyncio.gather(*(member.beat() for member in members)) == [0, 0, 0]
        assert await asyncio.gather(*(member.beat() for member in members)) == [0, 0, 0]
        assert len((await heir.ask(ApiKey.DESCRIBE_GROUPS, groups=["billing"])).groups[0].members) == 3


async def test_a_takeover_that_fails_when_nobody_waits_any_more_is_no_error_of_the_loop() -> None:
    store, told = Refusing(MemoryStore()), list[dict[str, object]]()
    gate = Gate(store, lambda call: call.verb == "get")

    async def give_up(gateway: Gateway) -> None:
        gate.closed = True
        asking = asyncio.ensure_future(fetch(gateway, "billing", "orders", 0))
        await until(gate.held.is_set)
        asking.cancel()
        await asyncio.wait((asking,))

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with open_lake(gate) as lake:
        gateway = Gateway(lake, "g0")
        await give_up(gateway)
        store.refuses = lambda _: True
        gate.open()
        await until(lambda: not gateway.coordinator._taking)
        await gateway.close()
    gc.collect()
    assert not told


async def test_a_gateway_with_as_many_groups_as_it_may_have_forgets_one_without_members() -> None:
    async with open_lake() as lake:
        gateway = Gateway(lake, "g0", limits=GroupLimits(initial_delay_s=0.0, groups_max=3))
        first, second, third, fourth, fifth = (Member(gateway, group=name) for name in ("g1", "g2", "g3", "g4", "g5"))
        for member in (first, second, third):
            assert await member.enter() == 0
        assert await first.commit("orders", {0: 5}) == {0: 0}
        assert await fourth.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [await first.leave(), await second.leave()] == [0, 0]
        assert await fourth.enter() == 0
        assert set(gateway.coordinator.groups) == {"g2", "g3", "g4"}
        assert [await third.beat(), await fourth.beat()] == [0, 0]
        assert await fetch(gateway, "g1", "orders", 0) == {0: 5}, "it takes the place of g2"
        assert await fifth.enter() == 0
        assert await Member(gateway, group="g6").join() == ErrorCode.COORDINATOR_NOT_AVAILABLE, "all have members"
        await gateway.close()


async def test_a_group_that_is_given_up_while_it_is_written_takes_nothing_of_its_members_share() -> None:
    gate = Gate(MemoryStore(), lambda call: call.is_write)
    async with open_lake(gate) as lake:
        gateway = Gateway(lake, "g0")
        member = Member(gateway)
        await member.join()
        group = gateway.coordinator.groups["billing"]
        gate.closed = True
        syncing = asyncio.ensure_future(member.sync(**{member.id: b"x"}))
        await until(gate.held.is_set)
        gateway.peers.names = ("g1",)
        assert await member.beat() == ErrorCode.NOT_COORDINATOR
        gate.open()
        assert await syncing == ErrorCode.NOT_COORDINATOR
        await until(lambda: not group._lock.locked())
        assert gateway.coordinator._held_bytes._all == 0
        await gateway.close()


async def test_gathered_commits_wait_for_one_another_and_for_nobody_who_joins_leaves_or_asks() -> None:
    async with open_lake() as lake:
        one = Gateway(lake, "g0", limits=GroupLimits(initial_delay_s=0.0, gather_commits_s=3_600.0))
        a, b = Member(one), Member(one)
        await a.enter()
        for offset in (1, 2):
            assert await a.commit("orders", {0: offset}) == {0: 0}, "a single member waits for nobody"
        await together(a, b)
        writes = Writes(one)
        committing = [asyncio.ensure_future(each.commit("orders", {queue: 3})) for queue, each in enumerate((a, b))]
        positions = one.coordinator.groups["billing"]._positions["orders"]
        await until(lambda: len(positions._waiting) == 2)
        assert POSITIONS not in writes.keys
        assert await fetch(one, "billing", "orders", 0, 1) == {0: 3, 1: 3}
        assert await asyncio.gather(*committing) == [{0: 0}, {1: 0}]
        assert writes.keys == [POSITIONS]
        waiting = asyncio.ensure_future(a.commit("orders", {0: 4}))
        await until(lambda: bool(positions._waiting))
        assert await b.leave() == 0
        assert await waiting == {0: 0}
        await one.close()
