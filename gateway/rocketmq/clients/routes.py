"""The routes of topics, as RocketMQ's clients are told them. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from ....log import MessageType, TopicSettings
from ...peers.registry import PeerRegistry
from ...peers.rendezvous import Peer, by_rendezvous
from ...server.options import Endpoint
from ..protocol import rocketmq_pb2 as pb

ANY_QUEUE = -1
BALANCED: Final = "penstock"
"""The broker's name for all gateways behind one address."""
_NEIGHBOURS: Final = 2
"""The gateways in a topic's route: one that serves it, and its successor."""
_DERIVED_FIFO = (pb.FIFO, pb.NORMAL)
"""SDKs call messages of a FIFO topic without a group NORMAL; this one finds its groups in a field."""
_TYPES = {
    MessageType.NORMAL: pb.NORMAL,
    MessageType.FIFO: pb.FIFO,
    MessageType.DELAY: pb.DELAY,
    MessageType.TRANSACTION: pb.TRANSACTION,
}


def brokers(topic: str, peers: PeerRegistry, asked: pb.Endpoints, *, tls: bool = False) -> list[pb.Broker]:
    """The gateways for a topic by precedence, each with a neighbour. A single gateway is at ``asked``, the client's own address of it."""
    if peers.advertise is not None:
        return [pb.Broker(name=BALANCED, endpoints=endpoints_of([peers.advertise]))]
    live = by_rendezvous(topic, peers.live(tls=tls))
    if len(live) <= 1 and asked.addresses:
        return [pb.Broker(name=peers.name, endpoints=asked)]
    return [
        pb.Broker(name=peer.name, endpoints=endpoints_of([one.endpoint for one in _from(live, at)])) for at, peer in enumerate(live)
    ]


def _from(live: Sequence[Peer], at: int) -> Sequence[Peer]:
    return [*live[at:], *live[:at]][:_NEIGHBOURS]


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
        return _DERIVED_FIFO
    return tuple(_TYPES[kind] for kind in settings.message_type.taken)


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
