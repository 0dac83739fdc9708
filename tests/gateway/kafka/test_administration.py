"""Topics and configs by Kafka's admin clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from operator import methodcaller
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError
from kafka.protocol.admin import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka.structs import TopicPartition

from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import MessageType, TopicSettings
from penstock.log.message.routing_type import Routing
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.gateway.kafka.serving import place, producer, served
from tests.gateway.kafka.stage import Client
from tests.lakes import Gate


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


async def test_a_topic_that_another_gateway_deleted_is_made_anew() -> None:
    store = MemoryStore()
    async with served(store) as here, served(store) as there:
        made = NewTopic("orders", 2, 1)
        await asked(here, lambda client: client.create_topics([made]))
        await there.lake.topic("orders")  # as for some client of it
        await asked(here, lambda client: client.delete_topics(["orders"]))
        for _ in range(2):
            await asked(there, lambda client: client.create_topics([made], validate_only=True))
        await asked(there, lambda client: client.create_topics([made]))
        with pytest.raises(TopicAlreadyExistsError):
            await asked(here, lambda client: client.create_topics([made], validate_only=True))


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


def altered(**configs: Any) -> ConfigResource:
    """A change of the topic's configs: a value for each, or an operation and a value."""
    return ConfigResource(
        ConfigResourceType.TOPIC, "orders", configs={name.replace("_", "."): one for name, one in configs.items()}
    )


async def told(gateway: KafkaGateway) -> dict[str, str]:
    """The topic's configs that are not the defaults."""
    asked_for = [ConfigResource(ConfigResourceType.TOPIC, "orders")]
    found = await asked(gateway, lambda client: client.describe_configs(asked_for))
    return {name: one["value"] for name, one in found["topic"]["orders"].items()}


async def test_configs_that_kafka_has_are_kept_for_every_gateway_until_they_are_reset() -> None:
    store = MemoryStore()
    async with served(store) as gateway, served(store) as other:
        made = NewTopic("orders", 1, 1, topic_configs={"cleanup.policy": "compact", "segment.ms": "1000", "preallocate": "false"})
        await asked(gateway, lambda client: client.create_topics([made]))
        compacted = {"cleanup.policy": "compact", "segment.ms": "1000", "retention.ms": "-1"}
        assert await told(other) == compacted
        await asked(other, lambda client: client.alter_configs([altered(flush_ms="7")]))
        assert await told(gateway) == {**compacted, "flush.ms": "7"}
        changes = altered(cleanup_policy=("SET", "delete"), retention_ms="60000", flush_ms=("DELETE", None))
        await asked(gateway, lambda client: client.alter_configs([changes]))
        assert await told(other) == {"segment.ms": "1000", "retention.ms": "60000"}
        assert (await gateway.lake.topics())["orders"].settings.configs == (("segment.ms", "1000"),)


async def test_of_two_changes_at_once_none_is_lost() -> None:
    gate = Gate(MemoryStore(), lambda call: call.is_write and call.key.endswith("topic.json"))
    async with served(gate) as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1, topic_configs={"segment.ms": "1000"})]))
        gate.closed = True
        first = asyncio.ensure_future(asked(gateway, lambda client: client.alter_configs([altered(flush_ms="7")])))
        assert await asyncio.to_thread(gate.held.wait, 30)
        gate.closed = False
        change = altered(preallocate="true", segment_ms=("DELETE", None))
        await asked(gateway, lambda client: client.alter_configs([change]))
        gate.open()
        await first
        assert await told(gateway) == {"flush.ms": "7", "preallocate": "true"}


@pytest.mark.parametrize("is_incremental", [True, False])
async def test_what_is_compacted_alone_has_no_age(is_incremental: bool) -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        change = altered(cleanup_policy="compact", retention_ms="60000")
        await asked(gateway, lambda client: client.alter_configs([change], incremental=is_incremental))
        assert (await gateway.lake.topics())["orders"].settings.retention is None


async def test_lists_are_added_to_and_taken_from_and_a_compacted_topic_wants_keys() -> None:
    async with served() as gateway, producer(gateway) as sending:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        await sending.send_and_wait("orders", b"without a key")
        retention = (await gateway.lake.topics())["orders"].settings.retention
        await asked(gateway, lambda client: client.alter_configs([altered(cleanup_policy=("APPEND", "compact"))]))
        await asked(gateway, lambda client: client.alter_configs([altered(cleanup_policy=("APPEND", "compact"))]))
        assert await told(gateway) == {"cleanup.policy": "delete,compact"}
        await asked(gateway, lambda client: client.alter_configs([altered(cleanup_policy=("SET", "delete"))], validate_only=True))
        assert await told(gateway) == {"cleanup.policy": "delete,compact"}
        with pytest.raises(KafkaError):
            await sending.send_and_wait("orders", b"without a key")
        await sending.send_and_wait("orders", b"with one", key=b"k")
        await asked(gateway, lambda client: client.alter_configs([altered(cleanup_policy=("SUBTRACT", "compact"))]))
        assert await told(gateway) == {}
        assert (await gateway.lake.topics())["orders"].settings.retention == retention
        await sending.send_and_wait("orders", b"without a key")


