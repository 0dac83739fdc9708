"""Kafka's configs of topics as Penstock's settings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
_MOST: Final = {INT: 2**31 - 1, LONG: 2**63 - 1}


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


def settings_of(settings: TopicSettings, stated: Mapping[str, str | None]) -> TopicSettings:
    """The settings with configs that are stated. Raises `KafkaRefusal` for a config that is not known, or has a wrong value, and `LimitExceeded`."""
    for name, value in stated.items():
        config = CONFIGS.get(name)
        if config is None:
            raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"there is no config {name}: {', '.join(CONFIGS)}")
        try:
            if value is None:
                raise ValueError("it has a value")
            settings = config.set(settings, value)
        except ValueError as error:
            raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r}: {error}") from None
    if _policies(settings) == {COMPACT}:  # what is compacted alone has no age and no size
        return replace(settings, retention=None, retention_bytes=None)
    return settings


def is_compacted(settings: TopicSettings) -> bool:
    """Whether each record is to have a key, as the latest of a key would be kept."""
    return COMPACT in _policies(settings)


def has_log_append_time(settings: TopicSettings) -> bool:
    """Whether clients are shown when a record was stored, and not the time that its sender gave."""
    return _TIMESTAMP_TYPE.value_of(settings) == _LOG_APPEND_TIME


def batch_bytes_max(settings: TopicSettings) -> int:
    """The largest batch as it is sent."""
    return min(BATCH_BYTES_MAX, int(_BATCH_BYTES.value_of(settings)))


def times_ms(settings: TopicSettings, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest time that a record may claim."""
    return now_ms - int(_BEFORE_MS.value_of(settings)), now_ms + int(_AFTER_MS.value_of(settings))


def listed(value: str) -> list[str]:
    """The items of a list."""
    return [item for one in value.split(",") if (item := one.strip())]


def _policies(settings: TopicSettings) -> set[str]:
    return set(listed(CLEANUP_POLICY.value_of(settings)))


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


def _number(value: str) -> int:
    number = _whole(value)
    if number < _UNBOUNDED:
        raise ValueError("less than -1")
    return number


def _whole(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError("no whole number") from None


def _kept(name: str, default: str, kind: int, *values: str, least: int = 0) -> TopicConfig:
    """A config that is kept and told; ``values`` are all that it takes, and ``least`` is the smallest number."""

    def set_to(settings: TopicSettings, value: str) -> TopicSettings:
        _check_value(value, kind, values, least)
        others = tuple(pair for pair in settings.configs if pair[0] != name)
        return replace(settings, configs=others if value == default else (*others, (name, value)))

    return TopicConfig(name, lambda settings: dict(settings.configs).get(name, default), set_to, kind=kind)


def _check_value(value: str, kind: int, values: Sequence[str], least: int) -> None:
    if kind in (INT, LONG) and not least <= _whole(value) <= _MOST[kind]:
        raise ValueError(f"not from {least} to {_MOST[kind]}")
    if kind == DOUBLE and not 0 <= float(value) <= 1:
        raise ValueError("not from 0 to 1")
    if kind == BOOLEAN and value not in ("true", "false"):
        raise ValueError("neither true nor false")
    given = listed(value) if kind == LIST else [value]
    if values and (not given or not set(given) <= set(values)):
        raise ValueError(f"not of {', '.join(values)}")


def _of_broker(name: str, value: str | Callable[[TopicSettings], str], kind: int) -> TopicConfig:
    return TopicConfig(name, value if callable(value) else lambda _: value, kind=kind, is_fixed=True)


COMPACT: Final = "compact"
CLEANUP_POLICY: Final = _kept("cleanup.policy", "delete", LIST, "delete", COMPACT)
_BATCH_BYTES: Final = _kept("max.message.bytes", str(BATCH_BYTES_MAX), INT)
_BEFORE_MS: Final = _kept("message.timestamp.before.max.ms", str(2**63 - 1), LONG)
# An hour, as in Kafka: a time in the future would hide the records behind it from a search by time.
_AFTER_MS: Final = _kept("message.timestamp.after.max.ms", "3600000", LONG)
_LOG_APPEND_TIME: Final = "LogAppendTime"
_TIMESTAMP_TYPE: Final = _kept("message.timestamp.type", "CreateTime", STRING, "CreateTime", _LOG_APPEND_TIME)
CONFIGS: Final[Mapping[str, TopicConfig]] = {
    one.name: one
    for one in (
        CLEANUP_POLICY,
        _kept("compression.gzip.level", "-1", INT, least=-1),
        _kept("compression.lz4.level", "9", INT, least=1),
        _kept("compression.type", "producer", STRING, "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        _kept("compression.zstd.level", "3", INT, least=-131_072),
        _kept("delete.retention.ms", "86400000", LONG),
        _kept("file.delete.delay.ms", "60000", LONG),
        _kept("flush.messages", str(2**63 - 1), LONG, least=1),
        _kept("flush.ms", str(2**63 - 1), LONG),
        _kept("follower.replication.throttled.replicas", "", LIST),
        _kept("index.interval.bytes", "4096", INT),
        _kept("leader.replication.throttled.replicas", "", LIST),
        _kept("local.retention.bytes", "-2", LONG, least=-2),
        _kept("local.retention.ms", "-2", LONG, least=-2),
        _kept("max.compaction.lag.ms", str(2**63 - 1), LONG, least=1),
        _BATCH_BYTES,
        _AFTER_MS,
        _BEFORE_MS,
        _TIMESTAMP_TYPE,
        _kept("min.cleanable.dirty.ratio", "0.5", DOUBLE),
        _kept("min.compaction.lag.ms", "0", LONG),
        _kept("min.insync.replicas", "1", INT, least=1),
        _kept("preallocate", "false", BOOLEAN),
        _kept("remote.log.copy.disable", "false", BOOLEAN),
        _kept("remote.log.delete.on.disable", "false", BOOLEAN),
        _kept("remote.storage.enable", "false", BOOLEAN, "false"),
        TopicConfig(
            "retention.bytes",
            lambda settings: str(_UNBOUNDED if settings.retention_bytes is None else settings.retention_bytes),
            _with_retention_bytes,
            LONG,
        ),
        TopicConfig("retention.ms", _retention_ms, _with_retention_ms, LONG),
        _kept("segment.bytes", "1073741824", INT, least=14),
        _kept("segment.index.bytes", "10485760", INT, least=4),
        _kept("segment.jitter.ms", "0", LONG),
        _kept("segment.ms", "604800000", LONG, least=1),
        _kept("unclean.leader.election.enable", "false", BOOLEAN),
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
