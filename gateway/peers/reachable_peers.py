"""The live gateways that answer. A dead one stays in the list for `DEAD_S`, longer than clients should wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from ...log.runtime.runtime import Clock
from ..server.options import Endpoint
from .registry import PeerRegistry
from .rendezvous import Peer

KNOWN_S: Final = 3.0
"""What was found counts for so long."""
_CONNECT_S: Final = 1.0


async def accepts_connections(endpoint: Endpoint) -> bool:
    """Whether something listens there."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.close()
        return True
    return False


class ReachablePeers:
    """Leaves out of the live gateways those that refuse connections. That is advice: who is wrongly left out or in does no harm."""

    def __init__(
        self, peers: PeerRegistry, clock: Clock, *, accepts: Callable[[Endpoint], Awaitable[bool]] = accepts_connections
    ) -> None:
        self._peers, self._clock, self._accepts = peers, clock, accepts
        self._found: dict[Peer, tuple[float, bool]] = {}

    @property
    def own_name(self) -> str:
        return self._peers.name

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        """The reachable gateways for clients with TLS, or without; this one included."""
        listed = self._peers.live(tls=tls)
        now_s = self._clock.monotonic_s()
        known = {peer: found for peer, found in self._found.items() if now_s - found[0] < KNOWN_S}
        asked = [peer for peer in listed if peer.name != self.own_name and peer not in known]
        answers = await asyncio.gather(*(self._accepts(peer.endpoint) for peer in asked))
        self._found = known | {peer: (now_s, answer) for peer, answer in zip(asked, answers, strict=True)}
        return [peer for peer in listed if peer.name == self.own_name or self._found.get(peer, (now_s, True))[1]]
