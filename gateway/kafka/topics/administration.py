"""CreateTopics and DeleteTopics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from ....aio import Lake
from ....coordinator.access.grants import Verb
from ....log import PenstockError, TopicNotFound, TopicSettings
from ....log.limits import QUEUES_MAX
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.messages import Fields, Request
from ..wire.names import topic_of
from .config_service import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG
from .configs import CONFIGS, settings_of
from .metadata import MetadataService, id_of

_UNSAID = -1
_REPLICAS = 1


class AdministrationService:
    """Creates and deletes topics for clients."""

    def __init__(self, lake: Lake, metadata: MetadataService, *, defaults: TopicSettings) -> None:
        self._lake, self._metadata, self._defaults = lake, metadata, defaults

    async def create_topics(self, request: Request, call: KafkaCall) -> Fields:
        named = Counter(one.name for one in request.topics)
        topics = []
        for one in request.topics:
            is_twice = named[one.name] > 1
            topics.append(await self._created(one, call, is_twice=is_twice, validate_only=bool(request.validate_only)))
        return {"throttle_time_ms": 0, "topics": topics}

    async def _created(self, asked: Request, call: KafkaCall, *, is_twice: bool, validate_only: bool) -> Fields:
        try:
            if is_twice:
                raise KafkaRefusal(ErrorCode.INVALID_REQUEST, "the request names the topic twice")
            call.rights.check(Verb.MANAGE, topic_of(asked.name))
            settings = self._settings(asked)
            if await self._exists(asked.name):
                raise KafkaRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name} exists")
            await self._metadata.check_collision(asked.name)
            incarnation = None if validate_only else (await self._lake.create_topic(asked.name, settings)).incarnation
            self._metadata.forget_names()
        except (KafkaRefusal, PenstockError) as error:
            refusal = refusal_of(error)
            return {"name": asked.name, "topic_id": UUID(int=0), "error_code": refusal.code, "error_message": refusal.message}
        stated = {one.name for one in asked.configs}
        return {
            "name": asked.name,
            "topic_id": UUID(int=0) if incarnation is None else id_of(incarnation),
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "topic_config_error_code": ErrorCode.NONE,
            "num_partitions": settings.queues,
            "replication_factor": _REPLICAS,
            "configs": [
                {
                    "name": config.name,
                    "value": config.value_of(settings),
                    "read_only": False,
                    "config_source": DYNAMIC_TOPIC_CONFIG if config.name in stated else DEFAULT_CONFIG,
                    "is_sensitive": False,
                }
                for config in CONFIGS.values()
            ],
        }

    async def _exists(self, name: str) -> bool:
        try:
            topic = await self._lake.topic(name)
            await topic.tail.catch_up()  # another gateway may have deleted it
            if not topic.is_current:
                await self._lake.topic(name)
        except TopicNotFound:
            return False
        return True

    def _settings(self, asked: Request) -> TopicSettings:
        """Raises `KafkaRefusal`, `InvalidArgument` or `LimitExceeded`. Any number of replicas is one."""
        queues = asked.num_partitions
        if asked.assignments:
            if queues != _UNSAID or asked.replication_factor != _UNSAID:
                told = "partitions are counted or assigned to brokers, not both"
                raise KafkaRefusal(ErrorCode.INVALID_REQUEST, told)
            if {one.partition_index for one in asked.assignments} != set(range(len(asked.assignments))):
                raise KafkaRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the assigned partitions are not numbered from 0")
            queues = len(asked.assignments)
        elif asked.replication_factor == 0 or asked.replication_factor < _UNSAID:
            raise KafkaRefusal(ErrorCode.INVALID_REPLICATION_FACTOR, "a topic has at least one replica")
        if queues == 0 or queues < _UNSAID or queues > QUEUES_MAX:
            raise KafkaRefusal(
                ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {QUEUES_MAX} partitions, and {queues} were asked for"
            )
        settings = self._defaults if queues == _UNSAID else replace(self._defaults, queues=queues)
        return settings_of(settings, _stated(asked.configs))

    async def delete_topics(self, request: Request, call: KafkaCall) -> Fields:
        by_id = call.version >= 6
        asked = [(one.name, one.topic_id) for one in request.topics] if by_id else [(name, None) for name in request.topic_names]
        names = await self._metadata.names_by_id(call) if any(name is None for name, _ in asked) else {}
        return {
            "throttle_time_ms": 0,
            "responses": await asyncio.gather(*(self._deleted(name, topic_id, names, call) for name, topic_id in asked)),
        }

    async def _deleted(self, name: str | None, topic_id: UUID | None, names: Mapping[UUID, str], call: KafkaCall) -> Fields:
        code, message = ErrorCode.NONE, None
        try:
            if name is None:
                assert topic_id is not None, "a topic is named, or has an id"
                name = names.get(topic_id)
                if name is None:
                    raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
                call.named.add(name)
            call.rights.check(Verb.MANAGE, topic_of(name))
            await self._lake.delete_topic(name)
            self._metadata.forget_names()
        except (KafkaRefusal, PenstockError) as error:
            code, message = (refusal := refusal_of(error)).code, refusal.message
        return {"name": name, "topic_id": topic_id or UUID(int=0), "error_code": code, "error_message": message}


def _stated(configs: Sequence[Request]) -> dict[str, str | None]:
    return {one.name: one.value for one in configs}
