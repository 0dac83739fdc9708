"""Kafka's own clients find the server and its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiokafka.admin
import confluent_kafka.admin
import kafka
import pytest

from penstock.gateway.kafka.server.calls import Handler, KafkaCall
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.stage import stage

PARTITIONS = 3


def metadata_at(port: list[int]) -> Handler:
    async def metadata(request: Any, call: KafkaCall) -> dict[str, object]:
        partitions = [
            {"partition_index": index, "leader_id": 7, "leader_epoch": 1, "replica_nodes": [7], "isr_nodes": [7]}
            for index in range(PARTITIONS)
        ]
        return {
            "brokers": [{"node_id": 7, "host": "127.0.0.1", "port": port[0]}],
            "cluster_id": "lake",
            "controller_id": 7,
            "topics": [{"name": "orders", "partitions": partitions}],
        }

    return metadata


def by_confluent(where: str) -> int:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": where})
    return len(admin.list_topics("orders", timeout=30).topics["orders"].partitions)


def by_kafka_python(where: str) -> int:
    producer = kafka.KafkaProducer(bootstrap_servers=where)
    try:
        return len(producer.partitions_for("orders"))
    finally:
        producer.close()


def by_aiokafka(where: str) -> int:
    async def ask() -> int:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=where)
        await admin.start()
        try:
            (topic,) = await admin.describe_topics(["orders"])
            return len(topic["partitions"])
        finally:
            await admin.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [by_confluent, by_kafka_python, by_aiokafka])
async def test_a_client_is_told_the_versions_and_the_topics(ask: Callable[[str], int]) -> None:
    port: list[int] = []
    async with stage({ApiKey.METADATA: metadata_at(port)}) as on:
        port.append(on.server.port)
        assert await asyncio.to_thread(ask, f"127.0.0.1:{on.server.port}") == PARTITIONS
        told = [(name, code) for name, _, code in on.answered]
        assert ("Metadata", ErrorCode.NONE) in told
        assert ("ApiVersions", ErrorCode.NONE) in told
