"""The live gateways that answer. A dead one stays in the list for `DEAD_S`, longer than clients should wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ...log.runtime.runtime import Clock
from ..server.options import Endpoint
from .registry import PeerRegistry
from .rendezvous import Peer

KNOWN_S: Final = 0.5
"""An acceptance counts for so long. Clients whose gateway died ask the others twice within a second, and some then give their groups up."""
_CONNECT_S: Final = 1.0


async def accepts_connections(endpoint: Endpoint) -> bool:
    """Whether something listens there."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.close()
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found when a gateway was asked for a connection."""

    at_s: float
    accepts: bool
    renewals: int

    def holds(self, now_s: float, renewals: int) -> bool:
        """A refusal counts until the gateway says that it lives: its successor may listen at its place."""
        return now_s - self.at_s < KNOWN_S if self.accepts else renewals == self.renewals


class ReachablePeers:
    """Leaves out of the live gateways those that refuse connections. That is advice: who is wrongly left out or in does no harm."""

    def __init__(
        self, peers: PeerRegistry, clock: Clock, *, accepts: Callable[[Endpoint], Awaitable[bool]] = accepts_connections
    ) -> None:
        self._peers, self._clock, self._accepts = peers, clock, accepts
        self._found: dict[Peer, _Look] = {}
        self._asking: dict[Peer, asyncio.Task[None]] = {}

    @property
    def own_name(self) -> str:
        return self._peers.name

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        """The reachable gateways for clients with TLS, or without; this one included."""
        listed = self._peers.live(tls=tls)
        if unknown := [peer for peer in listed if peer.name != self.own_name and self._known(peer) is None]:
            await asyncio.gather(*(asyncio.shield(self._asked(peer)) for peer in unknown))
            others = {*listed, *self._peers.live(tls=not tls)}
            self._found = {peer: look for peer, look in self._found.items() if peer in others}
        return [peer for peer in listed if (look := self._found.get(peer)) is None or look.accepts]

    def _known(self, peer: Peer) -> _Look | None:
        look = self._found.get(peer)
        return look if look is not None and look.holds(self._clock.monotonic_s(), self._peers.renewals(peer.name)) else None

    def _asked(self, peer: Peer) -> asyncio.Task[None]:
        """Calls that come meanwhile wait for the same answer."""
        asking = self._asking.get(peer)
        if asking is None:
            asking = self._asking[peer] = asyncio.ensure_future(self._ask(peer))
            asking.add_done_callback(lambda _: self._asking.pop(peer))
        return asking

    async def _ask(self, peer: Peer) -> None:
        at_s, renewals = self._clock.monotonic_s(), self._peers.renewals(peer.name)
        self._found[peer] = _Look(at_s, await self._accepts(peer.endpoint), renewals)
