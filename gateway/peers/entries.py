"""The gateways of a lake, as one cell of its table, in which each renews its entry.

A gateway counts as dead when its number of renewals stands still for `DEAD_S` by the reader's own clock, as leases do. Any renewal removes dead ones.
A wrong list does no harm: a client turns from a gateway that does not answer to its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ...log.errors import DataDamaged
from ..server.options import Endpoint
from .clients import AlikeClients

RENEW_S: Final = 10.0
DEAD_S: Final = 35.0
"""Three renewals, and a quarter more."""
SURE_S: Final = 25.0
"""A gateway that has not renewed its entry for so long stops what only one may do: others take over after `DEAD_S`."""
_HOST_CHARS_MAX: Final = 255

Named = Annotated[str, Meta(min_length=1, max_length=_HOST_CHARS_MAX)]


class GatewayEntry(Struct, frozen=True):
    """One gateway: its addresses, and its number of renewals."""

    host: Named
    port: Annotated[int, Meta(ge=0, le=65535)]
    """0: no port without TLS."""
    beat: Annotated[int, Meta(ge=0)] = 0
    tls_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: no port with TLS. Earlier gateways did not name it."""
    signed: bool | None = None
    """None: an earlier gateway, of which it is unknown."""
    clients: int | None = None
    """The number of its clients; None: an earlier gateway, which does not tell."""
    alike: tuple[AlikeClients, ...] = ()
    """Most of them, alike ones together."""

    def endpoint(self, *, tls: bool) -> Endpoint | None:
        """The place for clients with TLS, or without."""
        port = self.tls_port if tls else self.port
        return Endpoint(self.host, port) if port else None

    def is_at(self, other: GatewayEntry) -> bool:
        """Whether both name one port of one host."""
        shared = (self.port and self.port == other.port) or (self.tls_port and self.tls_port == other.tls_port)
        return self.host == other.host and bool(shared)

    def trusts_as(self, other: GatewayEntry) -> bool:
        """Whether the other one's clients may be sent here: both require signatures, or neither does, as far as known."""
        return None in (self.signed, other.signed) or self.signed == other.signed


Gateways = Mapping[str, GatewayEntry]
_DECODER: Final = msgspec.json.Decoder(dict[Named, GatewayEntry])


def encode_gateways(gateways: Gateways) -> bytes:
    return msgspec.json.encode(dict(sorted(gateways.items())))


def decode_gateways(data: bytes, *, where: str) -> Gateways:
    """The inverse of `encode_gateways`. Raises `DataDamaged`."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataDamaged("the list of gateways is damaged", object=where, observed=str(error)) from error


@dataclass(frozen=True, slots=True)
class _Sighting:
    beat: int
    since_s: float
    """When this number was seen first."""
    is_quiet: bool = False


class GatewayLiveness:
    """What one gateway saw of the others, by its own clock."""

    def __init__(self) -> None:
        self._seen: dict[str, _Sighting] = {}

    def see(self, gateways: Gateways, now_s: float) -> frozenset[str]:
        """Note a new reading of the list. Returns gateways that left, or missed their first renewal."""
        before, self._seen = self._seen, {name: self._sighting(name, entry, now_s) for name, entry in gateways.items()}
        quiet = {name for name, one in self._seen.items() if one.is_quiet and not before[name].is_quiet}
        return frozenset(quiet | (before.keys() - self._seen.keys()))

    def _sighting(self, name: str, entry: GatewayEntry, now_s: float) -> _Sighting:
        known = self._seen.get(name)
        if known is None or known.beat != entry.beat:
            return _Sighting(entry.beat, now_s)
        return replace(known, is_quiet=True)

    def dead(self, now_s: float) -> frozenset[str]:
        return frozenset(name for name, one in self._seen.items() if now_s - one.since_s >= DEAD_S)


def with_renewal(gateways: Gateways, name: str, own: GatewayEntry, dead: frozenset[str]) -> Gateways:
    """The list with one gateway's renewal, without dead ones; unchanged if the renewal is in it."""
    kept = {one: entry for one, entry in gateways.items() if one == name or one not in dead}
    return kept | {name: own}


def without_predecessors(gateways: Gateways, own: GatewayEntry) -> Gateways:
    """The list without those that were where this gateway has come: a port has one listener, so they are dead."""
    return {name: entry for name, entry in gateways.items() if not entry.is_at(own)}


def without_gateway(gateways: Gateways, name: str) -> Gateways:
    return {one: entry for one, entry in gateways.items() if one != name}
