"""The assignment of topics to gateways. Pure.

Every gateway may serve every topic, but a topic's sends are cheapest where they meet. So all clients get the same gateway for a topic, by rendezvous
hashing: when a gateway comes or goes, only the topics that it gains or had move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from ..server.options import Endpoint


@dataclass(frozen=True, slots=True, order=True)
class Peer:
    """A live gateway and its addresses."""

    name: str
    endpoint: Endpoint


def by_rendezvous(topic: str, peers: Sequence[Peer]) -> list[Peer]:
    """The gateways by precedence for the topic."""
    return sorted(peers, key=lambda peer: (xxhash.xxh3_64_intdigest(f"{peer.name}\0{topic}".encode()), peer.name), reverse=True)
