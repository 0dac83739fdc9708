"""The live gateways of one protocol at a lake, with this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from ...coordinator import Coordination
from ...coordinator.cells.document import Codec, Document
from ...log import PenstockError
from ...log.runtime.runtime import Clock
from ..server.options import Endpoint
from .clients import AlikeClients, alike
from .entries import (
    RENEW_S,
    SURE_S,
    GatewayEntry,
    GatewayLiveness,
    Gateways,
    decode_gateways,
    encode_gateways,
    with_renewal,
    without_gateway,
    without_predecessors,
)
from .rendezvous import Peer

log = logging.getLogger("penstock.gateway")

_CODEC: Final = Codec[Gateways](encode_gateways, decode_gateways)


class PeerRegistry:
    """Joins the gateways that share a cell, and follows them. Behind one address of all gateways no cell is read or written."""

    def __init__(self, cell: str, name: str, clock: Clock, *, advertise: Endpoint | None = None) -> None:
        """``cell``: the key of the protocol's cell. ``advertise``: the one address of all gateways."""
        self._cell = cell
        self._clock = clock
        self.advertise = advertise
        self.name = name
        self.own: GatewayEntry | None = None
        """This gateway's place for clients, once it listens."""
        self._others: Gateways = {}
        self._told: frozenset[str] = frozenset()
        """Gateways on other terms, already logged."""
        self._sightings = GatewayLiveness()
        self._document: Document[Gateways] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._counted_s: float | None = None
        """When the renewal began by which others last knew that this gateway lives."""
        self.on_gone: list[Callable[[], None]] = []
        """Called when another gateway left, or missed a renewal: long before it counts as dead."""
        self.clients: Callable[[], Sequence[AlikeClients]] = list
        """Tells of this gateway's clients, each by itself."""

    def live(self, *, tls: bool) -> Sequence[Peer]:
        """The live gateways for clients with TLS, or without; this one included.

        Clients of gateways with signatures are not sent to those without, or the reverse.
        """
        own = {} if self.own is None else {self.name: self.own}
        known = own | {name: entry for name, entry in self._others.items() if self.own is None or entry.trusts_as(self.own)}
        return [Peer(name, place) for name, entry in known.items() if (place := entry.endpoint(tls=tls)) is not None]

    def renewals(self, name: str) -> int:
        """How often another gateway has said that it lives, as far as known."""
        return self._others[name].beat

    def is_counted(self) -> bool:
        """Whether the others count this gateway among the live ones, for some seconds more. It is alone where it has one address with them."""
        if self.advertise is not None:
            return True
        return self._counted_s is not None and self._clock.monotonic_s() - self._counted_s < SURE_S

    async def join(self, coordination: Coordination, own: GatewayEntry) -> None:
        self.own = own
        if self.advertise is not None:
            return
        await coordination.claim()
        self._document = Document(coordination.cells, self._clock, self._cell, _CODEC, absent={})
        await self._renew_once()
        self._renewing = asyncio.ensure_future(self._renew())

    async def leave(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._document is not None:
            with suppress(PenstockError):  # otherwise they find out by themselves
                await self._document.change(lambda known: without_gateway(known, self.name))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            await self._renew_once()

    async def _renew_once(self) -> None:
        document = self._document
        assert document is not None, "made by joining"
        assert self.own is not None, "given by joining"
        clients = self.clients()
        own = self.own = msgspec.structs.replace(self.own, beat=self.own.beat + 1, clients=len(clients), alike=alike(clients))
        now_s = self._clock.monotonic_s()
        try:
            gone = self._sightings.see(await document.read(), now_s) - {self.name}
            if gone:
                for told in self.on_gone:
                    told()
            dead = self._sightings.dead(now_s)
            has_come = self._counted_s is None
            known = await document.change(
                lambda found: with_renewal(without_predecessors(found, own) if has_come else found, self.name, own, dead)
            )
        except PenstockError as error:
            log.warning("this gateway could not tell the others that it lives, and tries again: %s", error)
            return
        self._counted_s = now_s
        self._others = {name: entry for name, entry in known.items() if name != self.name}
        self._tell_of_others(own)

    def _tell_of_others(self, own: GatewayEntry) -> None:
        """Warn once of each gateway on other terms."""
        apart = {name: entry for name, entry in self._others.items() if not entry.trusts_as(own)}
        for name in apart.keys() - self._told:
            where = apart[name].endpoint(tls=False) or apart[name].endpoint(tls=True)
            if own.signed:
                log.warning(
                    "gateway %s at %s serves this lake without asking for signatures: whoever reaches it may do everything. Start it with "
                    "--access-key-file, or end it. No route leads there from here",
                    name,
                    where,
                )
            else:
                log.warning(
                    "gateway %s at %s asks for signatures, and this one of the same lake does not: whoever reaches this one may do everything. "
                    "Start it with --access-key-file, too. No route leads there from here",
                    name,
                    where,
                )
        self._told = frozenset(apart)
