"""What is authorised is what is acted on: each topic of a request is judged by itself, in its place of the answer."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol import admin, consumer, producer
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.topics.metadata import id_of
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.log import TopicSettings
from penstock.log.paths import AUDIT_TOPIC
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.gateway.kafka.access.test_clients import principal, some_seconds_later
from tests.gateway.kafka.access.test_sasl import asking, connected, proved
from tests.gateway.kafka.serving import served
from tests.gateway.kafka.stage import Client
from tests.gateway.kafka.wire.group_requests import group_request
from tests.gateway.kafka.wire.requests import message_class

YES, NO, ABSENT, BAD = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)
SETTINGS = TopicSettings(queues=1)
TOPICS = ("orders", "secrets", AUDIT_TOPIC)


async def ask(client: Client, key: ApiKey, request: Any, answer: Any, version: int) -> Any:
    client.send(key, version, request.encode())
    data = (await client.answer())[1]
    return answer.decode(data, version=version)


async def produced(client: Client, *topics: str) -> list[int]:
    partition = producer.ProduceRequest.TopicProduceData.PartitionProduceData
    data = producer.ProduceRequest.TopicProduceData
    parts = [data(name=one, partition_data=[partition(index=0, records=b"no batch")]) for one in topics]
    request = producer.ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=parts, version=3)
    told = await ask(client, ApiKey.PRODUCE, request, producer.ProduceResponse, 3)
    return [part.error_code for one in told.responses for part in one.partition_responses]


async def fetched(client: Client, *topics: str) -> list[int]:
    topic = consumer.FetchRequest.FetchTopic
    partition = topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    request = consumer.FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100,
        isolation_level=0,
        topics=[topic(topic=one, partitions=[partition]) for one in topics],
        version=4,
    )
    told = await ask(client, ApiKey.FETCH, request, consumer.FetchResponse, 4)
    return [part.error_code for one in told.responses for part in one.partitions]


async def listed(client: Client, *topics: str) -> list[int]:
    topic = consumer.ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = [topic(name=one, partitions=[partition]) for one in topics]
    request = consumer.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked, version=2)
    told = await ask(client, ApiKey.LIST_OFFSETS, request, consumer.ListOffsetsResponse, 2)
    return [part.error_code for one in told.topics for part in one.partitions]


async def seen(client: Client, *topics: str) -> list[int]:
    asked = [MetadataRequest.MetadataRequestTopic(name=one) for one in topics]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=True, version=4)
    told = await ask(client, ApiKey.METADATA, request, MetadataResponse, 4)
    return [one.error_code for one in told.topics]


async def created(client: Client, *topics: str) -> list[int]:
    asked = [admin.CreateTopicsRequest.CreatableTopic(name=one, num_partitions=1, replication_factor=1) for one in topics]
    request = admin.CreateTopicsRequest(topics=asked, timeout_ms=1000, validate_only=True, version=2)
    told = await ask(client, ApiKey.CREATE_TOPICS, request, admin.CreateTopicsResponse, 2)
    return [one.error_code for one in told.topics]


async def deleted(client: Client, *topics: str) -> list[int]:
    request = admin.DeleteTopicsRequest(topic_names=list(topics), timeout_ms=1000, version=1)
    told = await ask(client, ApiKey.DELETE_TOPICS, request, admin.DeleteTopicsResponse, 1)
    return [one.error_code for one in told.responses]


async def configs_of(client: Client, *topics: str) -> list[int]:
    resource = admin.DescribeConfigsRequest.DescribeConfigsResource
    asked = [resource(resource_type=2, resource_name=one, configuration_keys=None) for one in topics]
    request = admin.DescribeConfigsRequest(resources=asked, include_synonyms=False, version=1)
    told = await ask(client, ApiKey.DESCRIBE_CONFIGS, request, admin.DescribeConfigsResponse, 1)
    return [one.error_code for one in told.results]


async def altered(client: Client, *topics: str) -> list[int]:
    resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    setting = resource.AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    asked = [resource(resource_type=2, resource_name=one, configs=[setting]) for one in topics]
    request = admin.IncrementalAlterConfigsRequest(resources=asked, validate_only=True, version=0)
    told = await ask(client, ApiKey.INCREMENTAL_ALTER_CONFIGS, request, admin.IncrementalAlterConfigsResponse, 0)
    return [one.error_code for one in told.responses]


async def enlarged(client: Client, *topics: str) -> list[int]:
    topic = admin.CreatePartitionsRequest.CreatePartitionsTopic
    asked = [topic(name=one, count=9, assignments=None) for one in topics]
    request = admin.CreatePartitionsRequest(topics=asked, timeout_ms=1000, validate_only=False, version=0)
    told = await ask(client, ApiKey.CREATE_PARTITIONS, request, admin.CreatePartitionsResponse, 0)
    return [one.error_code for one in told.results]


async def measured(client: Client, *topics: str) -> list[str]:
    topic = admin.DescribeLogDirsRequest.DescribableLogDirTopic
    asked = [topic(topic=one, partitions=[0]) for one in topics] or None
    request = admin.DescribeLogDirsRequest(topics=asked, version=1)
    told = await ask(client, ApiKey.DESCRIBE_LOG_DIRS, request, admin.DescribeLogDirsResponse, 1)
    return [one.name for one in told.results[0].topics]


async def with_topics(gateway: KafkaGateway) -> None:
    for topic in TOPICS:
        await gateway.lake.create_topic(topic, SETTINGS)


async def test_each_topic_is_judged_by_its_own_right() -> None:
    sees = {"sender": Verb.SEND, "reader": Verb.RECEIVE, "keeper": Verb.MANAGE}
    async with asking() as gateway:
        await with_topics(gateway)
        for name, verb in sees.items():
            await principal(gateway, name, Grant(verb, "orders*"))
        some_seconds_later(gateway)
        for name in sees:
            async with connected(gateway) as client:
                await proved(client, name)
                names = ("orders", "secrets")
                assert await seen(client, *names) == [YES, NO]
                assert await configs_of(client, *names) == [YES, NO]
                assert await measured(client, *names) == await measured(client) == ["orders"]
                may = ErrorCode.INVALID_RECORD if name == "sender" else NO
                assert await produced(client, *names) == [may, NO]
                may = YES if name == "reader" else NO
                assert await fetched(client, *names) == await listed(client, *names) == [may, NO]
                manages = name == "keeper"
                may = YES if manages else NO
                assert await created(client, "orders-eu", "secrets-eu") == await altered(client, *names) == [may, NO]
                assert await enlarged(client, *names) == [may, NO]
                assert await deleted(client, "secrets", "orders-us") == [NO, ABSENT if manages else NO]


async def test_an_id_is_no_way_around_a_name() -> None:
    async with asking() as gateway, connected(gateway) as client:
        await with_topics(gateway)
        ids = {name: id_of(record.incarnation) for name, record in (await gateway.lake.topics()).items()}
        await proved(client)
        state = admin.DeleteTopicsRequest.DeleteTopicState
        asked = [state(name=None, topic_id=ids[name]) for name in ("orders", "secrets")]
        request = admin.DeleteTopicsRequest(topics=asked, timeout_ms=1000, version=6)
        client.send(ApiKey.DELETE_TOPICS, 6, request.encode())
        told = admin.DeleteTopicsResponse.decode((await client.answer())[1][1:], version=6)
        assert [one.error_code for one in told.responses] == [NO, ErrorCode.UNKNOWN_TOPIC_ID], "it may know of one"
        topic = MetadataRequest.MetadataRequestTopic
        asked = [topic(name=None, topic_id=ids[name]) for name in ("orders", "secrets")]
        client.send(ApiKey.METADATA, 10, MetadataRequest(topics=asked, version=10).encode())
        found = MetadataResponse.decode((await client.answer())[1][1:], version=10)
        assert [one.error_code for one in found.topics] == [YES, ErrorCode.UNKNOWN_TOPIC_ID]
        assert set(await gateway.lake.topics()) == set(TOPICS)


async def test_the_audit_names_what_a_request_names_by_its_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway.audit")
    async with asking() as gateway, connected(gateway) as client:
        await with_topics(gateway)
        await principal(gateway, "keeper", Grant(Verb.MANAGE, "orders"), Grant(Verb.JOIN, "billing"))
        some_seconds_later(gateway)
        await proved(client, "keeper")
        topic_id = id_of((await gateway.lake.topics())["orders"].incarnation)
        state = admin.DeleteTopicsRequest.DeleteTopicState
        request = admin.DeleteTopicsRequest(topics=[state(name=None, topic_id=topic_id)], timeout_ms=1000, version=6)
        client.send(ApiKey.DELETE_TOPICS, 6, request.encode())
        await client.answer()
        client.send(ApiKey.DELETE_GROUPS, 1, group_request(ApiKey.DELETE_GROUPS, 1, {"groups_names": ["billing"]}).encode())
        await client.answer()
        await altered(client, "secrets")
        await seen(client, "secrets")
        await listed(client, "orders", "secrets")
    audited = [one.getMessage() for one in caplog.records]
    assert audited == [
        f"keeper DeleteTopics orders {topic_id}: NONE",
        "keeper DeleteGroups billing: GROUP_ID_NOT_FOUND",
        "keeper IncrementalAlterConfigs secrets: TOPIC_AUTHORIZATION_FAILED",
        "keeper Metadata secrets: TOPIC_AUTHORIZATION_FAILED",
        "keeper ListOffsets orders secrets: TOPIC_AUTHORIZATION_FAILED",
    ]


async def test_a_partition_and_a_group_are_answered_once() -> None:
    async with served() as gateway, connected(gateway) as client:
        await with_topics(gateway)
        assert await fetched(client, "orders", "orders") == [YES]
        assert await listed(client, "orders", "secrets") == [YES, YES]
        topic = consumer.ListOffsetsRequest.ListOffsetsTopic
        twice = [topic.ListOffsetsPartition(partition_index=0, timestamp=at) for at in (1, 2)]
        request = consumer.ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[topic(name="orders", partitions=twice)], version=2
        )
        told = await ask(client, ApiKey.LIST_OFFSETS, request, consumer.ListOffsetsResponse, 2)
        assert [part.error_code for one in told.topics for part in one.partitions] == [ErrorCode.INVALID_REQUEST] * 2
        groups = [{"group_id": "billing", "topics": None}] * 3
        client.send(ApiKey.OFFSET_FETCH, 8, group_request(ApiKey.OFFSET_FETCH, 8, {"groups": groups}).encode())
        answer = message_class(ApiKey.OFFSET_FETCH, "Response").decode((await client.answer())[1][1:], version=8)
        assert [one.group_id for one in answer.groups] == ["billing"]


async def test_many_names_and_many_ids_cost_a_listing_each_and_no_request_for_each() -> None:
    store = CountingStore(MemoryStore())
    async with served(store) as gateway, connected(gateway) as client:
        await with_topics(gateway)
        await seen(client, "orders")
        before = store.statistics().requests
        assert await seen(client, "orders", *(f"t{number}" for number in range(500))) == [YES, *[ABSENT] * 500]
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(topics=[topic(name=None, topic_id=UUID(int=number + 1)) for number in range(500)], version=10)
        client.send(ApiKey.METADATA, 10, request.encode())
        await client.answer()
        assert store.statistics().requests - before < 50


async def test_no_pattern_covers_the_audit_topic_nor_penstocks_own() -> None:
    everything = [Grant(verb, "*") for verb in Verb]
    async with asking() as gateway, connected(gateway) as client:
        await with_topics(gateway)
        await principal(gateway, "all", *everything)
        some_seconds_later(gateway)
        await proved(client, "all")
        await check_closed_topics(client)
    async with served() as gateway, connected(gateway) as anybody:
        await with_topics(gateway)
        await check_closed_topics(anybody)


async def check_closed_topics(client: Client) -> None:
    assert await produced(client, AUDIT_TOPIC) == await deleted(client, AUDIT_TOPIC) == await altered(client, AUDIT_TOPIC) == [NO]
    assert await fetched(client, AUDIT_TOPIC) == [YES]
    for own in ("%TIMER%orders", "%DLQ%billing"):
        for act in (produced, fetched, listed, seen, created, deleted, altered):
            assert await act(client, own) == [BAD], (act, own)
