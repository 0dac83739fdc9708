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

    @property
    def own_name(self) -> str:
        return self._peers.name

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        """The reachable gateways for clients with TLS, or without; this one included."""
        listed = self._peers.live(tls=tls)
        now_s = self._clock.monotonic_s()
        renewals = {peer: self._peers.renewals(peer.name) for peer in listed if peer.name != self.own_name}
        known = {peer: look for peer, look in self._found.items() if peer in renewals and look.holds(now_s, renewals[peer])}
        asked = [peer for peer in renewals if peer not in known]
        answers = await asyncio.gather(*(self._accepts(peer.endpoint) for peer in asked)) if asked else []
        found = known | {peer: _Look(now_s, answer, renewals[peer]) for peer, answer in zip(asked, answers, strict=True)}
        others = {*listed, *self._peers.live(tls=not tls)}
        self._found = {peer: look for peer, look in self._found.items() if peer in others} | found
        return [peer for peer in listed if peer not in found or found[peer].accepts]
