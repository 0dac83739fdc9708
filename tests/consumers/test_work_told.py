"""What a PushConsumer tells of its work with its heartbeat, and what operators see of it."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import penstock
from penstock.consumers.queues.work_meter import WorkMeter, WorkNow
from penstock.coordinator.operators.holding import Cause
from penstock.testing import HandClock
from tests.consumers.heard import SUCCESS, Heard, consuming, fill, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


def now(**changes: object) -> WorkNow:
    usual: dict[str, object] = {
        "busy": 0,
        "held": 0,
        "done": 0,
        "times_s": (),
        "next_offsets": {},
        "full": False,
        "paused": False,
    }
    return WorkNow(**{**usual, **changes})  # type: ignore[arg-type]


def test_rates_are_of_the_time_since_the_last_heartbeat_and_count_what_runs_have_done_so_far() -> None:
    clock = HandClock()
    meter = WorkMeter(clock, threads=4)
    meter.told(1, now(next_offsets={("orders", 0): 100}))
    clock.advance(timedelta(seconds=2))
    first = meter.told(1, now(done=6, next_offsets={("orders", 0): 120, ("orders", 1): 9_000}))
    assert (first.in_per_s, first.out_per_s) == (0.0, 3.0), "where a queue stood before it was owned is not known"
    clock.advance(timedelta(seconds=2))
    meter.handled([0.1] * 10, 10)
    second = meter.told(1, now(next_offsets={("orders", 0): 130, ("orders", 1): 9_002}))
    assert (second.in_per_s, second.out_per_s) == (6.0, 2.0), "6 of the run's 10 were counted before it ended"
    clock.advance(timedelta(seconds=0.1))
    assert meter.told(1, now()).in_per_s == second.in_per_s, "too soon to tell anew"


@pytest.mark.parametrize(
    ("handled", "running", "p50_ms", "p95_ms"),
    [([], (), 0.0, 0.0), ([0.2], (), 200.0, 200.0), ([0.001] * 99, (30.0,), 1.0, 1.0), ([0.001] * 9, (30.0,), 1.0, 16_500.45)],
)
def test_times_of_handlers_include_those_that_run(
    handled: list[float], running: tuple[float, ...], p50_ms: float, p95_ms: float
) -> None:
    meter = WorkMeter(HandClock(), threads=1)
    for one in handled:
        meter.handled([one], 1)
    found = meter.told(1, now(times_s=running))
    assert (found.p50_ms, found.p95_ms) == (p50_ms, p95_ms)


def test_a_busy_group_says_how_many_threads_run_and_what_is_fetched_ahead(lake: penstock.Lake) -> None:
    fill(lake, "abcdefgh")
    gate = threading.Event()

    def waits(message: penstock.MessageView) -> penstock.ConsumeResult:
        gate.wait(TIMEOUT_S)
        return SUCCESS

    with consuming(lake, Heard(waits), threads=2):
        wait_until(lambda: (work := lake.describe_group("billing").work) is not None and work.busy == 2, "both threads are told")
        work = lake.describe_group("billing").work
        assert work is not None
        assert (work.threads, work.busy, work.fetched_ahead) == (2, 2, 6)
        gate.set()
        until_settled(lake)
    ended = lake.describe_group("billing").work
    assert ended is not None
    assert (ended.holds, ended.threads) == (Cause.NOTHING, None)
