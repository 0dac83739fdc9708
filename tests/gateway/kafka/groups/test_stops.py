"""A gateway that was stopped knows it, by whatever looks first."""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.gateway.kafka.groups.coordinated_group import GRACE_S, CoordinatedGroup
from penstock.gateway.kafka.groups.member_bytes import MemberBytes
from penstock.gateway.kafka.groups.membership.calls import Sync
from penstock.gateway.kafka.groups.membership.group import GroupLimits, MemberClaim
from penstock.gateway.kafka.groups.membership.joining import Join
from penstock.gateway.kafka.groups.membership.rebalancing import next_due_s
from penstock.gateway.kafka.groups.stops import LATE_S, Stops
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import SystemClock
from tests.gateway.kafka.groups.members import RANGE, SESSION_S
from tests.gateway.kafka.groups.stage import open_lake
from tests.gateway.kafka.stage import until


class Clock(SystemClock):
    """A clock that a test puts forward."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


async def test_a_stop_is_counted_once() -> None:
    clock = Clock()
    stops = Stops(clock)
    clock.now_s += 1_000
    assert stops.count() == 0, "nobody watched"
    watching = asyncio.ensure_future(stops.watch())
    await asyncio.sleep(0)
    clock.now_s += 1 + LATE_S
    assert stops.count() == 0
    clock.now_s += 1.1 + LATE_S
    assert [stops.count(), stops.count()] == [1, 1]
    clock.now_s += 60
    assert stops.count() == 2
    watching.cancel()


async def test_members_have_some_seconds_behind_a_stop_and_no_more() -> None:
    clock = Clock()
    stops = Stops(clock)
    watching = asyncio.ensure_future(stops.watch())
    async with open_lake() as lake:
        record = await lake.coordination.groups.ensure_kafka("billing")
        group = CoordinatedGroup(
            "billing",
            record,
            cells=lake.coordination.cells,
            clock=clock,
            stops=stops,
            coordinator="g0",
            limits=LIMITS,
            held=MemberBytes(LIMITS),
        )
        await group.take()
        joined = await group.join(first_join)
        asked = MemberClaim(joined.member_id)
        await group.sync(partial(synced, claim=asked, generation=joined.generation))
        clock.now_s += 100
        seen = group.group
        assert await group.leave([NOBODY]) == (ErrorCode.UNKNOWN_MEMBER_ID,), "it wakes who keeps the time"
        await until(lambda: group.group is not seen and next_due_s(group.group) > clock.now_s)
        for _ in range(int(GRACE_S) - 1):
            clock.now_s += 1
            stops.count()
            await group.leave([NOBODY])
        assert await group.heartbeat(asked, joined.generation) is ErrorCode.NONE
        for _ in range(int(SESSION_S) + 1):
            clock.now_s += 1
            stops.count()
        await group.leave([NOBODY])
        await until(lambda: not group.group.members)
        group.forget()
    watching.cancel()


LIMITS = GroupLimits(initial_delay_s=0.0)
NOBODY = MemberClaim("nobody")


def first_join(call: int) -> Join:
    return Join(
        call=call,
        member_id="",
        new_id="a",
        instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        principal="",
        session_s=SESSION_S,
        rebalance_s=60.0,
        protocol_type="consumer",
        protocols=RANGE,
        needs_id=False,
        skips_assignment=False,
    )


def synced(call: int, *, claim: MemberClaim, generation: int) -> Sync:
    return Sync(call=call, claim=claim, generation=generation, protocol_type=None, protocol=None, assignments={})
