"""Answers to requests that failed as a whole. Pure.

Most APIs have an error code at the top of their answer. The others repeat what was asked for, each with the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from .apis import Api, ApiKey
from .errors import ErrorCode, KafkaRefusal
from .fetch import WITH_SESSION, Buffer, FetchedPartition, encode_fetch_answer
from .messages import Fields, Request, has_answer_field
from .produce import ProducedPartition, encode_produce_answer

Answer: TypeAlias = Fields | Sequence[Buffer]
"""An answer's fields, or its body's buffers."""


def refused(api: Api, version: int, request: Request, refusal: KafkaRefusal) -> Answer | None:
    """The answer that says why; None: there is no place to say it, so the connection is to be closed, as Kafka does."""
    special = _SPECIAL.get(api.key)
    if special is not None:
        return special(version, request, refusal.code, refusal.message)
    if has_answer_field(api, version, "error_code"):
        told: dict[str, object] = {"error_code": refusal.code}
        if has_answer_field(api, version, "error_message"):
            told["error_message"] = refusal.message
        return told
    return None


def _produce(version: int, request: Request, code: ErrorCode, message: str) -> Answer | None:
    if request.acks == 0:
        return None
    parts = [ProducedPartition(topic=one.topic, partition=one.partition, code=code, message=message) for one in request.parts]
    return [encode_produce_answer(version, parts)]


def _fetch(version: int, request: Request, code: ErrorCode, _: str) -> Answer:
    if version >= WITH_SESSION:
        return encode_fetch_answer(version, (), code=code)
    parts = [
        FetchedPartition(topic=topic.topic, partition=one.partition, code=code)
        for topic in request.topics
        for one in topic.partitions
    ]
    return encode_fetch_answer(version, parts)


def _metadata(_: int, request: Request, code: ErrorCode, __: str) -> Answer | None:
    if not request.topics:
        return None
    return {
        "topics": [{"error_code": code, "name": one.name, "topic_id": one.topic_id, "partitions": []} for one in request.topics]
    }


def _list_offsets(_: int, request: Request, code: ErrorCode, __: str) -> Answer:
    def refused_partition(partition: int) -> Fields:
        return {"partition_index": partition, "error_code": code, "timestamp": -1, "offset": -1, "leader_epoch": -1}

    return {
        "topics": [
            {"name": topic.name, "partitions": [refused_partition(one.partition_index) for one in topic.partitions]}
            for topic in request.topics
        ]
    }


def _create_topics(_: int, request: Request, code: ErrorCode, message: str) -> Answer:
    return {"topics": [{"name": one.name, "error_code": code, "error_message": message} for one in request.topics]}


def _delete_topics(version: int, request: Request, code: ErrorCode, message: str) -> Answer:
    by_id = version >= _DELETES_BY_ID
    asked = [(one.name, one.topic_id) for one in request.topics] if by_id else [(name, None) for name in request.topic_names]
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message} for name, topic_id in asked
        ]
    }


def _describe_topic_partitions(_: int, request: Request, code: ErrorCode, __: str) -> Answer:
    return {"topics": [{"error_code": code, "name": one.name, "partitions": []} for one in request.topics]}


def _of_resources(field: str) -> Callable[[int, Request, ErrorCode, str], Answer]:
    def refused_resources(_: int, request: Request, code: ErrorCode, message: str) -> Answer:
        return {
            field: [
                {
                    "error_code": code,
                    "error_message": message,
                    "resource_type": one.resource_type,
                    "resource_name": one.resource_name,
                }
                for one in request.resources
            ]
        }

    return refused_resources


def _create_partitions(_: int, request: Request, code: ErrorCode, message: str) -> Answer:
    return {"results": [{"name": one.name, "error_code": code, "error_message": message} for one in request.topics]}


def _describe_log_dirs(_: int, request: Request, code: ErrorCode, __: str) -> Answer:
    return {"error_code": code, "results": [{"error_code": code, "log_dir": "", "topics": []}]}


def _offset_commit(_: int, request: Request, code: ErrorCode, __: str) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [{"partition_index": one.partition_index, "error_code": code} for one in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _offset_fetch(version: int, request: Request, code: ErrorCode, _: str) -> Answer:
    if version >= _FETCHES_GROUPS:
        return {"groups": [{"group_id": one.group_id, "topics": [], "error_code": code} for one in request.groups]}
    return {
        "error_code": code,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": one, "committed_offset": -1, "metadata": "", "error_code": code}
                    for one in topic.partition_indexes
                ],
            }
            for topic in request.topics or ()
        ],
    }


def _find_coordinator(version: int, request: Request, code: ErrorCode, message: str) -> Answer:
    told = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}
    if version >= _FINDS_COORDINATORS:
        return {"coordinators": [{"key": key, **told} for key in request.coordinator_keys]}
    return told


def _describe_groups(_: int, request: Request, code: ErrorCode, message: str) -> Answer:
    told = {"group_state": "", "protocol_type": "", "protocol_data": "", "members": []}
    return {"groups": [{"error_code": code, "error_message": message, "group_id": name, **told} for name in request.groups]}


def _delete_groups(_: int, request: Request, code: ErrorCode, __: str) -> Answer:
    return {"results": [{"group_id": name, "error_code": code} for name in request.groups_names]}


_FINDS_COORDINATORS: Final = 4
_FETCHES_GROUPS: Final = 8
_DELETES_BY_ID: Final = 6
_SPECIAL: Final[Mapping[int, Callable[[int, Request, ErrorCode, str], Answer | None]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.METADATA: _metadata,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.DESCRIBE_CONFIGS: _of_resources("results"),
    ApiKey.ALTER_CONFIGS: _of_resources("responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _of_resources("responses"),
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
}
