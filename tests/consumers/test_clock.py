"""A machine's clock that is off or is set: every kind of consumer goes by the store's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock import Message, aio
from penstock.consumers.membership import Subscription
from penstock.consumers.pull import PullConsumer
from penstock.coordinator.coordination import Coordination
from penstock.log import LogLake, Runtime, SystemClock, TopicSettings
from penstock.log.errors import ClockSkewError
from penstock.log.stores import MemoryStore
from tests.consumers.receiving import Member, Scene, bodies, push
from tests.consumers.test_consumer import KINDS
from tests.lakes import TIMEOUT_S, ReadOnlyCredentials
from tests.playing import played_on
from tests.simulation.process import SimClock

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SLACK_MS = 2_500
"""Of what a store says of its time."""


class Machine(SystemClock):
    """This machine's clocks, of which the wall clock can be set."""

    offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


async def topic(store: MemoryStore) -> None:
    async with aio.connect(store=store, maintenance=False) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))


def run(main: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(main, TIMEOUT_S))


async def goes_by_the_stores(kind: str, offset_ms: int) -> None:
    """A consumer that begins on a machine whose clock is so much ahead."""
    true, machine, store = SystemClock(), Machine(), MemoryStore()
    machine.offset_ms = offset_ms
    await topic(store)
    async with aio.connect(store=store, runtime=Runtime(clock=machine)) as lake:
        await KINDS[kind](lake)
        assert lake.runtime.clock.wall_ms() == pytest.approx(true.wall_ms(), abs=SLACK_MS)


@pytest.mark.parametrize("offset_ms", [4 * MINUTE_MS, -4 * MINUTE_MS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_on_a_machine_with_a_wrong_clock_goes_by_the_store_s(
    kind: str, offset_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    run(goes_by_the_stores(kind, offset_ms))
    assert not [record for record in caplog.records if record.name == "penstock.log"]


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
def test_a_broadcast_consumer_runs_with_a_clock_that_is_far_off(offset_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    """It writes nothing to the log."""
    run(goes_by_the_stores("broadcast", offset_ms))
    (said,) = [record for record in caplog.records if record.name == "penstock.log"]
    assert said.levelno == logging.WARNING
    observed = f"observed: {offset_ms / MINUTE_MS:+.1f} minutes). set the clock (NTP)"
    assert "due times follow the store's clock, but this machine's clock is too far from the store's" in said.getMessage()
    assert observed in said.getMessage()


def test_what_a_consumer_writes_for_the_first_time_after_a_step_is_written() -> None:
    """A dead letter, say: time follows the store's, and the machine's clock has no part in it any more."""
    machine, store = Machine(), MemoryStore()

    async def main() -> None:
        await topic(store)
        async with aio.connect(store=store, runtime=Runtime(clock=machine), maintenance=False) as lake:
            await KINDS["push"](lake)
            machine.offset_ms = -HOUR_MS
            producer = await lake.producer("orders")
            assert (await producer.send(Message(b"1"))).offset == 0

    run(main())


# --- Members of a group, in virtual time ------------------------------------------------------------------------------------------------


def off(scene: Scene, by_ms: int) -> Member:
    """A process on a machine whose clock is so much ahead."""
    return Member(scene, scene.kernel.process("off", clock=SimClock(scene.kernel.loop, offset_ms=by_ms)))


async def pull(member: Member) -> PullConsumer:
    consumer = PullConsumer(member.lake, member.coordination, group="audit", subscriptions={"orders": Subscription()}, stated={})
    await member.run(consumer.start())
    return consumer


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("consumes", [Member.consume, push, pull])
@played_on(Scene)
async def test_who_is_an_hour_off_does_not_join_until_its_clock_is_set(scene: Scene, consumes: Any, by_ms: int) -> None:
    """It could write no dead letter."""
    member = off(scene, by_ms)
    with pytest.raises(ClockSkewError) as raised:
        await consumes(member)
    assert raised.value.operation == "join a consumer group"
    assert raised.value.observed == f"{by_ms / MINUTE_MS:+.1f} minutes"
    assert not [call for call in scene.table.calls if call.verb == "put"], "nobody sees a member, or a group"
    member.process.step_clock(-by_ms)
    await consumes(member)
    await scene.let_pass(5)
    assert (await scene.cell()).owner


@played_on(Scene)
async def test_a_member_whose_clock_is_set_an_hour_off_goes_on_and_others_join_beside_it(scene: Scene) -> None:
    one = scene.member()
    await one.consume()
    one.process.step_clock(HOUR_MS)
    await one.consume(group="another")
    await one.send("a1")
    assert bodies(await one.receive()) == ["a1"]


async def test_who_only_reads_need_not_agree_on_the_time() -> None:
    machine = Machine()
    machine.offset_ms = HOUR_MS
    async with LogLake(MemoryStore(), runtime=Runtime(clock=machine), read_only=True) as lake:
        await lake.agree_on_time("look")


@played_on(Scene)
async def test_where_the_store_does_not_tell_its_time_members_join_by_the_machines(scene: Scene) -> None:
    member = off(scene, HOUR_MS)
    member.lake = LogLake(ReadOnlyCredentials(scene.store.client(member.process)), runtime=member.process.runtime)
    member.coordination = Coordination(scene.table.client(member.process), member.lake.runtime)
    await scene.member("sender").send("a1")
    await member.consume()
    assert bodies(await member.receive()) == ["a1"]
