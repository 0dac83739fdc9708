"""Leases and balance: who is believed dead and when, and that workers come to an even share."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.rebalance.balance import BalancePlan, plan
from penstock.coordinator.workers.lease import (
    IDLE_AFTER_S,
    LEASE_IDLE_S,
    LEASE_MS_MAX,
    Heartbeat,
    LeaseHold,
    ListedMember,
    decode_heartbeat,
    encode_heartbeat,
    is_expired,
    lease_s,
    sighting_of,
)
from penstock.log.errors import DataDamaged


def test_a_heartbeat_that_stands_still_for_its_own_lease_and_the_margin_is_dead() -> None:
    found = Heartbeat(worker="w", lease_ms=5000, beat=7)
    first = sighting_of(None, found, 100.0)
    assert sighting_of(first, found, 104.0) is first
    assert not is_expired(first, 106.25)
    assert is_expired(first, 106.26)
    assert sighting_of(first, Heartbeat(worker="w", lease_ms=5000, beat=8), 106.0).since_s == 106.0
    longer = sighting_of(first, Heartbeat(worker="w", lease_ms=60_000, beat=7), 106.0)
    assert not is_expired(longer, 180.0)


@given(
    lease_ms=st.integers(100, 100_000),
    sent_s=st.floats(0, 1e6),
    seen_after_s=st.floats(0, 1000),
    rate=st.floats(0.9, 1.1),
)
def test_nobody_is_fenced_while_it_believes_in_its_lease(lease_ms: int, sent_s: float, seen_after_s: float, rate: float) -> None:
    """However long the renewal was on its way and unseen, and though the observer's clock runs at another rate."""
    hold = LeaseHold(lease_ms / 1000, sent_s)
    sighting = sighting_of(None, Heartbeat(worker="w", lease_ms=lease_ms), (sent_s + seen_after_s) * rate)
    assert not is_expired(sighting, hold.until_s * rate)


def test_a_lease_is_renewed_in_time_and_counts_from_the_request() -> None:
    hold = LeaseHold(6.0, 10.0)
    assert (hold.renew_s, hold.until_s) == (12.0, 16.0)


def test_only_who_has_nothing_to_do_takes_the_long_lease() -> None:
    assert lease_s(usual_s=5, idle_s=IDLE_AFTER_S, in_flight=False) == LEASE_IDLE_S
    assert lease_s(usual_s=5, idle_s=IDLE_AFTER_S, in_flight=True) == 5
    assert lease_s(usual_s=5, idle_s=IDLE_AFTER_S - 1, in_flight=False) == 5


members = st.builds(ListedMember, st.integers(1, 10**6), st.text(), st.lists(st.text()).map(tuple))


@given(st.text(), st.integers(1, LEASE_MS_MAX), st.integers(0, 10**12), st.booleans(), st.lists(members), st.text())
def test_a_heartbeat_is_stored_as_it_is(
    worker: str, lease_ms: int, beat: int, fenced: bool, listed: list[ListedMember], label: str
) -> None:
    heartbeat = Heartbeat(worker=worker, lease_ms=lease_ms, beat=beat, fenced=fenced, members=tuple(listed), label=label)
    assert decode_heartbeat(encode_heartbeat(heartbeat), where="w") == heartbeat


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"worker":1}'])
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(DataDamaged, match="not a worker's heartbeat"):
        decode_heartbeat(data, where="workers/w")


@pytest.mark.parametrize("member", [["1", "g"], [-1, "g"], [1, 2], [1, "g", 3], [1, "g", "orders", 4], [1]])
def test_a_member_that_is_none_is_damage(member: list[object]) -> None:
    whole = json.loads(
        encode_heartbeat(Heartbeat(worker="w", lease_ms=1_000, beat=1, members=(ListedMember(1, "g", ("orders",)),)))
    )
    assert whole["members"] == [[1, "g", "orders"]]
    with pytest.raises(DataDamaged, match="not a worker's heartbeat"):
        decode_heartbeat(json.dumps({**whole, "members": [member]}).encode(), where="workers/w")


@given(st.integers(1, 40), st.integers(1, 12), st.randoms(use_true_random=False))
def test_workers_come_to_an_even_share_whatever_the_start(queues: int, count: int, chance: random.Random) -> None:
    workers = [f"w{number}" for number in range(count)]
    owners = {("orders", queue): chance.choice(["", *workers]) for queue in range(queues)}
    for _ in range(2 * queues + 2):
        for worker in workers:
            wish = plan(worker, workers, owners)
            owners |= dict.fromkeys(wish.drain, "") | dict.fromkeys(wish.take, worker)
    shares = [sum(owner == worker for owner in owners.values()) for worker in workers]
    assert sum(shares) == queues
    assert max(shares) <= -(-queues // count)
    assert all(plan(worker, workers, owners) == BalancePlan() for worker in workers)


def test_workers_that_start_together_reach_for_different_queues() -> None:
    owners = {("orders", queue): "" for queue in range(16)}
    wishes = [plan(f"w{number}", [f"w{other}" for other in range(8)], owners).take for number in range(8)]
    assert all(len(wish) == 2 for wish in wishes)
    assert len({queue for wish in wishes for queue in wish}) >= 9
