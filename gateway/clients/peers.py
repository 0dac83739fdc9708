"""The live gateways, as this one knows them."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import rocketmq_pb2 as pb
from ..server.options import GatewayOptions, Place
from .routes import Peer, by_rendezvous, endpoints_of

_NEIGHBOURS = 2
"""How many gateways clients are told for a topic: the one that serves it, and the one that would if it were gone."""
BALANCED = "penstock"
"""The broker's name of all gateways behind one address."""


class Peers:
    """Says where clients find a topic."""

    def __init__(self, options: GatewayOptions, name: str) -> None:
        self._options = options
        self.name = name
        self.place: Place | None = None
        """The place of this gateway, once it listens."""

    def live(self) -> Sequence[Peer]:
        """The gateways that live, this one included."""
        return [Peer(self.name, self.place)] if self.place is not None else []

    def brokers(self, topic: str, asked: pb.Endpoints) -> list[pb.Broker]:
        """The gateways for a topic, the one that serves it first, each with a neighbour to turn to.

        ``asked`` is the place that the client was given: one gateway alone, and all behind one address, are reached where it reached them.
        """
        if self._options.advertise is not None:
            return [pb.Broker(name=BALANCED, endpoints=endpoints_of([self._options.advertise]))]
        live = by_rendezvous(topic, self.live())
        if len(live) <= 1 and asked.addresses:
            return [pb.Broker(name=self.name, endpoints=asked)]
        return [
            pb.Broker(name=peer.name, endpoints=endpoints_of([one.place for one in _from(live, place)]))
            for place, peer in enumerate(live)
        ]


def _from(live: Sequence[Peer], place: int) -> Sequence[Peer]:
    return [*live[place:], *live[:place]][:_NEIGHBOURS]
