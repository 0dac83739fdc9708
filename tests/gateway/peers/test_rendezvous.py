"""Which gateway serves which topic."""

from __future__ import annotations

from collections import Counter

from penstock.gateway.peers.rendezvous import Peer, by_rendezvous
from penstock.gateway.server.options import Endpoint

THREE = [Peer(f"g{n}", Endpoint(f"10.0.0.{n}", 8081)) for n in range(3)]
TOPICS = [f"topic-{n}" for n in range(300)]


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
