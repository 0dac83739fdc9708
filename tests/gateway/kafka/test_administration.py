"""Topics and configs by Kafka's admin clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError
from kafka.structs import TopicPartition

from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import MessageType, TopicSettings
from penstock.log.message.routing_type import Routing
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.gateway.kafka.serving import place, served


async def asked(gateway: KafkaGateway, ask: Callable[[KafkaAdminClient], Any]) -> Any:
    """The answer that an admin client got."""

    def call() -> Any:
        client = KafkaAdminClient(bootstrap_servers=place(gateway))
        try:
            return ask(client)
        finally:
            client.close()

    return await asyncio.to_thread(call)


async def test_a_topic_is_made_and_deleted_and_both_show_at_once() -> None:
    async with served() as gateway:
        assert await asked(gateway, lambda client: client.list_topics()) == []
        made = NewTopic("server.public.orders", 3, 3, topic_configs={"retention.ms": "60000", "cleanup.policy": "delete"})
        await asked(gateway, lambda client: client.create_topics([made]))
        assert await asked(gateway, lambda client: client.list_topics()) == ["server.public.orders"]
        settings = (await gateway.lake.topics())["server.public.orders"].settings
        assert (settings.queues, settings.retention) == (3, timedelta(minutes=1))
        assert (settings.message_type, settings.routing) == (MessageType.MIXED, Routing.MURMUR2)
        with pytest.raises(TopicAlreadyExistsError):
            await asked(gateway, lambda client: client.create_topics([made]))
        await asked(gateway, lambda client: client.delete_topics(["server.public.orders"]))
        assert await asked(gateway, lambda client: client.list_topics()) == []


async def test_records_may_have_large_keys_and_many_headers() -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        limits = (await gateway.lake.topics())["orders"].settings.limits
        assert (limits.headers_bytes_max, limits.headers_max) == (1024 * 1024, 10_000)


async def test_configs_are_told_with_their_sources_and_those_that_count_are_changed() -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        resource = ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.ms": "3600000"})
        await asked(gateway, lambda client: client.alter_configs([resource]))
        assert (await gateway.lake.topics())["orders"].settings.retention == timedelta(hours=1)
        found = await asked(gateway, lambda client: client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "orders")]))
        assert "retention.ms" in str(found)
        assert "3600000" in str(found)


async def test_more_partitions_are_refused_with_the_reason() -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        with pytest.raises(InvalidPartitionsError):
            await asked(gateway, lambda client: client.create_partitions({"orders": NewPartitions(4)}))


async def test_more_partitions_than_a_topic_may_have_are_refused_with_the_bounds() -> None:
    async with served() as gateway:
        with pytest.raises(InvalidPartitionsError, match="1 to 4096 partitions, and 100000 were asked for"):
            await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 100_000, 1)]))


async def test_a_change_of_one_config_leaves_what_another_gateway_changed() -> None:
    store = MemoryStore()
    async with served(store) as gateway, served(store) as other:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        await other.lake.topic("orders")
        retention = ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.ms": "3600000"})
        await asked(gateway, lambda client: client.alter_configs([retention]))
        size = ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.bytes": "1000000"})
        await asked(other, lambda client: client.alter_configs([size]))
        settings = (await gateway.lake.topics())["orders"].settings
        assert (settings.retention, settings.retention_bytes) == (timedelta(hours=1), 1_000_000)
        topic = ConfigResource(ConfigResourceType.TOPIC, "orders")
        assert "1000000" in str(await asked(gateway, lambda client: client.describe_configs([topic])))


async def test_a_topic_that_another_gateway_deleted_is_gone_for_who_only_asks_for_it() -> None:
    store = MemoryStore()
    async with served(store) as gateway, served(store) as other:
        await gateway.lake.create_topic("orders", TopicSettings(queues=1))
        await other.lake.topic("orders")
        await gateway.lake.delete_topic("orders")
        (told,) = await asked(other, lambda client: client.describe_topics(["orders"]))
        assert told["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await gateway.lake.create_topic("orders", TopicSettings(queues=3))
        (told,) = await asked(other, lambda client: client.describe_topics(["orders"]))
        assert len(told["partitions"]) == 3


async def test_the_beginnings_of_all_partitions_are_read_together() -> None:
    store = CountingStore(MemoryStore())
    async with served(store) as gateway:
        await gateway.lake.create_topic("orders", TopicSettings(queues=50))
        every = {TopicPartition("orders", partition): OffsetSpec.EARLIEST for partition in range(50)}
        before = store.statistics().requests
        found = await asked(gateway, lambda client: client.list_partition_offsets(every))
        assert {one.offset for one in found.values()} == {0}
        assert store.statistics().requests - before < 50
