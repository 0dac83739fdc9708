"""Topics and configs by Kafka's admin clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError

from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.log import MessageType
from penstock.log.message.routing_type import Routing
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
