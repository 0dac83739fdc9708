"""A gateway that is killed beneath idempotent producers: what they send is written once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import penstock
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.kafka.clients.playing import Players, record, together
from tests.lakes import read_all
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COUNT = 1000
"""The records of each producer."""


def leader_of(topic: str, *gateways: RunningGateway) -> RunningGateway:
    """The gateway that clients send the topic's records to."""
    cluster = AdminClient({"bootstrap.servers": gateways[0].endpoints}).list_topics(topic)
    leader = cluster.brokers[cluster.topics[topic].partitions[0].leader]
    (found,) = (one for one in gateways if one.endpoints == f"{leader.host}:{leader.port}")
    return found


def test_nothing_is_lost_or_written_twice(lake: penstock.Lake, tmp_path: Path) -> None:
    senders = [one for one in together() if one.is_idempotent]
    lake.create_topic("orders", message_type="MIXED", queues=len(senders))
    with (
        gateway(lake.url, tmp_path / "first", protocol="kafka") as first,
        gateway(lake.url, tmp_path / "second", protocol="kafka") as second,
        Players(f"{first.endpoints},{second.endpoints}", tmp_path) as players,
        lake.reader("orders") as reader,
    ):
        leader = leader_of("orders", second, first)
        sent = [
            players[sender].start(
                "produce",
                topic="orders",
                records=[{**record(b"k", b"%d" % number), "partition": partition} for number in range(COUNT)],
                idempotent=True,
                batch_bytes=1000,
            )
            for partition, sender in enumerate(senders)
        ]

        def are_sending() -> bool:
            return all(end > 0 for _, end in reader.offsets().values())

        wait_until(are_sending, "all producers have begun")
        leader.kill()
        assert not all(one.done() for one in sent)
        for one in sent:
            one.result(60)
    stored = read_all(lake)
    for queue, sender in enumerate(senders):
        assert [int(one.body) for one in stored if one.queue == queue] == list(range(COUNT)), sender.name
