"""A machine's clock that is off or is set: every kind of consumer goes by the store's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

import pytest

from penstock import Message, aio
from penstock.log import Runtime, SystemClock, TopicSettings
from penstock.log.stores import MemoryStore
from tests.consumers.test_consumer import KINDS
from tests.lakes import TIMEOUT_S

HOUR_MS = 3_600_000
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


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_on_a_machine_with_a_wrong_clock_goes_by_the_store_s(
    kind: str, offset_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    true, machine, store = SystemClock(), Machine(), MemoryStore()
    machine.offset_ms = offset_ms

    async def main() -> None:
        await topic(store)
        async with aio.connect(store=store, runtime=Runtime(clock=machine)) as lake:
            await KINDS[kind](lake)
            assert lake.runtime.clock.wall_ms() == pytest.approx(true.wall_ms(), abs=SLACK_MS)

    run(main())
    (said,) = [record for record in caplog.records if record.name == "penstock.log"]
    assert said.levelno == logging.WARNING
    observed = f"observed: {offset_ms / 60_000:+.1f} minutes). set the clock (NTP)"
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
