"""What callers hold of a gateway, who works when, and what is told seldom. Nothing here knows a protocol."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from penstock.gateway.bounds import log_throttle as seldom_module
from penstock.gateway.bounds.fair_semaphore import FairSemaphore
from penstock.gateway.bounds.log_throttle import AGAIN_S, LogThrottle
from penstock.gateway.bounds.quotas import Quota, QuotaCounter
from penstock.log import BackPressureError

SEATS = Quota("seats", each=3, all=5)
OTHER = Quota("tables", each=3, all=5)


def test_an_owner_has_its_share_and_all_together_have_theirs() -> None:
    shares = QuotaCounter()
    with shares.hold(SEATS, "a", 3), shares.hold(SEATS, "b", 2), shares.hold(OTHER, "a", 3):
        assert (shares.held(SEATS, "a"), shares.held(SEATS, "b"), shares.held(SEATS), shares.held(OTHER)) == (3, 2, 5, 3)
        with pytest.raises(BackPressureError, match="too many seats, of a: 4, and at most 3"), shares.hold(SEATS, "a", 1):
            pass
        with (
            pytest.raises(BackPressureError, match="too many seats, of all together: 6, and at most 5"),
            shares.hold(SEATS, "c", 1),
        ):
            pass
    assert shares.held(SEATS) == shares.held(SEATS, "a") == 0
    assert not any(shares._held.values()), "nobody is remembered who holds nothing"


def test_what_is_there_already_is_counted_and_given_back_whatever_happens() -> None:
    shares = QuotaCounter()

    def fail() -> None:
        with shares.take(SEATS, "a", 9):
            with pytest.raises(BackPressureError):
                shares.check(SEATS, "b")
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    shares.check(SEATS, "a", 3)


def test_few_work_at_once_and_an_owner_keeps_nobody_waiting() -> None:
    """Whatever the order in which they come, and in which some give up waiting."""

    async def main(seed: int) -> None:
        rng, turns = random.Random(seed), FairSemaphore(each=2, all=3)
        working: Counter[str] = Counter()
        ended: list[str] = []

        async def work(owner: str) -> None:
            async with turns.of(owner):
                working[owner] += 1
                assert working[owner] <= 2
                assert sum(working.values()) <= 3
                try:
                    for _ in range(3):
                        await asyncio.sleep(0)
                finally:
                    working[owner] -= 1
            ended.append(owner)

        many = [asyncio.ensure_future(work("greedy")) for _ in range(40)]
        await asyncio.sleep(0)
        few = [asyncio.ensure_future(work("modest")) for _ in range(2)]
        for task in rng.sample(many, 10):
            task.cancel()
        await asyncio.gather(*few)
        assert ended.count("greedy") <= 12, "it waited for a few of the others', and not for all"
        await asyncio.gather(*many, return_exceptions=True)
        assert not turns._lines

    for seed in range(10):
        asyncio.run(main(seed))


async def test_who_waits_and_who_comes_later_stand_in_one_line() -> None:
    turns, begun = FairSemaphore(each=1, all=3), list[str]()

    async def work(name: str) -> None:
        async with turns.of("a"):
            begun.append(name)
            await ends[name].wait()

    ends = {name: asyncio.Event() for name in ("first", "waits", "later")}
    tasks = [asyncio.ensure_future(work(name)) for name in ("first", "waits")]
    await asyncio.sleep(0)
    ends["first"].set()
    await tasks[0]
    tasks.append(asyncio.ensure_future(work("later")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == ["first", "waits"]
    for end in ends.values():
        end.set()
    await asyncio.gather(*tasks)


def test_of_many_causes_those_are_remembered_that_were_told_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seldom_module, "_CAUSES_MAX", 2)
    seldom = LogThrottle()
    for cause, now_s in (("a", 0.0), ("b", 1.0), ("a", 20.0), ("c", 21.0)):
        assert seldom.is_due(cause, now_s)
    assert not seldom.is_due("a", 22.0)


def test_a_cause_is_told_once_in_a_while() -> None:
    seldom = LogThrottle()
    assert [seldom.is_due("a", now_s) for now_s in (0.0, 1.0, AGAIN_S - 0.1, AGAIN_S, AGAIN_S + 1)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert seldom.is_due("b", 1.0)
    for number in range(2_000):
        seldom.is_due(f"cause {number}", 100.0)
    assert len(seldom._told) == 1_000
    assert not seldom.is_due("cause 1999", 101.0)
