"""A lake keeps the store's time, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.log import LogLake, Runtime
from penstock.log.errors import StoreUnavailable
from penstock.log.lake import CLOCK_RETRY_S, CLOCK_SYNC_S
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.simulation.kernel import Kernel
from tests.simulation.process import EPOCH_MS, SimClock

T = TypeVar("T")

HOUR_MS = 3_600_000


class Unavailable(StoreWrapper):
    """A store that says its time when it is asked for the third time."""

    asked = 0

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self.asked += 1
        if self.asked < 3:
            raise StoreUnavailable("the store does not answer", operation="clock")
        return await run()


def test_a_store_that_does_not_say_its_time_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    kernel = Kernel("clock", shuffle=False)
    true, machine = SimClock(kernel.loop), SimClock(kernel.loop, offset_ms=HOUR_MS)
    store = Unavailable(MemoryStore(clock=true))

    async def main() -> None:
        lake = LogLake(store, runtime=Runtime(clock=machine, threads=False))
        clock = lake.runtime.clock
        await asyncio.gather(lake.keep_time(), lake.keep_time())
        assert store.asked == 1
        machine.offset_ms += HOUR_MS
        assert clock.wall_ms() == EPOCH_MS + HOUR_MS, "it goes on by what this machine said at the start"
        await asyncio.sleep(2.5 * CLOCK_RETRY_S)
        assert store.asked == 3
        assert clock.wall_ms() == true.wall_ms()
        await asyncio.sleep(CLOCK_SYNC_S)
        assert store.asked == 4
        await lake.close()

    kernel.run(main())
    assert [record.getMessage().partition(" (")[0] for record in caplog.records if record.name == "penstock.log"] == [
        "the store did not say its time; meanwhile time goes on by this machine's clocks: the store does not answer",
        "this machine's clock was set ahead by 3600.0 s; due times and store timestamps do not follow: nothing is early or late for it",
        "the store did not say its time; meanwhile time goes on by this machine's clocks: the store does not answer",
        *["due times follow the store's clock, but this machine's clock is too far from the store's"] * 2,
    ]
