"""The formulas of `penstock cost`: beside counted requests of the real code in virtual time, and by themselves."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import InvalidArgument, LimitExceeded
from penstock.infra.cost import (
    SECONDS_A_MONTH,
    CellStorage,
    Prices,
    RequestRates,
    Workload,
    batches_per_s,
    entries_per_s,
    estimate,
    lookups_per_entry,
    month_usd,
    stored_bytes,
)
from tests.benchmarks.consumers.costs import counted
from tests.tree import ROOT

PRICES = Prices()


# --- Beside counted requests --------------------------------------------------------------------------------------------------------


ALONE = Workload(messages_per_s=4, message_bytes=100, queues=4, cells=CellStorage.STORE)
TOGETHER = Workload(messages_per_s=8, message_bytes=100, queues=4, producers=2, maintained=False)
LISTED = dataclasses.replace(ALONE, iceberg=True)
IDLE = Workload(messages_per_s=0, queues=4, cells=CellStorage.STORE)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize(
    ("workload", "warm_up_s", "seconds", "tolerance"),
    [
        pytest.param(ALONE, 20, 40, 0.25, id="one producer, one worker, maintenance", marks=pytest.mark.thorough),
        pytest.param(LISTED, 20, 40, 0.25, id="the same, listed for Iceberg", marks=pytest.mark.thorough),
        pytest.param(TOGETHER, 10, 20, 0.5, id="two producers, one worker"),
        pytest.param(IDLE, 600, 1200, 0.25, id="nothing to do"),
    ],
)
def test_the_formulas_are_near_what_a_run_asks_for(workload: Workload, warm_up_s: float, seconds: float, tolerance: float) -> None:
    found, expected = counted(workload, warm_up_s=warm_up_s, seconds=seconds), estimate(workload).total
    for kind in dataclasses.fields(RequestRates):
        one, other = getattr(found, kind.name), getattr(expected, kind.name)
        if max(one, other) > 0.5:  # a few requests in all say nothing
            assert other == pytest.approx(one, rel=tolerance), f"{kind.name}: {one:.2f} counted, {other:.2f} estimated"
    paid, foreseen = (month_usd(requests, workload, PRICES) for requests in (found, expected))
    assert foreseen == pytest.approx(paid, rel=tolerance)


@pytest.mark.parametrize(
    ("producers", "sends_per_s", "requests"), [(1, 2, 1.03), (2, 2, 6.2), (4, 2, 7.5), (10, 2, 8.4), (30, 2, 8.6), (100, 2, 8.7)]
)
def test_requests_of_producers_are_as_the_page_on_performance_has_them(producers: int, sends_per_s: float, requests: float) -> None:
    found = estimate(Workload(messages_per_s=producers * sends_per_s, producers=producers, message_bytes=100))
    all_of_them = found.producers.put + found.producers.get + found.producers.list
    batches = batches_per_s(Workload(messages_per_s=producers * sends_per_s, producers=producers, message_bytes=100))
    assert all_of_them / batches == pytest.approx(requests, rel=0.2)


@pytest.mark.parametrize(
    ("row", "rate", "linger_s"),
    [
        ("none", 0.0, 1.0),
        ("one in 10 s", 0.1, 10.0),
        ("2 a second", 2.0, 1.0),
        ("20 a second", 20.0, 1.0),
        ("1,000 a second", 1000.0, 1.0),
    ],
)
def test_the_guide_has_the_money_that_the_formulas_give(row: str, rate: float, linger_s: float) -> None:
    page = (ROOT / "docs" / "guides" / "production.md").read_text()
    (shown,) = re.findall(rf"^\| {row}[^|]*\| \$([\d.,]+) \| \$([\d.,]+) \|$", page, re.MULTILINE)
    by_default = Workload(messages_per_s=rate)
    patient = dataclasses.replace(by_default, linger=timedelta(seconds=linger_s), publish_interval=timedelta(seconds=60), queues=4)
    for text, workload in zip(shown, (by_default, patient), strict=True):
        found = estimate(workload)
        money = month_usd(found.total, workload, PRICES) + found.storage_usd
        assert float(text.replace(",", "")) == pytest.approx(money, rel=0.02, abs=0.005), row


# --- By themselves ------------------------------------------------------------------------------------------------------------------


def test_an_idle_topic_costs_what_the_page_on_performance_says() -> None:
    follower = estimate(Workload(messages_per_s=0, groups=0, readers=1, maintained=False))
    assert month_usd(follower.total, IDLE, PRICES) == pytest.approx(0.21, abs=0.01)
    worker = estimate(Workload(messages_per_s=0, maintained=False))
    assert month_usd(worker.total, Workload(messages_per_s=0), PRICES) == pytest.approx(0.49, abs=0.05)


def test_a_longer_linger_makes_fewer_entries() -> None:
    entries = [entries_per_s(Workload(messages_per_s=20, linger=timedelta(seconds=s))) for s in (0.0, 0.025, 1.0, 60.0)]
    assert entries == sorted(entries, reverse=True)
    assert entries[-1] == pytest.approx(1 / 60, rel=0.01)


def test_a_topic_takes_no_more_entries_than_it_can() -> None:
    assert entries_per_s(Workload(messages_per_s=1e6, linger=timedelta(0))) <= 1 / 0.03 + 1e-9
    assert entries_per_s(Workload(messages_per_s=1e6, message_bytes=10_000, producers=1000)) <= 10.5


def test_looks_follow_the_intervals() -> None:
    assert lookups_per_entry([0.01] * 20) == 1
    assert (
        lookups_per_entry([0.1] * 20)
        < lookups_per_entry([1.0] * 20)
        < lookups_per_entry([60.0] * 20)
        < lookups_per_entry([600.0] * 20)
    )
    assert lookups_per_entry([3600.0]) == pytest.approx(120 + 3480 / 5, rel=0.05)


def test_parts_grow_with_what_causes_them() -> None:
    base = Workload(messages_per_s=10)
    more: list[tuple[str, Any, Callable[[Workload], float]]] = [
        ("groups", 3, lambda one: estimate(one).consumers.table_write),
        ("workers", 3, lambda one: estimate(one).consumers.get),
        ("readers", 3, lambda one: estimate(one).readers.get),
        ("queues", 64, lambda one: estimate(one).maintenance.put),
        ("producers", 3, lambda one: estimate(one).producers.list),
        ("retention", timedelta(days=30), stored_bytes),
        ("message_bytes", 5000, stored_bytes),
        ("topics", 5, lambda one: estimate(one).producers.put),
    ]
    for name, value, measure in more:
        assert measure(dataclasses.replace(base, **{name: value})) > measure(base), name


def test_listing_for_iceberg_is_four_writes_a_commit_and_a_share_of_the_storage() -> None:
    plain, listed = (Workload(messages_per_s=1000, topics=2, iceberg=iceberg) for iceberg in (False, True))
    more = estimate(listed).maintenance.put - estimate(plain).maintenance.put
    rounds = 2 / (plain.publish_interval.total_seconds() + 0.25)
    assert 4 * rounds < more <= 4 * (rounds + 2 / 30)
    assert stored_bytes(listed) - stored_bytes(plain) == pytest.approx(more / 4 * 13_400 * 48 * 3600)
    idle = dataclasses.replace(IDLE, iceberg=True)
    assert estimate(idle) == estimate(IDLE)
    alone = dataclasses.replace(listed, maintained=False)
    assert estimate(alone) == estimate(dataclasses.replace(plain, maintained=False))


def test_cells_in_the_bucket_are_requests_of_the_bucket() -> None:
    inside = estimate(dataclasses.replace(IDLE, messages_per_s=5.0)).total
    assert inside.table_write == inside.table_read == 0
    beside = dataclasses.replace(IDLE, messages_per_s=5.0, cells=CellStorage.SQLITE)
    found = estimate(beside).total
    assert found.table_write > 0
    assert month_usd(RequestRates(table_write=1.0), beside, PRICES) == 0


def test_money_is_requests_by_their_prices() -> None:
    workload = Workload(messages_per_s=1)
    requests = RequestRates(put=1.0, get=2.0, list=3.0, table_write=4.0, table_read=5.0)
    assert month_usd(requests, workload, PRICES) == pytest.approx(
        SECONDS_A_MONTH * (4 * 0.005e-3 + 2 * 0.0004e-3 + 4 * 0.625e-6 + 5 * 0.125e-6)
    )
    assert month_usd(requests, workload, dataclasses.replace(PRICES, put_thousand=0.0, table_write_million=0.0)) == pytest.approx(
        SECONDS_A_MONTH * (2 * 0.0004e-3 + 5 * 0.125e-6)
    )


def test_storage_is_what_is_kept_with_what_merging_leaves_for_a_week() -> None:
    kept = 10 * 1000 * 3 * 86_400
    assert kept < stored_bytes(Workload(messages_per_s=10)) < 7 * kept
    assert stored_bytes(Workload(messages_per_s=10, maintained=False)) == kept
    assert stored_bytes(Workload(messages_per_s=0)) == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"messages_per_s": math.nan}, "messages_per_s must be a number, not negative"),
        ({"messages_per_s": math.inf}, "messages_per_s must be a number, not negative"),
        ({"messages_per_s": -1.0}, "messages_per_s must be a number, not negative"),
        ({"messages_per_s": True}, "messages_per_s must be a number, not negative"),
        ({"messages_per_s": "20"}, "messages_per_s must be a number, not negative"),
        ({"messages_per_s": 1e8}, "messages_per_s is too much"),
        ({"message_bytes": 0}, "message_bytes must be a whole number from 1"),
        ({"message_bytes": 1.5}, "message_bytes must be a whole number from 1"),
        ({"topics": 0}, "topics must be a whole number from 1"),
        ({"queues": 5000}, "queues is too much"),
        ({"producers": 0}, "producers must be a whole number from 1"),
        ({"groups": -1}, "groups must be a whole number from 0"),
        ({"workers": 0}, "workers must be a whole number from 1"),
        ({"readers": 2**40}, "readers is too much"),
        ({"linger": timedelta(seconds=-1)}, "linger is too short"),
        ({"linger": timedelta(hours=2)}, "linger is too long"),
        ({"publish_interval": timedelta(0)}, "publish_interval is too short"),
        ({"publish_interval": timedelta(days=31)}, "publish_interval is too long"),
        ({"retention": timedelta(0)}, "retention is too short"),
        ({"retention": timedelta.max}, "retention is too long"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises((InvalidArgument, LimitExceeded), match=told):
        Workload(**{"messages_per_s": 1.0, **wrong})


@pytest.mark.parametrize("price", [-0.1, math.nan, math.inf, "cheap"])
def test_what_is_no_price_is_refused(price: Any) -> None:
    with pytest.raises(InvalidArgument, match="the price get_thousand must be a number, not negative"):
        Prices(get_thousand=price)
