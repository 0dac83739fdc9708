"""The doctor's look at message groups, and the queues that they lie in."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Message, PermissionDenied, Routing, connect
from penstock.infra.cli.setup.routing_check import judged
from penstock.log import LogLake, TopicSettings, queue_of
from tests.infra.cli.conftest import Penstock

GROUPS = [f"g{number}" for number in range(20)]
MURMUR2 = TopicSettings(queues=16, routing=Routing.MURMUR2)


def placed(routing: Routing) -> dict[str, set[int]]:
    return {group: {queue_of(group, 16, routing)} for group in GROUPS}


def test_groups_where_the_routing_says_are_well() -> None:
    assert judged("orders", MURMUR2, placed(Routing.MURMUR2)) is None
    assert judged("orders", TopicSettings(), placed(Routing.XXHASH64)) is None
    assert judged("orders", TopicSettings(), {}) is None


@pytest.mark.parametrize("other", [Routing.XXHASH64, Routing.CRC32])
def test_groups_that_all_lie_by_another_routing_are_noted_with_it(other: Routing) -> None:
    found = judged("orders", MURMUR2, placed(other))
    assert found is not None
    assert (found.name, found.status) == ("routing of orders", "note")
    assert "do not lie where murmur2 says" in found.observed
    assert found.observed.endswith(f"; {other} says so")
    assert "partitioner=murmur2_random" in found.fix


def test_a_group_in_several_queues_is_a_problem_and_named() -> None:
    home = queue_of("g7", 16, Routing.MURMUR2)
    found = judged("orders", MURMUR2, {**placed(Routing.MURMUR2), "g7": {home, (home + 1) % 16}})
    assert found is not None
    assert found.status == "problem"
    queues = ", ".join(map(str, sorted((home, (home + 1) % 16))))
    assert found.observed.startswith("1 of 20 message groups")
    assert f"'g7' in queue {queues}, not {home}" in found.observed


def test_a_doctor_that_may_not_read_topics_goes_on(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    penstock("topic", "create", "orders")

    async def refused(*_: object, **__: object) -> None:
        raise PermissionDenied("refused", hint="Ask for more")

    monkeypatch.setattr(LogLake, "topics", refused)
    checks = {row["name"]: row for row in penstock("doctor", "--json").rows}
    assert (checks["routing"]["status"], checks["routing"]["fix"]) == ("note", "Ask for more")
    assert checks["Python"]["status"] == "ok"


def test_the_doctor_samples_the_topics(penstock: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("kafkas", message_type="MIXED", queues=4, routing="murmur2")
        opened.create_topic("orders", message_type="FIFO", queues=4)
        for topic in ("kafkas", "orders"):
            with opened.producer(topic) as producer:
                for group in GROUPS:
                    producer.send(Message(b"x", message_group=group))
        opened.alter_topic("orders", queues=8)
        with opened.producer("orders") as producer:
            for group in GROUPS:  # some lie in another queue than before the growth
                producer.send(Message(b"x", message_group=group))
        with opened.producer("kafkas") as producer:
            producer.send(Message(b"x"), queue=0)
            for queue in range(4):  # another door may have chosen by the key
                producer.send(Message(b"x", message_group="g1", key=b"k"), queue=queue)
    checks = {row["name"]: row for row in penstock("doctor", lake, "--json").rows}
    assert (checks["routing"]["status"], checks["routing"]["observed"]) == (
        "ok",
        "40 message groups of 2 topics lie in their queues",
    )
    with connect(lake) as opened, opened.producer("kafkas") as producer:
        for queue in range(4):
            producer.send(Message(b"x", message_group="g1"), queue=queue)
    checks = {row["name"]: row for row in penstock("doctor", lake, "--json", code=1).rows}
    assert checks["routing of kafkas"]["status"] == "problem"
    assert "20 message groups of 1 topics" in checks["routing"]["observed"]
