"""The caller's address behind proxies: what proxies add counts, what callers write does not."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from penstock.infra.web.server.forwarded import TrustedProxies, address_block
from penstock.infra.web.server.head_timeout import OF_ADDRESS_MAX, is_one_too_many

PROXIES = TrustedProxies.of(["10.0.0.0/24", "fd00::/64"])
PEER, ANN, LIAR = "10.0.0.1", "198.51.100.7", "192.0.2.1"


def caller(peer: str, **lines: list[str] | str) -> str:
    raw = [
        (name.replace("_", "-").encode(), line.encode())
        for name, given in lines.items()
        for line in ([given] if isinstance(given, str) else given)
    ]
    return PROXIES.caller(peer, Headers(raw=raw))


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (ANN, ANN),
        (f"{LIAR}, {ANN}", ANN),
        (f"{ANN}, 10.0.0.9, fd00::7", ANN),
        ([LIAR, ANN, "10.0.0.9"], ANN),
        (f"{ANN}:41234", ANN),
        ("[2001:db8::1]:443", "2001:db8::1"),
        (f"::ffff:{ANN}", ANN),
        ("10.0.0.8, 10.0.0.9", "10.0.0.8"),
        (f"{LIAR}, unknown, 10.0.0.9", "10.0.0.9"),
        (f"{LIAR}, ", PEER),
        ("no address", PEER),
        ("", PEER),
    ],
)
def test_hops_are_read_from_the_right(told: list[str] | str, found: str) -> None:
    assert caller(PEER, x_forwarded_for=told) == found
    assert caller(LIAR, x_forwarded_for=told) == LIAR, "who is no proxy is not believed"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (f"for={ANN}", ANN),
        (f"for={LIAR}, For={ANN};proto=https;by=10.0.0.1", ANN),
        ('for="[2001:db8::1]:4711"', "2001:db8::1"),
        ([f"for={LIAR}", f'proto=http;for="{ANN}:80"', "for=10.0.0.9"], ANN),
        (f'for="{LIAR}, for={ANN}', ANN),
        (f'for={ANN};host="a,for={LIAR}"', PEER),
        (f'for={ANN};host="a,for={LIAR};x=\\"b"', PEER),
        (f"for={LIAR};for={LIAR}", PEER),
        (f"for={LIAR}, for=_hidden", PEER),
        (f"for={LIAR}, proto=https", PEER),
    ],
)
def test_the_standard_header_is_read_as_well(told: list[str] | str, found: str) -> None:
    assert caller(PEER, forwarded=told) == found


def test_of_two_headers_that_disagree_none_is_believed() -> None:
    assert caller(PEER, x_forwarded_for=ANN, forwarded=f"for={ANN}") == ANN
    assert caller(PEER, x_forwarded_for=ANN, forwarded=f"for={LIAR}") == PEER


def test_the_network_of_an_ipv6_address_is_one_caller() -> None:
    assert address_block("2001:db8:1:2:3::9") == address_block("2001:db8:1:2::1") != address_block("2001:db8:1:3::1")
    assert address_block(ANN) == address_block(f"::ffff:{ANN}") == ANN
    assert address_block("testclient") == "testclient"


def test_connections_are_counted_by_caller_and_not_those_of_proxies() -> None:
    full = [ANN] * OF_ADDRESS_MAX
    assert not is_one_too_many(ANN, full, PROXIES)
    assert is_one_too_many(ANN, [*full, ANN], PROXIES)
    assert not is_one_too_many(LIAR, [*full, LIAR], PROXIES)
    assert not is_one_too_many(PEER, [PEER] * 2 * OF_ADDRESS_MAX, PROXIES)
    network = [f"2001:db8::{number:x}" for number in range(1, OF_ADDRESS_MAX + 2)]
    assert is_one_too_many(network[0], network, PROXIES)
