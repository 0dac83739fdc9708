"""The clients of this gateway: announcements and liveness.

A client chooses its id, so it is known by that among the clients of its principal only.
"""

from __future__ import annotations

from asyncio import Future
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from ....log.runtime.runtime import Clock
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError
from ..server.calls import RpcCall

LOST_S: Final = 30.0
"""A client is lost after this silence: SDKs send a heartbeat each 10 s."""

_STOOD_STILL_S: Final = 10.0
"""A gap between looks, otherwise 5 s, by which the process itself was stopped."""

_PEERS_MAX: Final = 16
"""More connections, through a balancer, cost further scans of the cells."""

CLIENTS_OF_ONE_MAX: Final = 10_000
"""The most clients of one principal, or unsigned of one address."""

Send = Callable[[pb.TelemetryCommand], Awaitable[None]]


@dataclass(slots=True)
class AdoptionScans:
    """The scans of a group and topic's cells for a client's messages from other gateways."""

    by_peer: OrderedDict[str, Future[None]] = field(default_factory=OrderedDict)
    """Scans by the client's connection, the newest last."""
    used_s: float = 0.0
    """The client's last request for messages."""
    is_renewed: bool = False
    """Whether messages stay invisible as long as the client lives."""

    def note(self, peer: str, asked: Future[None]) -> None:
        """Keep a scan. The next receive repeats a failed one."""

        def ended(asked: Future[None]) -> None:
            if (asked.cancelled() or asked.exception() is not None) and self.by_peer.get(peer) is asked:
                del self.by_peer[peer]

        self.by_peer[peer] = asked
        asked.add_done_callback(ended)
        if len(self.by_peer) > _PEERS_MAX:
            self.by_peer.popitem(last=False)


@dataclass(slots=True)
class GatewayClient:
    """One client object of an SDK."""

    id: str
    """`RpcCall.client`."""
    owner: str = ""
    language: str = ""
    version: str = ""
    seen_s: float = 0.0
    client_type: int = pb.CLIENT_TYPE_UNSPECIFIED
    group: str = ""
    topics: frozenset[str] = frozenset()
    """The topics that a producer announced."""
    subscribed: frozenset[str] = frozenset()
    """The topics that a consumer announced."""
    principal: str = ""
    send: Send | None = field(default=None, repr=False)
    """Sends a command by the open telemetry stream."""
    adoption_scans: dict[tuple[str, str], AdoptionScans] = field(default_factory=dict, repr=False)
    """Scans by consumer group and topic."""


class ClientRegistry:
    """The live clients, in memory only: no guarantee depends on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, GatewayClient] = {}
        self._of_owner: Counter[str] = Counter()
        self._looked_s = clock.monotonic_s()
        self.on_lost: list[Callable[[GatewayClient], None]] = []
        """Called for a client that ended, or was silent for `LOST_S`."""
        self.on_change: list[Callable[[GatewayClient], None]] = []
        """Called for a client that announced itself, or whose stream ended."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, client_id: str) -> GatewayClient | None:
        return self._known.get(client_id)

    def all(self) -> list[GatewayClient]:
        return list(self._known.values())

    def on_call(self, call: RpcCall) -> None:
        self.of(call).seen_s = self._clock.monotonic_s()

    def of(self, call: RpcCall) -> GatewayClient:
        """The client of a call, new or known. Raises `StatusError` for one too many."""
        known = self._known.get(call.client)
        if known is None:
            if self._of_owner[call.owner] >= CLIENTS_OF_ONE_MAX:
                raise StatusError(
                    pb.TOO_MANY_REQUESTS,
                    f"{call.owner} has {CLIENTS_OF_ONE_MAX:,} clients at this gateway: let them say when they end, or wait for {LOST_S:g} s",
                )
            stated = call.metadata
            known = GatewayClient(
                call.client, call.owner, stated.language, stated.version, self._clock.monotonic_s(), principal=call.principal
            )
            self._known[known.id] = known
            self._of_owner[known.owner] += 1
        return known

    def notify_change(self, client: GatewayClient) -> None:
        for told in self.on_change:
            told(client)

    def remove(self, client_id: str) -> None:
        if (client := self._known.pop(client_id, None)) is not None:
            self._of_owner[client.owner] -= 1
            if not self._of_owner[client.owner]:
                del self._of_owner[client.owner]
            for told in self.on_lost:
                told(client)

    def extend_after_pause(self) -> None:
        """Count all clients as alive if this process was stopped: their heartbeats are still unread."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s > _STOOD_STILL_S:
            for client in self._known.values():
                client.seen_s = now_s
        self._looked_s = now_s

    def sweep(self) -> None:
        """Forget clients after `LOST_S`."""
        self.extend_after_pause()
        before_s = self._clock.monotonic_s() - LOST_S
        for client in self.all():
            if client.seen_s < before_s:
                self.remove(client.id)

    def producers_of(self, topic: str) -> list[GatewayClient]:
        """The producers of a topic with an open stream."""
        return [one for one in self._known.values() if topic in one.topics and one.send is not None]
