"""Time as the store has it, on a machine whose clock is off, or is set meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.log import LogLake, Runtime
from penstock.log.clock import StoreClock
from penstock.log.errors import StoreUnavailable
from penstock.log.lake import CLOCK_SYNC_S
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.lakes import ReadOnlyCredentials
from tests.log.topics import HandClock

T = TypeVar("T")

HOUR_MS = 3_600_000


class Machine:
    """A machine's clock beside the true time, which the store has."""

    def __init__(self, *, offset_ms: int = 0) -> None:
        self.true = HandClock()
        self.offset_ms = offset_ms
        self.store = MemoryStore(clock=self.true)

    def wall_ms(self) -> int:
        return self.true.wall_ms() + self.offset_ms

    def monotonic_s(self) -> float:
        return self.true.monotonic_s()


def synced(machine: Machine) -> StoreClock:
    clock = StoreClock(machine)
    asyncio.run(clock.sync(machine.store))
    return clock


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.log"]


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 3_000])
def test_a_step_of_the_machines_clock_moves_nothing_and_is_said_once(step_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = synced(machine)
    machine.true.advance(seconds=100)
    assert clock.wall_ms() == machine.true.wall_ms()
    machine.offset_ms += step_ms
    for _ in range(3):
        machine.true.advance(seconds=100)
        assert clock.wall_ms() == machine.true.wall_ms()
    set_by = {HOUR_MS: "ahead by 3600.0 s", -HOUR_MS: "back by 3600.0 s", 3_000: "ahead by 3.0 s"}[step_ms]
    assert said(caplog) == [
        f"this machine's clock was set {set_by}; due times and store timestamps do not follow: nothing is early or late for it"
    ]


def test_what_ntp_does_to_a_clock_is_no_step(caplog: pytest.LogCaptureFixture) -> None:
    """It slews it, by half a millisecond a second at most."""
    machine = Machine()
    clock = synced(machine)
    for _ in range(3600):
        machine.true.advance(seconds=2)
        machine.offset_ms += 1
        assert clock.wall_ms() == machine.true.wall_ms()
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("offset_ms", "agreed"), [(0, True), (299_000, True), (-299_000, True), (301_000, False), (-HOUR_MS, False)]
)
def test_it_follows_the_store_however_far_the_machine_is_off(offset_ms: int, agreed: bool) -> None:
    machine = Machine(offset_ms=offset_ms)
    clock = StoreClock(machine)
    assert clock.wall_ms() == machine.wall_ms(), "nobody asked the store"
    assert asyncio.run(clock.sync(machine.store)) == offset_ms
    assert (clock.wall_ms(), clock.agreed) == (machine.true.wall_ms(), agreed)


def test_a_step_while_the_store_answers_does_not_count() -> None:
    machine = Machine()

    class Meanwhile(StoreWrapper):
        async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
            machine.offset_ms -= HOUR_MS
            return await run()

    clock = StoreClock(machine)
    assert asyncio.run(clock.sync(Meanwhile(machine.store))) == -HOUR_MS
    assert clock.wall_ms() == machine.true.wall_ms()


def test_an_answer_after_hours_tells_no_time() -> None:
    """The process was stopped when it was under way; by half of its way time would be an hour off."""
    machine = Machine()

    class Stopped(StoreWrapper):
        async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
            answer = await run()
            machine.true.advance(hours=2)
            return answer

    clock = synced(machine)
    with pytest.raises(StoreUnavailable, match=r"too late to tell the time by it.*within 30 s; observed: 7200.0 s"):
        asyncio.run(clock.sync(Stopped(machine.store)))
    assert clock.wall_ms() == machine.true.wall_ms()


def test_what_the_store_says_an_hour_later_counts_and_is_said_if_it_is_another_time(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = synced(machine)
    machine.true.advance(seconds=CLOCK_SYNC_S)
    asyncio.run(clock.sync(machine.store))
    assert said(caplog) == []

    of_the_store = HandClock()
    of_the_store.advance(seconds=CLOCK_SYNC_S - 60)
    asyncio.run(clock.sync(MemoryStore(clock=of_the_store)))
    assert clock.wall_ms() == of_the_store.wall_ms()
    assert said(caplog) == ["the store's clock was set back by 60.0 s as this process measures time; due times follow it"]


def test_held_time_goes_on_from_the_machines_and_does_not_step(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(offset_ms=5_000)
    clock = StoreClock(machine)
    clock.hold()
    machine.true.advance(seconds=10)
    assert clock.wall_ms() == machine.wall_ms()
    machine.offset_ms -= HOUR_MS
    assert clock.wall_ms() == machine.true.wall_ms() + 5_000
    assert len(said(caplog)) == 1
    asyncio.run(clock.sync(machine.store))
    assert clock.wall_ms() == machine.true.wall_ms()
    clock.hold()
    assert clock.wall_ms() == machine.true.wall_ms(), "the store's is known"


# --- A lake's -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", ["by the store", "by read_only"])
def test_who_may_not_ask_the_store_keeps_the_time_of_its_machine(refused: str, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    only = refused == "by read_only"
    store = machine.store if only else ReadOnlyCredentials(machine.store)

    async def main() -> None:
        lake = LogLake(store, runtime=Runtime(clock=machine), read_only=only)
        await lake.keep_time()
        machine.offset_ms -= HOUR_MS
        assert lake.runtime.clock.wall_ms() == machine.true.wall_ms()
        await lake.close()

    asyncio.run(main())
    denied = [text for text in said(caplog) if "the store refused the credentials" in text]
    assert len(denied) == (0 if only else 1)
