"""The assignment of topics to gateways. Pure.

Every gateway may serve every topic, but a topic's sends are cheapest where they meet. So all clients get the same gateway for a topic, by rendezvous
hashing: when a gateway comes or goes, only the topics that it gains or had move.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from ....log import MessageType, TopicSettings
from ...server.options import Endpoint
from ..protocol import rocketmq_pb2 as pb

ANY_QUEUE = -1
_MIXED_FIFO = (pb.FIFO, pb.NORMAL)
"""SDKs call messages of a FIFO topic without a group NORMAL; this one finds its groups in a field."""
_TYPES = {
    MessageType.NORMAL: pb.NORMAL,
    MessageType.FIFO: pb.FIFO,
    MessageType.DELAY: pb.DELAY,
    MessageType.TRANSACTION: pb.TRANSACTION,
}


@dataclass(frozen=True, slots=True, order=True)
class Peer:
    """A live gateway and its addresses."""

    name: str
    endpoint: Endpoint


def by_rendezvous(topic: str, peers: Sequence[Peer]) -> list[Peer]:
    """The gateways by precedence for the topic."""
    return sorted(peers, key=lambda peer: (xxhash.xxh3_64_intdigest(f"{peer.name}\0{topic}".encode()), peer.name), reverse=True)


def endpoints_of(places: Sequence[Endpoint]) -> pb.Endpoints:
    """SDKs connect to the first that answers, if all are addresses of one kind. Otherwise only the first is given."""
    schemes = [_scheme(place.host) for place in places]
    told = places if schemes[0] != pb.DOMAIN_NAME and len(set(schemes)) == 1 else places[:1]
    return pb.Endpoints(scheme=schemes[0], addresses=[pb.Address(host=one.host, port=one.port) for one in told])


def _scheme(host: str) -> pb.AddressScheme:
    try:
        return pb.IPv4 if ipaddress.ip_address(host).version == 4 else pb.IPv6
    except ValueError:
        return pb.DOMAIN_NAME


def accepted_types(settings: TopicSettings) -> tuple[pb.MessageType, ...]:
    if settings.message_type is MessageType.FIFO and settings.message_group is not None:
        return _MIXED_FIFO
    return (_TYPES[settings.message_type],)


def route(resource: pb.Resource, settings: TopicSettings, broker: pb.Broker) -> list[pb.MessageQueue]:
    """The queues of a topic, all at one gateway, which chooses again by message group."""
    types = accepted_types(settings)
    return [
        pb.MessageQueue(topic=resource, id=queue, permission=pb.READ_WRITE, broker=broker, accept_message_types=types)
        for queue in range(settings.queues)
    ]


def assignment(resource: pb.Resource, broker: pb.Broker) -> pb.Assignment:
    """A consumer's place to poll, for whatever queues the gateway owns."""
    queue = pb.MessageQueue(topic=resource, id=ANY_QUEUE, permission=pb.READ_WRITE, broker=broker)
    return pb.Assignment(message_queue=queue)
