"""What holds a group up: one word for each cause."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.coordinator.operators.describe import QueueProgress, facts_of, workers_to_ask
from penstock.coordinator.operators.holding import Cause, WorkFacts, holding, work_of
from penstock.coordinator.workers.lease import Heartbeat, ListedMember, MemberWork, decode_heartbeat, encode_heartbeat

MINUTE = timedelta(minutes=1)


def member(number: int = 1, **changes: float) -> MemberWork:
    usual: dict[str, float] = {
        "threads": 4,
        "busy": 2,
        "fetched": 100,
        "in_per_s": 10.0,
        "out_per_s": 30.0,
        "p50_ms": 50.0,
        "p95_ms": 90.0,
        "write_ms": 4.0,
        "full": False,
        "paused": False,
    }
    return MemberWork(number, **{**usual, **changes})  # type: ignore[arg-type]


def queue(number: int = 0, **changes: int | str | timedelta) -> QueueProgress:
    counts = ("epoch", "generation", "committed_offset", "lag", "in_flight", "waiting", "blocked", "parked", "interrupted")
    usual: dict[str, object] = dict.fromkeys((*counts, "dead_letters", "lost_letters"), 0)
    usual |= {"topic": "orders", "queue": number, "owner": "w/1", "next_offset": 9, "lag_time": MINUTE}
    return QueueProgress(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (WorkFacts(), Cause.NOTHING),
        (WorkFacts(lag=50, lag_time=timedelta(seconds=1), members=(member(busy=4),)), Cause.NOTHING),
        (WorkFacts(lag=50, lag_time=timedelta(seconds=1), unowned=50), Cause.NO_OWNER),
        (WorkFacts(lag=50, lag_time=MINUTE, unowned=20, members=(member(busy=4),)), Cause.THREADS_BUSY),
        (WorkFacts(lag=50, lag_time=MINUTE, unowned=30, members=(member(busy=4),)), Cause.NO_OWNER),
        (WorkFacts(lag=3, lag_time=MINUTE, parked=3, members=(member(),)), Cause.PARKED),
        (WorkFacts(lag=3, lag_time=timedelta(seconds=1), parked=3), Cause.PARKED),
        (WorkFacts(lag=3, lag_time=MINUTE, retrying=2, parked=1, members=(member(),)), Cause.RETRIES),
        (WorkFacts(lag=9_000, lag_time=MINUTE, retrying=5_000, members=(member(paused=True),)), Cause.RETRIES),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=4), member(2, busy=4))), Cause.THREADS_BUSY),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=4, full=True),)), Cause.THREADS_BUSY),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=1),)), Cause.HANDLERS_SLOW),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=1, full=True),)), Cause.HANDLERS_SLOW),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=1, paused=True),)), Cause.CACHE_FULL),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=0, full=True),)), Cause.CACHE_FULL),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=0, fetched=0),)), Cause.STORE_SLOW),
        (WorkFacts(lag=50, lag_time=MINUTE, members=(member(busy=4, write_ms=2_500.0),)), Cause.STORE_SLOW),
        (WorkFacts(lag=50, lag_time=MINUTE), Cause.UNKNOWN),
    ],
)
def test_what_most_of_the_lag_waits_for_holds(facts: WorkFacts, cause: Cause) -> None:
    assert holding(facts) is cause
    assert work_of(facts).because


def test_every_cause_has_a_case() -> None:
    cases = test_what_most_of_the_lag_waits_for_holds.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {cause for _, cause in cases} == set(Cause)


@pytest.mark.parametrize(("out_per_s", "catch_up"), [(30.0, timedelta(seconds=5)), (10.0, None), (5.0, None)])
def test_a_group_catches_up_at_the_difference_of_the_rates(out_per_s: float, catch_up: timedelta | None) -> None:
    found = work_of(WorkFacts(lag=110, lag_time=MINUTE, retrying=10, members=(member(out_per_s=out_per_s),)))
    assert (found.rate_in, found.rate_out, found.catch_up) == (10.0, out_per_s, catch_up)


def test_running_is_apart_from_fetched_ahead() -> None:
    found = work_of(WorkFacts(lag=92, lag_time=MINUTE, in_flight=92, members=(member(threads=1, busy=1, fetched=91),)))
    assert (found.busy, found.threads, found.fetched_ahead) == (1, 1, 91)


def test_only_living_members_of_the_group_count() -> None:
    beats = {
        "w": Heartbeat(
            worker="w",
            lease_ms=5_000,
            members=(ListedMember(1, "billing"), ListedMember(2, "mails")),
            work=(member(1), member(2, threads=99), member(3, threads=99)),
        ),
        "dead": Heartbeat(worker="dead", lease_ms=5_000, fenced=True, members=(ListedMember(1, "billing"),), work=(member(1),)),
    }
    queues = [
        queue(0, lag=5),
        queue(1, lag=7, parked=1, owner="dead/1"),
        queue(2, lag=2, owner=""),
        queue(3, lag=1, owner="gone/1"),
        queue(4, lag=4, owner="w/9"),
    ]
    facts = facts_of(queues, beats, "billing")
    assert workers_to_ask(queues) == ["dead", "gone", "w"]
    assert (facts.lag, facts.unowned, facts.threads) == (19, 6 + 2 + 1 + 4, 4)


def test_a_heartbeat_tells_of_work_and_one_without_is_as_it_was() -> None:
    beat = Heartbeat(worker="w", lease_ms=5_000, members=(ListedMember(1, "billing"),), work=(member(1, p50_ms=0.25),))
    assert decode_heartbeat(encode_heartbeat(beat), where="w") == beat
    assert b'work":' not in encode_heartbeat(Heartbeat(worker="w", lease_ms=5_000))
