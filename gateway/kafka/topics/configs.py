"""Kafka's configs of topics as Penstock's settings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from ....log import TopicSettings
from ....log.topic.settings import RETENTION_MAX
from ..server.limits import BATCH_BYTES_MAX
from ..wire.errors import ErrorCode, KafkaRefusal

_UNBOUNDED: Final = -1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""The kinds of values, by Kafka's numbers."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One config that a topic has."""

    name: str
    value_of: Callable[[TopicSettings], str]
    """Its value in a topic with these settings."""
    set: Callable[[TopicSettings, str], TopicSettings] = lambda settings, _: settings
    """The settings with another value, which Penstock need not have. Raises `ValueError`."""
    kind: int = STRING
    is_fixed: bool = False


def settings_of(defaults: TopicSettings, *, queues: int | None, stated: Mapping[str, str | None]) -> TopicSettings:
    """The settings of a new topic. Raises `KafkaRefusal` for a config that is not known, or has a wrong value, and `LimitExceeded`."""
    settings = defaults if queues is None else replace(defaults, queues=queues)
    for name, value in stated.items():
        config = CONFIGS.get(name)
        if config is None:
            raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"there is no config {name}: {', '.join(CONFIGS)}")
        if value is None:
            continue
        try:
            settings = config.set(settings, value)
        except ValueError as error:
            raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r}: {error}") from None
    return settings


def _retention_ms(settings: TopicSettings) -> str:
    return str(_UNBOUNDED if settings.retention is None else settings.retention // timedelta(milliseconds=1))


def _with_retention_ms(settings: TopicSettings, value: str) -> TopicSettings:
    retention_ms = _number(value)
    if retention_ms == _UNBOUNDED or retention_ms > RETENTION_MAX // timedelta(milliseconds=1):
        return replace(settings, retention=None)
    return replace(settings, retention=timedelta(milliseconds=retention_ms))


def _with_retention_bytes(settings: TopicSettings, value: str) -> TopicSettings:
    size_bytes = _number(value)
    return replace(settings, retention_bytes=None if size_bytes == _UNBOUNDED else size_bytes)


def _with_cleanup(settings: TopicSettings, value: str) -> TopicSettings:
    policies = {one.strip() for one in value.split(",")}
    if not policies <= {"delete", "compact"} or not policies:
        raise ValueError("policies are delete and compact")
    return replace(settings, retention=None) if "compact" in policies else settings


def _number(value: str) -> int:
    number = int(value)
    if number < _UNBOUNDED:
        raise ValueError("less than -1")
    return number


def _idle(name: str, value: str, kind: int) -> TopicConfig:
    """A config that is told and taken, and has no effect."""
    return TopicConfig(name, lambda _: value, kind=kind)


def _of_broker(name: str, value: str | Callable[[TopicSettings], str], kind: int) -> TopicConfig:
    return TopicConfig(name, value if callable(value) else lambda _: value, kind=kind, is_fixed=True)


CONFIGS: Final[Mapping[str, TopicConfig]] = {
    one.name: one
    for one in (
        TopicConfig("cleanup.policy", lambda _: "delete", _with_cleanup, LIST),
        _idle("compression.type", "producer", STRING),
        _idle("delete.retention.ms", "86400000", LONG),
        _idle("file.delete.delay.ms", "60000", LONG),
        _idle("flush.messages", str(2**63 - 1), LONG),
        _idle("flush.ms", str(2**63 - 1), LONG),
        _idle("index.interval.bytes", "4096", INT),
        _idle("max.compaction.lag.ms", str(2**63 - 1), LONG),
        _idle("max.message.bytes", str(BATCH_BYTES_MAX), INT),
        _idle("message.timestamp.after.max.ms", str(2**63 - 1), LONG),
        _idle("message.timestamp.before.max.ms", str(2**63 - 1), LONG),
        _idle("message.timestamp.type", "CreateTime", STRING),
        _idle("min.cleanable.dirty.ratio", "0.5", DOUBLE),
        _idle("min.compaction.lag.ms", "0", LONG),
        _idle("min.insync.replicas", "1", INT),
        _idle("preallocate", "false", BOOLEAN),
        TopicConfig(
            "retention.bytes",
            lambda settings: str(_UNBOUNDED if settings.retention_bytes is None else settings.retention_bytes),
            _with_retention_bytes,
            LONG,
        ),
        TopicConfig("retention.ms", _retention_ms, _with_retention_ms, LONG),
        _idle("segment.bytes", "1073741824", INT),
        _idle("segment.index.bytes", "10485760", INT),
        _idle("segment.jitter.ms", "0", LONG),
        _idle("segment.ms", "604800000", LONG),
        _idle("unclean.leader.election.enable", "false", BOOLEAN),
    )
}
BROKER_CONFIGS: Final = (
    _of_broker("default.replication.factor", "1", INT),
    _of_broker("delete.topic.enable", "true", BOOLEAN),
    # Consoles derive the version of a cluster from it.
    _of_broker("inter.broker.protocol.version", "4.2", STRING),
    _of_broker("log.cleanup.policy", "delete", LIST),
    _of_broker("log.retention.bytes", CONFIGS["retention.bytes"].value_of, LONG),
    _of_broker("log.retention.ms", CONFIGS["retention.ms"].value_of, LONG),
    _of_broker("message.max.bytes", CONFIGS["max.message.bytes"].value_of, INT),
    _of_broker("num.partitions", lambda settings: str(settings.queues), INT),
)
