"""The routes that clients are told: addresses, queues, and gateways."""

from __future__ import annotations

from penstock.coordinator.cells.keys import GATEWAYS
from penstock.gateway.peers.entries import GatewayEntry
from penstock.gateway.peers.registry import PeerRegistry
from penstock.gateway.peers.rendezvous import Peer, by_rendezvous
from penstock.gateway.rocketmq.clients.routes import BALANCED, accepted_types, brokers, endpoints_of, route
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.server.options import Endpoint
from penstock.log import TopicSettings
from penstock.log.runtime.runtime import SystemClock
from penstock.log.schema.topic_schema import schema_of_source

THREE = [Peer(f"g{n}", Endpoint(f"10.0.0.{n}", 8081)) for n in range(3)]
ASKED = endpoints_of([Endpoint("127.0.0.1", 9)])


def test_several_addresses_are_told_only_where_sdks_take_them() -> None:
    addresses = endpoints_of([Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 2)])
    assert addresses.scheme == pb.IPv4
    assert [(one.host, one.port) for one in addresses.addresses] == [("10.0.0.1", 1), ("10.0.0.2", 2)]
    names = endpoints_of([Endpoint("a.example", 1), Endpoint("b.example", 2)])
    assert (names.scheme, len(names.addresses)) == (pb.DOMAIN_NAME, 1)
    assert len(endpoints_of([Endpoint("::1", 1), Endpoint("10.0.0.2", 2)]).addresses) == 1


def test_a_route_has_every_queue_of_a_topic_with_its_type() -> None:
    settings = TopicSettings(message_type="FIFO", queues=3)
    queues = route(pb.Resource(name="orders"), settings, pb.Broker(name="b"))
    assert [one.id for one in queues] == [0, 1, 2]
    assert {tuple(one.accept_message_types) for one in queues} == {(pb.FIFO,)}
    derived = TopicSettings(message_type="FIFO", message_group="user", schema=schema_of_source("user STRING"))
    assert accepted_types(derived) == (pb.FIFO, pb.NORMAL)
    assert accepted_types(TopicSettings(message_type="MIXED")) == (pb.NORMAL, pb.FIFO, pb.TRANSACTION)


def peers(others: tuple[Peer, ...] = (), advertise: Endpoint | None = None) -> PeerRegistry:
    made = PeerRegistry(GATEWAYS, "g0", SystemClock(), advertise=advertise)
    made.own, *rest = (GatewayEntry(one.endpoint.host, one.endpoint.port, tls_port=9443) for one in (THREE[0], *others))
    made._others = dict(zip((one.name for one in others), rest, strict=True))
    return made


def test_one_gateway_alone_is_reached_where_the_client_reached_it() -> None:
    (broker,) = brokers("orders", peers(), ASKED)
    assert broker.endpoints == ASKED


def test_several_are_told_by_their_own_addresses_each_with_its_neighbour() -> None:
    known = brokers("orders", peers(tuple(THREE[1:])), ASKED)
    order = [peer.endpoint.host for peer in by_rendezvous("orders", THREE)]
    told = [[one.host for one in broker.endpoints.addresses] for broker in known]
    assert told == [order[:2], order[1:], [order[2], order[0]]]


def test_clients_with_tls_are_told_the_ports_with_tls() -> None:
    known = peers(tuple(THREE[1:]))
    told = {one.port for broker in brokers("orders", known, ASKED, tls=True) for one in broker.endpoints.addresses}
    assert told == {9443}
    known._others = {**known._others, "g1": GatewayEntry("10.0.0.1", 8081)}
    assert {broker.name for broker in brokers("orders", known, ASKED, tls=True)} == {"g0", "g2"}, (
        "one without such a port is left out"
    )
    assert len(brokers("orders", known, ASKED)) == 3
    known._others = {**known._others, "g1": GatewayEntry("10.0.0.1", 0, tls_port=9443)}
    assert len(brokers("orders", known, ASKED)) == 2


def test_a_balancer_hides_them_all() -> None:
    (broker,) = brokers("orders", peers(tuple(THREE[1:]), Endpoint("mq.example", 80)), ASKED)
    assert (broker.name, broker.endpoints.scheme) == (BALANCED, pb.DOMAIN_NAME)
