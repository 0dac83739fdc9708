"""Gateways that follow each other by their cell."""

from __future__ import annotations

import asyncio

import pytest

from penstock import aio
from penstock.coordinator.cells.keys import GATEWAYS
from penstock.gateway.peers.entries import SURE_S, GatewayEntry
from penstock.gateway.peers.registry import PeerRegistry
from penstock.log.runtime.runtime import SystemClock


async def test_who_follows_the_list_is_told_of_a_gateway_that_stands_still() -> None:
    async with aio.connect("memory://") as lake:
        one, two = (PeerRegistry(GATEWAYS, name, SystemClock()) for name in ("one", "two"))
        told: list[str] = []
        two.on_gone.append(lambda: told.append("gone"))
        for number, each in enumerate((one, two)):
            await each.join(lake.coordination, GatewayEntry("h", number + 1))
        await one._renew_once()
        await two._renew_once()
        assert told == []
        await two._renew_once()
        await two._renew_once()
        assert told == ["gone"]
        await one.leave()
        await two._renew_once()
        assert told == ["gone", "gone"]
        await two.leave()


async def test_a_gateway_takes_the_place_of_the_one_that_was_at_its_address() -> None:
    async with aio.connect("memory://") as lake:
        killed, other, heir = (PeerRegistry(GATEWAYS, name, SystemClock()) for name in ("killed", "other", "heir"))
        await killed.join(lake.coordination, GatewayEntry("h", 1))
        await other.join(lake.coordination, GatewayEntry("h", 2))
        await heir.join(lake.coordination, GatewayEntry("h", 1))
        await other._renew_once()
        for one in (heir, other):
            assert {peer.name for peer in one.live(tls=False)} == {"heir", "other"}
        for one in (killed, other, heir):
            await one.leave()


async def test_gateways_with_one_address_that_both_live_stay_in_the_list() -> None:
    async with aio.connect("memory://") as lake:
        first, second = (PeerRegistry(GATEWAYS, name, SystemClock()) for name in ("first", "second"))
        for one in (first, second, first, second):
            await (one.join(lake.coordination, GatewayEntry("h", 1)) if one.own is None else one._renew_once())
        for one in (first, second):
            assert {peer.name for peer in one.live(tls=False)} == {"first", "second"}
            await one.leave()


def test_signed_and_unsigned_gateways_of_a_lake_warn_and_do_not_send_clients_to_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with aio.connect("memory://") as lake:
            terms = {"signed": True, "other": True, "unsigned": False, "earlier": None}
            known = {name: PeerRegistry(GATEWAYS, name, SystemClock()) for name in terms}
            for number, (name, one) in enumerate(known.items()):
                await one.join(lake.coordination, GatewayEntry("h", number + 1, signed=terms[name]))
            for _ in range(2):
                for one in known.values():
                    await one._renew_once()
            reached = {name: {peer.name for peer in one.live(tls=False)} for name, one in known.items()}
            assert reached["signed"] == reached["other"] == {"signed", "other", "earlier"}
            assert reached["unsigned"] == {"unsigned", "earlier"}
            assert reached["earlier"] == set(terms), "what it does not say is not held against it"
            for one in known.values():
                await one.leave()

    with caplog.at_level("WARNING", logger="penstock.gateway"):
        asyncio.run(run())
    lines = sorted(one.message for one in caplog.records)
    assert [line[:60] for line in lines] == [
        "gateway other at h:2 asks for signatures, and this one of th",
        "gateway signed at h:1 asks for signatures, and this one of t",
        "gateway unsigned at h:3 serves this lake without asking for ",
        "gateway unsigned at h:3 serves this lake without asking for ",
    ]


async def test_a_gateway_that_cannot_renew_its_entry_knows_when_others_count_it_no_longer() -> None:
    async with aio.connect("memory://") as lake:
        clock = StandingClock()
        one = PeerRegistry(GATEWAYS, "one", clock)
        assert not one.is_counted()
        await one.join(lake.coordination, GatewayEntry("h", 1))
        clock.now_s += SURE_S - 1
        assert one.is_counted()
        clock.now_s += 1
        assert not one.is_counted()
        await one._renew_once()
        assert one.is_counted()
        await one.leave()


class StandingClock(SystemClock):
    """Time passes when the test says so."""

    now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s
