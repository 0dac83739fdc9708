"""The gateways of a lake as the brokers of a cluster. Every one appends and reads rightly, so that a leader is advice. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from ....coordinator.cells.agreement import lake_name
from ...peers.rendezvous import Peer, by_rendezvous
from ...server.options import Endpoint

NO_NODE: Final = -1
_ID_BYTES: Final = 16
_NODES: Final = 2**31


@dataclass(frozen=True, slots=True)
class Node:
    """A gateway as a broker."""

    node_id: int
    endpoint: Endpoint


def node_of(peer: Peer) -> Node:
    """The number of a gateway is made of its name, which is random."""
    return Node(int.from_bytes(blake2b(peer.name.encode(), digest_size=4).digest()) % _NODES, peer.endpoint)


def leader_of(topic: str, peers: Sequence[Peer]) -> int:
    """The gateway that all clients of a topic meet at, as appends are cheapest where they meet."""
    return node_of(by_rendezvous(topic, peers)[0]).node_id if peers else NO_NODE


def cluster_id(lake_url: str) -> str:
    """The same at all gateways of a lake."""
    return urlsafe_b64encode(blake2b(lake_name(lake_url).encode(), digest_size=_ID_BYTES).digest()).decode().rstrip("=")
