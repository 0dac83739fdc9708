"""The store's time from below: slow answers, stores that cut their time, machines that run fast, stores that are set back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordinator.timers.store_time import ASK_EVERY_S, StoreTime, StoreTimeBound, least_us
from penstock.log.errors import StoreUnavailable
from penstock.log.stores import MemoryStore
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock
from tests.thorough import examples


class Slow(MemoryStore):
    """Its answers take a while, before and after its clock was read."""

    def __init__(self, *, before_s: float = 0.0, after_s: float = 0.0, cut: bool = False) -> None:
        super().__init__()
        self.before_s, self.after_s, self.cut = before_s, after_s, cut
        self.true = MemoryStore()
        self.asked = 0
        self.down = False
        self.back_ms = 0

    async def clock_ms(self) -> int:
        self.asked += 1
        if self.down:
            raise StoreUnavailable("down")
        await asyncio.sleep(self.before_s)
        now_ms = await self.true.clock_ms() - self.back_ms
        await asyncio.sleep(self.after_s)
        return now_ms // 1000 * 1000 + 500 if self.cut else now_ms


class Asked:
    """A store's time as a machine follows it, and the store's clock itself."""

    def __init__(self, store: Slow, kernel: Kernel, *, drift: float = 0.0, offset_ms: int = 0) -> None:
        self.true = SimClock(kernel.loop)
        store.true = MemoryStore(clock=self.true)
        process = kernel.process("m", clock=SimClock(kernel.loop, offset_ms=offset_ms, rate=1 + drift))
        self.time = StoreTime(store, process.clock)

    async def behind_us(self) -> int:
        now_us = await self.time.now_us()
        return 1000 * self.true.wall_ms() - now_us


def played(script: Callable[[Kernel], Coroutine[Any, Any, None]]) -> None:
    kernel = Kernel("store time")
    kernel.run(script(kernel))


@given(
    before_s=st.floats(0, 30),
    after_s=st.floats(0, 30),
    phase_s=st.floats(0, 1),
    cut=st.booleans(),
    drift=st.floats(-0.0004, 0.0004),
    offset_ms=st.integers(-300_000, 300_000),
)
@settings(max_examples=examples(50))
def test_it_is_never_ahead_of_the_store(
    before_s: float, after_s: float, phase_s: float, cut: bool, drift: float, offset_ms: int
) -> None:
    async def script(kernel: Kernel) -> None:
        asked = Asked(Slow(before_s=before_s, after_s=after_s, cut=cut), kernel, drift=drift, offset_ms=offset_ms)
        await asyncio.sleep(phase_s)
        for _ in range(4):
            assert await asked.behind_us() >= -1000  # the store's clock is read in whole milliseconds
            await asyncio.sleep(100)

    played(script)


def test_it_is_behind_by_what_an_answer_takes_to_come_back() -> None:
    async def script(kernel: Kernel) -> None:
        assert await Asked(Slow(before_s=5, after_s=0.03), kernel).behind_us() <= 32_000

    played(script)


def test_a_store_that_cuts_its_time_is_asked_until_it_is_known_well() -> None:
    async def script(kernel: Kernel) -> None:
        asked = Asked(Slow(after_s=0.03, cut=True), kernel)
        await asyncio.sleep(0.9)
        assert await asked.behind_us() <= 350_000

    played(script)


def test_the_best_of_several_answers_counts() -> None:
    assert least_us([StoreTimeBound(1_000, 10.0), StoreTimeBound(1_200, 10.1), StoreTimeBound(1_010, 10.2)], 10.2) == pytest.approx(
        1_300_000, abs=100
    )
    assert least_us([], 10.0) is None


def test_a_store_that_is_set_back_is_followed() -> None:
    async def script(kernel: Kernel) -> None:
        store = Slow()
        asked = Asked(store, kernel)
        assert await asked.behind_us() <= 1000
        store.back_ms = 3_600_000
        behind_us = [0]
        for _ in range(6):
            await asyncio.sleep(ASK_EVERY_S)
            behind_us.append(await asked.behind_us())
        assert behind_us[-1] > 3_599_000_000

    played(script)


def test_without_answers_it_goes_on() -> None:
    async def script(kernel: Kernel) -> None:
        store = Slow()
        asked = Asked(store, kernel)
        await asked.behind_us()
        store.down = True
        await asyncio.sleep(1000)
        assert 0 <= await asked.behind_us() <= 600_000

    played(script)


def test_a_store_that_never_answered_raises() -> None:
    async def script(kernel: Kernel) -> None:
        store = Slow()
        store.down = True
        with pytest.raises(StoreUnavailable):
            await Asked(store, kernel).behind_us()

    played(script)


def test_it_asks_once_a_minute() -> None:
    async def script(kernel: Kernel) -> None:
        store = Slow()
        asked = Asked(store, kernel)
        for _ in range(600):
            await asked.behind_us()
            await asyncio.sleep(0.5)
        assert store.asked <= 6

    played(script)
