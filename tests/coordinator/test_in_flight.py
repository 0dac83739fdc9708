"""What was received and not acknowledged is in flight in its process until its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.coordinator.workers.in_flight import ReceivedInFlight
from penstock.coordinator.workers.worker import Worker
from tests.coordinator.stage import Stage

MINUTE_MS = 60_000


def play(script: Callable[[ReceivedInFlight, Worker, Callable[[], int]], Callable[[], None]], *, then_s: float, left: int) -> None:
    """Begin by the script, carry out what it returns, and see that so much is in flight that many seconds later."""
    stage = Stage()

    async def run() -> None:
        process = stage.process("w")
        worker, clock = stage.worker(process), process.runtime.clock

        async def life() -> None:
            script(ReceivedInFlight(worker, clock), worker, clock.wall_ms)()
            await asyncio.sleep(then_s)
            assert worker.in_flight == left

        await process.run(life())

    stage.play(run)


def test_what_is_acknowledged_is_in_hand_no_more_and_what_is_not_until_its_time_is_over() -> None:
    def script(in_hand: ReceivedInFlight, worker: Worker, now_ms: Callable[[], int]) -> Callable[[], None]:
        in_hand.begin([["a"], ["b"], ["c"]], now_ms() + MINUTE_MS)
        assert worker.in_flight == 3
        return lambda: in_hand.end(["a", "of another process", "a"])

    play(script, then_s=59, left=2)
    play(script, then_s=61, left=0)


def test_the_first_due_is_looked_at_first_in_whatever_order_they_came() -> None:
    def script(in_hand: ReceivedInFlight, worker: Worker, now_ms: Callable[[], int]) -> Callable[[], None]:
        in_hand.begin([["long"]], now_ms() + 10 * MINUTE_MS)
        in_hand.begin([["short"]], now_ms() + MINUTE_MS)
        in_hand.begin([["a bit longer"]], now_ms() + MINUTE_MS + 100)
        return lambda: None

    play(script, then_s=59, left=3)
    play(script, then_s=62, left=1)
    play(script, then_s=601, left=0)


def test_messages_that_are_due_together_share_one_timer() -> None:
    """Those that are cancelled stay in the loop's heap until it clears up: one a message would cost more than the messages."""
    timers: list[float] = []

    def script(in_hand: ReceivedInFlight, worker: Worker, now_ms: Callable[[], int]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def counted(delay_s: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
            timers.append(delay_s)
            return call_later(delay_s, callback, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", counted)
            in_hand.begin([["a"], ["b"], ["c"]], now_ms() + MINUTE_MS)
        return lambda: None

    play(script, then_s=61, left=0)
    assert len(timers) == 1


def test_what_was_received_together_ends_together_when_its_time_is_changed() -> None:
    def changed_to(due_ms: int) -> Callable[[ReceivedInFlight, Worker, Callable[[], int]], Callable[[], None]]:
        def script(in_hand: ReceivedInFlight, worker: Worker, now_ms: Callable[[], int]) -> Callable[[], None]:
            in_hand.begin([["a1", "a2"], ["b1"]], now_ms() + MINUTE_MS)
            return lambda: in_hand.change("a2", now_ms() + due_ms)

        return script

    play(changed_to(0), then_s=1, left=1)
    play(changed_to(10 * MINUTE_MS), then_s=62, left=2)
    play(changed_to(10 * MINUTE_MS), then_s=601, left=0)
