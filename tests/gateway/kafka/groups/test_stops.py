"""A gateway that was stopped knows it, by whatever looks first."""

from __future__ import annotations

import asyncio

from penstock.gateway.kafka.groups.stops import LATE_S, Stops
from penstock.log import SystemClock


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
