"""Which gateway serves what: rendezvous, addresses, and the list of gateways."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from penstock import aio
from penstock.gateway.rocketmq.clients.gateways import (
    DEAD_S,
    GatewayEntry,
    GatewayLiveness,
    decode_gateways,
    encode_gateways,
    renewed,
    without,
)
from penstock.gateway.rocketmq.clients.peers import BALANCED, PeerRegistry
from penstock.gateway.rocketmq.clients.routes import Peer, accepted_types, by_rendezvous, endpoints_of, route
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.server.options import Endpoint, GatewayOptions
from penstock.log import DataDamaged, TopicSettings
from penstock.log.runtime.runtime import SystemClock
from penstock.log.schema.topic_schema import schema_of_source

THREE = [Peer(f"g{n}", Endpoint(f"10.0.0.{n}", 8081)) for n in range(3)]
TOPICS = [f"topic-{n}" for n in range(300)]
ASKED = endpoints_of([Endpoint("127.0.0.1", 9)])


def home(topic: str, peers: list[Peer]) -> str:
    return by_rendezvous(topic, peers)[0].name


def test_topics_are_spread_and_only_those_of_a_dead_gateway_move() -> None:
    before = {topic: home(topic, THREE) for topic in TOPICS}
    assert all(count > 60 for count in Counter(before.values()).values())
    after = {topic: home(topic, THREE[:2]) for topic in TOPICS}
    assert all(after[topic] == name for topic, name in before.items() if name != "g2")
    assert before == {topic: home(topic, THREE[::-1]) for topic in TOPICS}, "the order in which they are known does not matter"


def test_the_neighbour_is_who_serves_the_topic_next() -> None:
    for topic in TOPICS[:20]:
        first, second, _ = by_rendezvous(topic, THREE)
        assert home(topic, [one for one in THREE if one != first]) == second.name


def test_several_addresses_are_told_only_where_sdks_take_them() -> None:
    addresses = endpoints_of([Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 2)])
    assert addresses.scheme == pb.IPv4
    assert [(one.host, one.port) for one in addresses.addresses] == [("10.0.0.1", 1), ("10.0.0.2", 2)]
    names = endpoints_of([Endpoint("a.example", 1), Endpoint("b.example", 2)])
    assert (names.scheme, len(names.addresses)) == (pb.DOMAIN_NAME, 1)
    assert len(endpoints_of([Endpoint("::1", 1), Endpoint("10.0.0.2", 2)]).addresses) == 1


def test_a_route_has_every_queue_of_a_topic_with_its_type() -> None:
    settings = TopicSettings(message_type="FIFO", queues=3)  # type: ignore[arg-type]
    queues = route(pb.Resource(name="orders"), settings, pb.Broker(name="b"))
    assert [one.id for one in queues] == [0, 1, 2]
    assert {tuple(one.accept_message_types) for one in queues} == {(pb.FIFO,)}
    derived = TopicSettings(message_type="FIFO", message_group="user", schema=schema_of_source("user STRING"))  # type: ignore[arg-type]
    assert accepted_types(derived) == (pb.FIFO, pb.NORMAL)


def peers(options: GatewayOptions, others: tuple[Peer, ...] = ()) -> PeerRegistry:
    made = PeerRegistry(options, "g0", SystemClock())
    made.own, *rest = (GatewayEntry(one.endpoint.host, one.endpoint.port, tls_port=9443) for one in (THREE[0], *others))
    made._others = dict(zip((one.name for one in others), rest, strict=True))
    return made


def test_one_gateway_alone_is_reached_where_the_client_reached_it() -> None:
    (broker,) = peers(GatewayOptions()).brokers("orders", ASKED)
    assert broker.endpoints == ASKED


def test_several_are_told_by_their_own_addresses_each_with_its_neighbour() -> None:
    known = peers(GatewayOptions(), tuple(THREE[1:])).brokers("orders", ASKED)
    order = [peer.endpoint.host for peer in by_rendezvous("orders", THREE)]
    told = [[one.host for one in broker.endpoints.addresses] for broker in known]
    assert told == [order[:2], order[1:], [order[2], order[0]]]


def test_clients_with_tls_are_told_the_ports_with_tls() -> None:
    known = peers(GatewayOptions(), tuple(THREE[1:]))
    told = {one.port for broker in known.brokers("orders", ASKED, tls=True) for one in broker.endpoints.addresses}
    assert told == {9443}
    known._others = {**known._others, "g1": GatewayEntry("10.0.0.1", 8081)}
    assert {broker.name for broker in known.brokers("orders", ASKED, tls=True)} == {"g0", "g2"}, (
        "one without such a port is left out"
    )
    assert len(known.brokers("orders", ASKED)) == 3
    known._others = {**known._others, "g1": GatewayEntry("10.0.0.1", 0, tls_port=9443)}
    assert len(known.brokers("orders", ASKED)) == 2


def test_a_balancer_hides_them_all() -> None:
    options = GatewayOptions(advertise=Endpoint("mq.example", 80))
    (broker,) = peers(options, tuple(THREE[1:])).brokers("orders", ASKED)
    assert (broker.name, broker.endpoints.scheme) == (BALANCED, pb.DOMAIN_NAME)


def test_the_list_of_gateways_is_read_as_it_was_written() -> None:
    known = {
        "b": GatewayEntry("10.0.0.1", 8081, 3),
        "a": GatewayEntry("::1", 1),
        "c": GatewayEntry("::1", 0, tls_port=8443, signed=True),
    }
    earlier = b'{"a": {"host": "h", "port": 1, "beat": 2}}'
    assert decode_gateways(earlier, where="gateways") == {"a": GatewayEntry("h", 1, 2)}
    assert decode_gateways(encode_gateways(known), where="gateways") == known
    for bad in (b"", b"[]", b'{"a": {"host": "", "port": 1}}', b'{"a": {"host": "h", "port": 70000}}'):
        with pytest.raises(DataDamaged):
            decode_gateways(bad, where="gateways")


def test_a_gateway_is_dead_when_it_stands_still_for_long_by_the_readers_own_clock() -> None:
    sightings = GatewayLiveness()
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9)}
    sightings.see(known, 100.0)
    sightings.see(renewed(known, "b", GatewayEntry("h", 2, 10), frozenset()), 100.0 + DEAD_S - 1)
    assert sightings.dead(100.0 + DEAD_S - 1) == frozenset()
    assert sightings.dead(100.0 + DEAD_S) == {"a"}


def test_a_renewal_takes_dead_ones_out_and_never_itself() -> None:
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9)}
    assert renewed(known, "b", GatewayEntry("h", 3, 10), frozenset({"a", "b"})) == {"b": GatewayEntry("h", 3, 10)}
    assert without(known, "a") == {"b": known["b"]}


def test_a_gateway_that_left_or_missed_a_renewal_is_told_of_once() -> None:
    sightings = GatewayLiveness()
    known = {"a": GatewayEntry("h", 1, 5), "b": GatewayEntry("h", 2, 9), "c": GatewayEntry("h", 3, 1)}
    assert sightings.see(known, 100.0) == frozenset()
    del known["c"]
    known["b"] = GatewayEntry("h", 2, 10)
    assert sightings.see(known, 110.0) == {"a", "c"}
    assert sightings.see(known, 120.0) == {"b"}, "a was told of before"
    known["a"] = GatewayEntry("h", 1, 6)
    assert sightings.see(known, 130.0) == frozenset()
    assert sightings.see(known, 140.0) == {"a"}


def test_who_follows_the_list_is_told_of_a_gateway_that_stands_still() -> None:
    async def run() -> None:
        async with aio.connect("memory://") as lake:
            one, two = (PeerRegistry(GatewayOptions(), name, SystemClock()) for name in ("one", "two"))
            told: list[str] = []
            two.on_gone.append(lambda: told.append("gone"))
            for each in (one, two):
                await each.join(lake.coordination, GatewayEntry("h", 1))
            await one._renew_once()
            await two._renew_once()
            assert told == []
            await two._renew_once()
            await two._renew_once()
            assert told == ["gone"]
            await one.leave()
            await two._renew_once()
            assert told == ["gone", "gone"]
            await two.leave()

    asyncio.run(run())


def test_signed_and_unsigned_gateways_of_a_lake_warn_and_do_not_send_clients_to_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with aio.connect("memory://") as lake:
            terms = {"signed": True, "other": True, "unsigned": False, "earlier": None}
            known = {name: PeerRegistry(GatewayOptions(), name, SystemClock()) for name in terms}
            for number, (name, one) in enumerate(known.items()):
                await one.join(lake.coordination, GatewayEntry("h", number + 1, signed=terms[name]))
            for _ in range(2):
                for one in known.values():
                    await one._renew_once()
            reached = {name: {peer.name for peer in one.live(tls=False)} for name, one in known.items()}
            assert reached["signed"] == reached["other"] == {"signed", "other", "earlier"}
            assert reached["unsigned"] == {"unsigned", "earlier"}
            assert reached["earlier"] == set(terms), "what it does not say is not held against it"
            for one in known.values():
                await one.leave()

    with caplog.at_level("WARNING", logger="penstock.gateway"):
        asyncio.run(run())
    lines = sorted(one.message for one in caplog.records)
    assert [line[:60] for line in lines] == [
        "gateway other at h:2 asks for signatures, and this one of th",
        "gateway signed at h:1 asks for signatures, and this one of t",
        "gateway unsigned at h:3 serves this lake without asking for ",
        "gateway unsigned at h:3 serves this lake without asking for ",
    ]
