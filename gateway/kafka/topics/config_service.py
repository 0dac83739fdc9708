"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, and what else tells of a cluster's set-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ....aio import Lake
from ....coordinator.access.grants import Verb
from ....log import InvalidArgument, LimitExceeded, PenstockError, TopicSettings
from ....log.paths import TopicPaths
from ....log.read.reader import Reader
from ....log.topic.growth import check_growth
from ....log.topic.records import not_found, read_record
from ....log.topic.settings import TopicChanges
from ...topics.directory import TopicDirectory
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of
from ..wire.messages import Fields, Request
from ..wire.names import INTERNAL, topic_of
from .configs import BROKER_CONFIGS, CONFIGS, LIST, TopicConfig, listed, settings_of

_TOPIC, _BROKER = 2, 4
"""Kinds of resources."""
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
"""Operations of a change."""
DYNAMIC_TOPIC_CONFIG: Final = 1
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5
"""Where a value comes from, by Kafka's numbers."""
_LOG_DIRECTORY: Final = "/lake"
_Stated: TypeAlias = Callable[[Request, TopicSettings], Mapping[str, str | None]]
"""The values that a request states for a resource."""


class ConfigService:
    """Tells clients of configs, and changes those of topics that Penstock has."""

    def __init__(self, lake: Lake, names: TopicDirectory, *, defaults: TopicSettings) -> None:
        self._lake, self._names, self._defaults = lake, names, defaults

    async def describe_configs(self, request: Request, call: KafkaCall) -> Fields:
        results = [await self._described(one, call, synonyms=bool(request.include_synonyms)) for one in request.resources]
        return {"throttle_time_ms": 0, "results": results}

    async def _described(self, asked: Request, call: KafkaCall, *, synonyms: bool) -> Fields:
        place = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
        try:
            configs = await self._configs(asked, call)
        except (KafkaRefusal, PenstockError) as error:
            refusal = refusal_of(error)
            return {**place, "error_code": refusal.code, "error_message": refusal.message, "configs": []}
        wanted = None if asked.configuration_keys is None else set(asked.configuration_keys)
        told = [
            _described_config(config, value, source, synonyms=synonyms)
            for config, value, source in configs
            if wanted is None or config.name in wanted
        ]
        return {**place, "error_code": ErrorCode.NONE, "error_message": None, "configs": told}

    async def _configs(self, asked: Request, call: KafkaCall) -> Iterable[tuple[TopicConfig, str, int]]:
        if asked.resource_type == _BROKER:
            return [(config, config.value_of(self._defaults), STATIC_BROKER_CONFIG) for config in BROKER_CONFIGS]
        _check_topic(asked)
        call.rights.check_any(asked.resource_name)
        settings = await self._settings(asked.resource_name)
        return [(config, value, source) for config in CONFIGS.values() for value, source in [self._value(config, settings)]]

    def _value(self, config: TopicConfig, settings: TopicSettings) -> tuple[str, int]:
        value = config.value_of(settings)
        return value, DEFAULT_CONFIG if value == config.value_of(self._defaults) else DYNAMIC_TOPIC_CONFIG

    async def _settings(self, name: str) -> TopicSettings:
        """The settings as they are now: another gateway may have changed them since the topic was opened."""
        found = await read_record(self._lake.store, TopicPaths.of(name))
        if found is None or found[0].deleted:
            raise not_found(name)
        return found[0].settings

    async def alter_configs(self, request: Request, call: KafkaCall) -> Fields:
        """What is not named gets its default."""

        def stated(asked: Request, _: TopicSettings) -> Mapping[str, str | None]:
            return {config.name: config.value_of(self._defaults) for config in CONFIGS.values()} | {
                one.name: one.value for one in asked.configs
            }

        return await self._all_altered(request, stated, call)

    async def incremental_alter_configs(self, request: Request, call: KafkaCall) -> Fields:
        def stated(asked: Request, settings: TopicSettings) -> Mapping[str, str | None]:
            return {one.name: self._changed(one, CONFIGS.get(one.name), settings) for one in asked.configs}

        return await self._all_altered(request, stated, call)

    def _changed(self, asked: Request, config: TopicConfig | None, settings: TopicSettings) -> str | None:
        if config is None or asked.config_operation == _SET:
            value: str | None = asked.value
            return value
        if asked.config_operation == _DELETE:
            return config.value_of(self._defaults)
        if config.kind != LIST or asked.config_operation not in (_APPEND, _SUBTRACT):
            raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"{config.name} is set or deleted: it is no list to add to")
        before, given = listed(config.value_of(settings)), listed(asked.value or "")
        if asked.config_operation == _APPEND:
            return ",".join([*before, *(one for one in given if one not in before)])
        return ",".join(one for one in before if one not in given)

    async def _all_altered(self, request: Request, stated: _Stated, call: KafkaCall) -> Fields:
        is_trial = bool(request.validate_only)
        responses = [await self._altered(one, stated, call, validate_only=is_trial) for one in request.resources]
        return {"throttle_time_ms": 0, "responses": responses}

    async def _altered(self, asked: Request, stated: _Stated, call: KafkaCall, *, validate_only: bool) -> Fields:
        code, message = ErrorCode.NONE, None
        try:
            _check_topic(asked)
            call.rights.check(Verb.MANAGE, asked.resource_name)
            before = await self._settings(asked.resource_name)
            after = settings_of(before, stated(asked, before))
            if not validate_only and (changes := _changes(before, after)):
                await self._lake.alter_topic(asked.resource_name, **changes)
        except (KafkaRefusal, PenstockError) as error:
            code, message = (refusal := refusal_of(error)).code, refusal.message
        return {
            "error_code": code,
            "error_message": message,
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
        }

    async def create_partitions(self, request: Request, call: KafkaCall) -> Fields:
        """Topics grow to a multiple of their partitions. Where replicas are to be is not asked, as the bucket replicates."""
        validate_only = bool(request.validate_only)
        results = [await self._grown(one.name, one.count, call, validate_only=validate_only) for one in request.topics]
        return {"throttle_time_ms": 0, "results": results}

    async def _grown(self, name: str, count: int, call: KafkaCall, *, validate_only: bool) -> Fields:
        code, message = ErrorCode.NONE, None
        try:
            call.rights.check(Verb.MANAGE, topic_of(name))
            topic = await self._names.known_topic(name)
            if count <= (present := topic.settings.queues):
                raise KafkaRefusal(ErrorCode.INVALID_PARTITIONS, f"the topic has {present} partitions, and {count} are no more")
            await check_growth(topic, count)
            if not validate_only:
                await self._lake.alter_topic(topic.paths.topic, queues=count)
        except (InvalidArgument, LimitExceeded) as error:
            code, message = ErrorCode.INVALID_PARTITIONS, str(error)
        except (KafkaRefusal, PenstockError) as error:
            code, message = (refusal := refusal_of(error)).code, refusal.message
        return {"name": name, "error_code": code, "error_message": message}

    async def describe_log_dirs(self, request: Request, call: KafkaCall) -> Fields:
        """One directory, with the bytes of topics' tables."""
        asked = None if request.topics is None else {one.topic: set(one.partitions) for one in request.topics}
        named = asked if asked is not None else await self._lake.topics(damaged="skip")
        names = sorted(name for name in named if INTERNAL not in name and call.rights.has_any(name))
        topics = await asyncio.gather(*(self._sizes(name, None if asked is None else asked[name]) for name in names))
        directory = {
            "error_code": ErrorCode.NONE,
            "log_dir": _LOG_DIRECTORY,
            "topics": [one for one in topics if one is not None],
            "total_bytes": -1,
            "usable_bytes": -1,
        }
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "results": [directory]}

    async def _sizes(self, name: str, partitions: set[int] | None) -> Fields | None:
        try:
            topic = await self._names.known_topic(name)
        except PenstockError:
            return None
        sizes = topic.beside(Reader).table_bytes()
        told = [
            {"partition_index": queue, "partition_size": sizes[queue], "offset_lag": 0, "is_future_key": False}
            for queue in sorted(sizes)
            if not partitions or queue in partitions
        ]
        return {"name": name, "partitions": told}

    async def describe_acls(self, request: Request, call: KafkaCall) -> Fields:
        """None, as nothing is asked of clients."""
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.SECURITY_DISABLED,
            "error_message": "this gateway asks nobody for a proof of identity, and allows all",
            "resources": [],
        }


def _changes(before: TopicSettings, after: TopicSettings) -> TopicChanges:
    """What a client changed, and nothing else: what others change meanwhile stands."""
    changes: TopicChanges = {}
    if after.retention != before.retention:
        changes["retention"] = after.retention
    if after.retention_bytes != before.retention_bytes:
        changes["retention_bytes"] = after.retention_bytes
    known, wanted = dict(before.configs), dict(after.configs)
    if configs := {name: wanted.get(name) for name in known | wanted if known.get(name) != wanted.get(name)}:
        changes["configs"] = configs
    return changes


def _check_topic(asked: Request) -> None:
    if asked.resource_type != _TOPIC:
        raise KafkaRefusal(ErrorCode.INVALID_REQUEST, f"resources of kind {asked.resource_type} have no configs here")
    topic_of(asked.resource_name)


def _described_config(config: TopicConfig, value: str, source: int, *, synonyms: bool) -> Fields:
    return {
        "name": config.name,
        "value": value,
        "read_only": config.is_fixed,
        "is_default": source == DEFAULT_CONFIG,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": config.name, "value": value, "source": source}] if synonyms else [],
        "config_type": config.kind,
        "documentation": None,
    }
