"""Acknowledgements that go together."""

from __future__ import annotations

import asyncio

from penstock.gateway.consuming.gate import Gate
from penstock.log import Clock


class Times(Clock):
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


def test_who_comes_alone_does_not_wait() -> None:
    async def run() -> None:
        times = Times()
        gate = Gate(times)
        for _ in range(3):
            passing = asyncio.ensure_future(gate.through())
            await asyncio.sleep(0)
            assert passing.done()
            times.now_s += 0.003

    asyncio.run(run())


def test_those_behind_wait_for_one_another() -> None:
    async def run() -> None:
        times = Times()
        gate = Gate(times)
        await gate.through()
        others = [asyncio.ensure_future(gate.through()) for _ in range(20)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in others)
        times.now_s += 0.001
        await asyncio.gather(*others)
        times.now_s += 0.009
        next_one = asyncio.ensure_future(gate.through())
        await asyncio.sleep(0)
        assert not next_one.done(), "20 went together, so 10 ms are worth waiting"
        await next_one
        times.now_s += 0.001
        await asyncio.wait_for(gate.through(), 1)

    asyncio.run(run())


def test_who_gives_up_waiting_does_not_shut_it_for_others() -> None:
    async def run() -> None:
        gate = Gate(Times())
        await gate.through()
        first, second = asyncio.ensure_future(gate.through()), asyncio.ensure_future(gate.through())
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(run())
