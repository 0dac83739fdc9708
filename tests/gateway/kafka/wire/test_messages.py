"""Requests and answers by kafka-python's definitions, in the server's direction."""

from __future__ import annotations

import struct
import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata, producer, sasl

from penstock.gateway.kafka.wire import messages
from penstock.gateway.kafka.wire.apis import APIS, Api, ApiKey
from penstock.gateway.kafka.wire.errors import KafkaRefusal
from penstock.gateway.kafka.wire.messages import decode_request, encode_answer
from tests.gateway.kafka.wire.group_requests import GROUP_REQUESTS, group_request

EVERY = [(api, version) for api in APIS.values() for version in range(api.lowest, api.highest + 1)]
ID = uuid.UUID(int=5)


def ids(case: Any) -> str:
    return case.name if isinstance(case, Api) else str(case)


OF_CONFIGS = {
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_ACLS,
}


def config_request(key: ApiKey, version: int) -> Any:
    """A request about a cluster's set-up."""
    made: Any
    match key:
        case ApiKey.DESCRIBE_CONFIGS:
            resource = admin.DescribeConfigsRequest.DescribeConfigsResource
            one = resource(resource_type=2, resource_name="orders", configuration_keys=["retention.ms"])
            made = admin.DescribeConfigsRequest(version=version, resources=[one], include_synonyms=True)
        case ApiKey.ALTER_CONFIGS:
            resource = admin.AlterConfigsRequest.AlterConfigsResource
            config = resource.AlterableConfig(name="retention.ms", value="-1")
            one = resource(resource_type=2, resource_name="orders", configs=[config])
            made = admin.AlterConfigsRequest(version=version, resources=[one], validate_only=True)
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
            config = resource.AlterableConfig(name="retention.ms", config_operation=0, value="-1")
            one = resource(resource_type=2, resource_name="orders", configs=[config])
            made = admin.IncrementalAlterConfigsRequest(version=version, resources=[one], validate_only=True)
        case ApiKey.CREATE_PARTITIONS:
            topic = admin.CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=8, assignments=None)
            made = admin.CreatePartitionsRequest(version=version, topics=[topic], timeout_ms=5, validate_only=False)
        case ApiKey.DESCRIBE_LOG_DIRS:
            topic = admin.DescribeLogDirsRequest.DescribableLogDirTopic(topic="orders", partitions=[0, 1])
            made = admin.DescribeLogDirsRequest(version=version, topics=[topic])
        case _:
            made = admin.DescribeAclsRequest(
                version=version,
                resource_type_filter=2,
                resource_name_filter="orders",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
    return made


def request(key: ApiKey, version: int) -> bytes:
    """A request with something in each array."""
    match key:
        case ApiKey.METADATA:
            topic = metadata.MetadataRequest.MetadataRequestTopic(name="orders", topic_id=ID)
            made = metadata.MetadataRequest(version=version, topics=[topic] * 3, allow_auto_topic_creation=False)
        case ApiKey.API_VERSIONS:
            made = metadata.ApiVersionsRequest(version=version, client_software_name="client", client_software_version="1.0")
        case ApiKey.LIST_OFFSETS:
            topic = consumer.ListOffsetsRequest.ListOffsetsTopic
            part = topic.ListOffsetsPartition(partition_index=3, current_leader_epoch=1, timestamp=-2)
            made = consumer.ListOffsetsRequest(version=version, replica_id=-1, topics=[topic(name="orders", partitions=[part])])
        case ApiKey.FETCH:
            topic = consumer.FetchRequest.FetchTopic
            part = topic.FetchPartition(partition=2, fetch_offset=9, partition_max_bytes=1_000)
            made = consumer.FetchRequest(
                version=version,
                max_wait_ms=100,
                min_bytes=1,
                topics=[topic(topic="orders", partitions=[part])],
                forgotten_topics_data=[],
            )
        case ApiKey.CREATE_TOPICS:
            topic = admin.CreateTopicsRequest.CreatableTopic
            config = topic.CreatableTopicConfig(name="retention.ms", value="-1")
            one = topic(name="orders", num_partitions=4, replication_factor=1, assignments=[], configs=[config])
            made = admin.CreateTopicsRequest(version=version, topics=[one], timeout_ms=1_000)
        case ApiKey.DELETE_TOPICS:
            topic = admin.DeleteTopicsRequest.DeleteTopicState(name="orders", topic_id=None)
            made = admin.DeleteTopicsRequest(version=version, topics=[topic], topic_names=["orders"], timeout_ms=1_000)
        case ApiKey.INIT_PRODUCER_ID:
            made = producer.InitProducerIdRequest(version=version, transactional_id=None, transaction_timeout_ms=1_000)
        case ApiKey.DESCRIBE_CLUSTER:
            made = admin.DescribeClusterRequest(version=version)
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            topic = admin.DescribeTopicPartitionsRequest.TopicRequest(name="orders")
            made = admin.DescribeTopicPartitionsRequest(version=version, topics=[topic], cursor=None)
        case _ if key in OF_CONFIGS:
            made = config_request(key, version)
        case _ if key in GROUP_REQUESTS:
            made = group_request(key, version)
        case ApiKey.SASL_HANDSHAKE:
            made = sasl.SaslHandshakeRequest(version=version, mechanism="SCRAM-SHA-256")
        case ApiKey.SASL_AUTHENTICATE:
            made = sasl.SaslAuthenticateRequest(version=version, auth_bytes=b"n,,n=shop,r=1")
        case _:
            made = producer.ProduceRequest(version=version, transactional_id=None, acks=1, timeout_ms=5, topic_data=[])
    encoded: bytes = made.encode()
    return encoded


@pytest.mark.parametrize(("api", "version"), EVERY, ids=ids)
def test_the_table_agrees_with_the_protocol(api: Api, version: int) -> None:
    kind = messages._message(api, "Request")
    assert api.key == kind.API_KEY
    assert kind.flexible_version_q(version) == api.is_flexible(version)
    assert version <= kind.max_version


@pytest.mark.parametrize(("api", "version"), EVERY, ids=ids)
def test_requests_of_every_version_are_read_as_they_were_made(api: Api, version: int) -> None:
    data = request(api.key, version)
    found = decode_request(api, version, memoryview(data))
    found._header = None  # which its encoder asks for, and its decoder forgets
    assert found.encode() == data


@pytest.mark.parametrize(("api", "version"), EVERY, ids=ids)
@given(data=st.data())
def test_mutilated_requests_are_refused_or_read(api: Api, version: int, data: st.DataObject) -> None:
    good = bytearray(request(api.key, version))
    for at in data.draw(st.lists(st.integers(0, max(len(good) - 1, 0)), max_size=4)):
        good[at : at + 1] = data.draw(st.binary(max_size=3))
    with suppress(KafkaRefusal):
        decode_request(api, version, memoryview(bytes(good[: data.draw(st.integers(0, len(good)))])))


METADATA, FETCH, DELETE_TOPICS = APIS[ApiKey.METADATA], APIS[ApiKey.FETCH], APIS[ApiKey.DELETE_TOPICS]


@pytest.mark.parametrize(
    ("api", "version", "data", "text"),
    [
        # Its decoder would shift a million times, each time a longer number.
        pytest.param(METADATA, 9, b"\xff" * 1_000_000, "no end", id="a varint without end"),
        pytest.param(METADATA, 1, struct.pack(">i", 2**31 - 1), "elements", id="a forged count"),
        *(
            pytest.param(
                api, version, struct.pack(">i", api.items_max + 1) + bytes(200 * api.items_max), "elements", id=f"many {api.name}"
            )
            for api, version in (
                (METADATA, 1),
                (DELETE_TOPICS, 1),
                (APIS[ApiKey.DESCRIBE_CONFIGS], 1),
                (APIS[ApiKey.DESCRIBE_GROUPS], 0),
            )
        ),
        # For each of these it would copy the rest.
        pytest.param(METADATA, 9, b"\xe9\x07" + b"\2a\1\5\0" * 1_000 + b"\0\0\0\0", "tagged", id="many tagged fields"),
        pytest.param(METADATA, 1, struct.pack(">ih", 1, -1), "lacks", id="a null that may be none"),
        pytest.param(METADATA, 1, struct.pack(">ih", 1, 9) + b"short", "lacks", id="too short a text"),
        pytest.param(METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe", "UTF-8", id="no text"),
        pytest.param(METADATA, 1, struct.pack(">i", -2), "elements", id="a negative count"),
    ],
)
def test_what_would_cost_more_than_its_bytes_is_refused(api: Api, version: int, data: bytes, text: str) -> None:
    with pytest.raises(KafkaRefusal, match=text):
        decode_request(api, version, memoryview(data))


def test_what_follows_a_request_is_passed_over_as_librdkafka_needs() -> None:
    of_all_topics = bytes.fromhex("00000000010000")
    assert decode_request(METADATA, 12, memoryview(of_all_topics)).topics is None


def test_a_known_tagged_field_is_checked_too() -> None:
    plain = request(ApiKey.FETCH, 12)
    assert plain.endswith(b"\0")
    named = plain[:-1] + b"\1\0\4\4abc"
    assert decode_request(FETCH, 12, memoryview(named)).cluster_id == "abc"
    with pytest.raises(KafkaRefusal):
        decode_request(FETCH, 12, memoryview(plain[:-1] + b"\1\0\5\xff\xff\xff\xff\x7f"))


@pytest.mark.parametrize("version", range(METADATA.lowest, METADATA.highest + 1))
def test_an_answer_is_made_of_plain_fields_and_leaves_out_what_its_version_has_not(version: int) -> None:
    partition = {"partition_index": 2, "leader_id": 7, "leader_epoch": 3, "replica_nodes": [7], "isr_nodes": [7]}
    data = encode_answer(
        METADATA,
        version,
        {
            "throttle_time_ms": 5,
            "brokers": [{"node_id": 7, "host": "gateway", "port": 9092}],
            "cluster_id": "lake",
            "controller_id": 7,
            "topics": [{"name": "orders", "topic_id": ID, "partitions": [partition]}],
        },
    )
    answer = metadata.MetadataResponse.decode(data, version=version)
    (broker,), (topic,) = answer.brokers, answer.topics
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (7, "gateway", 9092, None)
    assert (topic.name, topic.error_code, topic.topic_id) == ("orders", 0, ID if version >= 10 else None)
    (found,) = topic.partitions
    assert (found.partition_index, found.leader_id, list(found.isr_nodes)) == (2, 7, [7])
    assert found.leader_epoch == (3 if version >= 7 else -1)
    assert answer.cluster_id == ("lake" if version >= 2 else None)


def test_a_field_that_the_protocol_does_not_know_is_an_error_of_ours() -> None:
    with pytest.raises(ValueError, match="nmae"):
        encode_answer(METADATA, 9, {"topics": [{"nmae": "orders"}]})
