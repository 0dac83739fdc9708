"""The address of a caller behind trusted proxies, by ``X-Forwarded-For`` or ``Forwarded``. Pure but for its ASGI shell."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

PEER = "penstock.peer"
"""The key of a scope for the address at the other end of the connection."""
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a word of HTTP's grammar
_PAIR = rf"\s*({_TOKEN})=({_TOKEN}|\"[^\"\\]*\")\s*"
_ELEMENT = re.compile(rf"{_PAIR}(?:;{_PAIR})*")
_PAIRS = re.compile(_PAIR)
_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+")
_IPV6_BLOCK_BITS = 64
"""Whoever has one IPv6 address has a network of them."""


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies whose word is believed. Raises `ValueError` for what is neither address nor network."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    @staticmethod
    def of(texts: Iterable[str]) -> TrustedProxies:
        return TrustedProxies(tuple(ipaddress.ip_network(text) for text in texts))

    def __bool__(self) -> bool:
        return bool(self.networks)

    def __str__(self) -> str:
        return ", ".join(map(str, self.networks))

    def __contains__(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self.networks)

    def caller(self, peer: str, headers: Headers) -> str:
        """The nearest address that is no trusted proxy's, read from the right.

        The two headers may disagree if a proxy writes one and passes the other on as its caller wrote it. Then neither is believed.
        """
        if peer not in self:
            return peer
        told = [_plain(headers.getlist("x-forwarded-for")), _standard(headers.getlist("forwarded"))]
        found = {self._nearest(peer, hops) for hops in told if hops}
        return found.pop() if len(found) == 1 else peer

    def _nearest(self, peer: str, hops: Sequence[str | None]) -> str:
        nearest = peer
        for hop in reversed(hops):
            address = None if hop is None else _address(hop)
            if address is None:
                return nearest  # a hidden hop, or none: whatever is to its left is not known to be true
            nearest = str(address)
            if nearest not in self:
                return nearest
        return nearest


class ForwardedMiddleware:
    """Puts the caller's address in place of the proxy's, and keeps the proxy's as ``PEER``."""

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("client"):
            peer, port = scope["client"]
            caller = self._proxies.caller(peer, Headers(scope=scope))
            scope = {**scope, PEER: peer, "client": (caller, port if caller == peer else 0)}
        await self._app(scope, receive, send)


def address_block(text: str) -> str:
    """What counts as one caller: an IPv4 address, or the network of an IPv6 one."""
    address = _address(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address) >> _IPV6_BLOCK_BITS << _IPV6_BLOCK_BITS, _IPV6_BLOCK_BITS)))
    return text if address is None else str(address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    text = text.strip()
    if ported := _WITH_PORT.fullmatch(text):
        text = ported[1] if ported[1] is not None else ported[2]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _plain(lines: Sequence[str]) -> list[str | None]:
    return [hop for line in lines for hop in line.split(",")]


def _standard(lines: Sequence[str]) -> list[str | None]:
    """The hops of ``Forwarded``. None: an element that cannot be read, or names nobody.

    Commas part them even in quotes: so a quote that a caller leaves open does not swallow what the proxy appends.
    """
    return [_named(element) for line in lines for element in line.split(",")]


def _named(element: str) -> str | None:
    if _ELEMENT.fullmatch(element) is None:
        return None
    found = [value.strip('"') for name, value in _PAIRS.findall(element) if name.lower() == "for"]
    return found[0] if len(found) == 1 else None
