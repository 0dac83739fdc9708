"""The list of gateways in their cell."""

from __future__ import annotations

import pytest

from penstock.gateway.peers.entries import (
    DEAD_S,
    GatewayEntry,
    GatewayLiveness,
    decode_gateways,
    encode_gateways,
    with_renewal,
    without_gateway,
    without_predecessors,
)
from penstock.log import DataDamaged


def test_the_list_of_gateways_is_read_as_it_was_written() -> None:
    known = {
        "b": GatewayEntry("10.0.0.1", 8081, 3),
        "a": GatewayEntry("::1", 1),
        "c": GatewayEntry("::1", 0, tls_port=8443, signed=True),
    }
    earlier = b'{"a": {"host": "h", "port": 1, "beat": 2}}'
    assert decode_gateways(earlier, where="gateways") == {"a": GatewayEntry("h", 1, 2)}
    assert decode_gateways(encode_gateways(known), where="gateways") == known
    for bad in (b"", b"[]", b'{"a": {"host": "", "port": 1}}', b'{"a": {"host": "h", "port": 70000}}'):
        with pytest.raises(DataDamaged):
            decode_gateways(bad, where="gateways")


def test_a_gateway_is_dead_when_it_stands_still_for_long_by_the_readers_own_clock() -> None:
    sightings = GatewayLiveness()
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9)}
    sightings.see(known, 100.0)
    sightings.see(with_renewal(known, "b", GatewayEntry("h", 2, 10), frozenset()), 100.0 + DEAD_S - 1)
    assert sightings.dead(100.0 + DEAD_S - 1) == frozenset()
    assert sightings.dead(100.0 + DEAD_S) == {"a"}


def test_a_renewal_takes_dead_ones_out_and_never_itself() -> None:
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9)}
    assert with_renewal(known, "b", GatewayEntry("h", 3, 10), frozenset({"a", "b"})) == {"b": GatewayEntry("h", 3, 10)}
    assert without_gateway(known, "a") == {"b": known["b"]}


def test_who_comes_to_an_address_ends_those_that_were_there() -> None:
    known = {
        "plain": GatewayEntry("h", 1, 5),
        "both": GatewayEntry("h", 2, tls_port=3),
        "tls": GatewayEntry("h", 0, tls_port=4),
        "elsewhere": GatewayEntry("i", 1),
    }
    left = {own: without_predecessors(known, own).keys() for own in (GatewayEntry("h", 1), GatewayEntry("h", 9, tls_port=3))}
    assert list(left.values()) == [{"both", "tls", "elsewhere"}, {"plain", "tls", "elsewhere"}]
    assert without_predecessors(known, GatewayEntry("h", 0, tls_port=9)) == known, "no port is no address"


def test_a_gateway_that_left_or_missed_a_renewal_is_told_of_once() -> None:
    sightings = GatewayLiveness()
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9), "c": GatewayEntry("h", 3, 1)}
    assert sightings.see(known, 100.0) == frozenset()
    del known["c"]
    known["b"] = GatewayEntry("h", 2, 10)
    assert sightings.see(known, 110.0) == {"a", "c"}
    assert sightings.see(known, 120.0) == {"b"}, "a was told of before"
    known["a"] = GatewayEntry("h", 1, 6)
    assert sightings.see(known, 130.0) == frozenset()
    assert sightings.see(known, 140.0) == {"a"}