@pytest.mark.parametrize(
    "wrong",
    [
        altered(cleanup_policy="forget"),
        altered(cleanup_policy=("SUBTRACT", "delete")),
        altered(segment_ms="soon"),
        altered(segment_ms=("APPEND", "1")),
        altered(preallocate="yes"),
        altered(message_format_version="2.0"),
        altered(compression_type="rar"),
    ],
    ids=repr,
)
async def test_a_config_that_kafka_has_not_is_refused(wrong: ConfigResource) -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 1, 1)]))
        answer = await asked(gateway, lambda client: client.alter_configs([wrong], raise_on_unknown=False))
        assert "InvalidConfigurationError" in answer["topic"]["orders"]
        assert await told(gateway) == {}


async def test_a_topic_gets_more_partitions_and_another_number_is_refused_with_the_nearest() -> None:
    async with served() as gateway:
        await asked(gateway, lambda client: client.create_topics([NewTopic("orders", 2, 1)]))
        await asked(gateway, lambda client: client.create_partitions({"orders": NewPartitions(4)}))
        assert (await gateway.lake.topics())["orders"].settings.queues == 4
        for count, told in ((5, "8 or 12, as it has 4"), (4, "has 4 partitions, and 4 are no more"), (2, "2 are no more")):
            wanted = {"orders": NewPartitions(count)}
            with pytest.raises(InvalidPartitionsError, match=told):
                await asked(gateway, methodcaller("create_partitions", wanted))


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


async def test_partitions_are_described_without_a_list_that_is_null() -> None:
    """Java's admin client reads each of them, null or not."""
    async with served() as gateway:
        await gateway.lake.create_topic("orders", TopicSettings(queues=2))
        client, topic = Client(*await asyncio.open_connection("127.0.0.1", gateway.port)), "orders"
        made = DescribeTopicPartitionsRequest.TopicRequest(name=topic)
        request = DescribeTopicPartitionsRequest(version=0, topics=[made], response_partition_limit=2000, cursor=None)
        client.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request.encode())
        _, answer = await client.answer()
        await client.close()
        (described,) = DescribeTopicPartitionsResponse.decode(answer[1:], version=0).topics
        lists = [
            (one.isr_nodes, one.replica_nodes, one.eligible_leader_replicas, one.last_known_elr, one.offline_replicas)
            for one in described.partitions
        ]
        leader = described.partitions[0].leader_id
        assert lists == [([leader], [leader], [], [], [])] * 2


async def page(gateway: KafkaGateway, limit: int, *cursor: Any) -> tuple[list[tuple[str, list[int]]], Any]:
    """The partitions of all topics, of one answer, and where the next one begins."""
    client = Client(*await asyncio.open_connection("127.0.0.1", gateway.port))
    begin = DescribeTopicPartitionsRequest.Cursor(*cursor) if cursor else None
    request = DescribeTopicPartitionsRequest(version=0, topics=[], response_partition_limit=limit, cursor=begin)
    client.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request.encode())
    _, answer = await client.answer()
    await client.close()
    found = DescribeTopicPartitionsResponse.decode(answer[1:], version=0)
    following = found.next_cursor and (found.next_cursor.topic_name, found.next_cursor.partition_index)
    return [(one.name, [part.partition_index for part in one.partitions]) for one in found.topics], following


async def test_topics_are_described_by_pages_that_follow_one_another() -> None:
    async with served() as gateway:
        for name, queues in (("a", 2), ("b", 3), ("c", 2)):
            await gateway.lake.create_topic(name, TopicSettings(queues=queues))
        whole = [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0, 1])]
        assert await page(gateway, 7) == (whole, None)
        assert await page(gateway, 2) == ([("a", [0, 1])], ("b", 0))
        assert await page(gateway, 3) == ([("a", [0, 1]), ("b", [0])], ("b", 1))
        assert await page(gateway, 3, "b", 1) == ([("b", [1, 2]), ("c", [0])], ("c", 1))
        assert await page(gateway, 3, "c", 1) == ([("c", [1])], None)
        assert await page(gateway, 9, "aa", 1) == (whole[1:], None), "the topic has gone since"
        assert await page(gateway, 0, "b", -1) == ([("b", [0])], ("b", 1)), "no page is empty"


async def test_a_page_is_made_of_the_topics_that_it_needs() -> None:
    store = MemoryStore()
    async with served(store) as gateway, served(store) as other:
        names = [f"orders-{number:02}" for number in range(40)]
        await asyncio.gather(*(gateway.lake.create_topic(name, TopicSettings(queues=1)) for name in names))
        assert await page(other, 1) == ([(names[0], [0])], (names[1], 0))
        assert len(other.lake._opened) < len(names)
        pages, cursor = await page(other, 30)
        assert pages + (await page(other, 30, *cursor))[0] == [(name, [0]) for name in names]


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
