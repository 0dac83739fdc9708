"""Spark's own source for Kafka at a gateway: a batch, and streams that go on where they were."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

import penstock
from tests.gateway.gateways import RunningGateway
from tests.gateway.kafka.clients.families import FAMILIES, spark
from tests.gateway.kafka.clients.playing import BORN_MS, Players, Record, record

pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka_connect]

QUEUES, COUNT, STEP = 3, 300, 100


def records(start: int) -> list[Record]:
    made = [
        record(
            f"key-{number}".encode(),
            None if number % 50 == 7 else b"\x00%d" % number,
            ("n", b"%d" % number),
            time_ms=BORN_MS + number,
        )
        for number in range(start, start + COUNT)
    ]
    return [{**one, "partition": number % QUEUES} for number, one in enumerate(made)]


def expected(topic: str, sent: list[Record]) -> list[Record]:
    """What a reader sees of it, by partition and offset."""
    offsets = [count() for _ in range(QUEUES)]
    return sorted(
        ({"topic": topic, **one, "offset": next(offsets[one["partition"]])} for one in sent),
        key=lambda one: (one["partition"], one["offset"]),
    )


def test_spark_reads_what_was_sent(lake: penstock.Lake, served: RunningGateway, players: Players, tmp_path: Path) -> None:
    lake.create_topic("orders", message_type="MIXED", queues=QUEUES)
    sent = records(0)
    players[FAMILIES["confluent"]].call("produce", topic="orders", records=sent)
    with spark(served.endpoints, tmp_path) as reader:
        assert reader.call("batch", topic="orders") == expected("orders", sent)
        seen = reader.call("stream", topic="orders", step=STEP)
        assert seen["rows"] == expected("orders", sent)
        first, batches = seen["batches"], COUNT // STEP
        assert first >= batches, "several, each of so many at most"
        more = records(COUNT)
        players[FAMILIES["confluent"]].call("produce", topic="orders", records=more)
        seen = reader.call("stream", topic="orders", step=STEP)
        assert seen["rows"] == expected("orders", [*sent, *more])
        assert seen["batches"] >= first + batches, "it goes on"
