"""When more queues are said to help."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from penstock.coordinator import GroupDescription, GroupSettings, QueueProgress
from penstock.infra.operating.growth_advice import GrowthAdvice, growth_advice


def group(lags: Mapping[int, int], *, members: int, topic: str = "orders") -> GroupDescription:
    counts = dict.fromkeys(("in_flight", "waiting", "blocked", "parked", "interrupted", "dead_letters", "lost_letters"), 0)
    queues = tuple(
        QueueProgress(
            topic=topic, queue=queue, owner="w", epoch=1, generation=1, committed_offset=0, next_offset=lag, lag=lag,
            lag_time=timedelta(), **counts,
        )
        for queue, lag in lags.items()
    )  # fmt: skip
    return GroupDescription("billing", GroupSettings(), tuple(f"m{number}" for number in range(members)), queues)


@pytest.mark.parametrize(
    ("found", "advised"),
    [
        (group({0: 900, 1: 0}, members=9), None),
        (group({0: 900, 1: 900}, members=2), None),
        (group({0: 900, 1: 900}, members=5), (6, "3 of 5 members have no queue, and 1,800 messages wait")),
        (group({0: 4_000, 1: 1_000}, members=2), (4, "queue 0 has 80% of the lag of 5,000 messages")),
        (group({0: 4_000, 1: 1_000}, members=2, topic="other"), None),
    ],
)
def test_more_queues_help_members_without_one_and_a_queue_that_is_far_behind(
    found: GroupDescription, advised: tuple[int, str] | None
) -> None:
    advice = growth_advice("orders", 2, [found])
    assert advice == (() if advised is None else (GrowthAdvice(group="billing", queues=advised[0], reason=advised[1]),))


def test_one_queue_alone_is_far_behind_only_where_members_wait_for_it() -> None:
    assert growth_advice("orders", 1, [group({0: 5_000}, members=1)]) == ()
    (advice,) = growth_advice("orders", 1, [group({0: 5_000}, members=3)])
    assert advice.queues == 3
