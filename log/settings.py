"""A topic's settings: the object ``topic.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Any

from .errors import DataDamaged, InvalidArgument, LimitExceeded, NewerFormatError
from .files import digest
from .limits import FORMAT_VERSION, QUEUES_MAX, TopicLimits, is_positive
from .messages import MessageType

QUEUES_DEFAULT = 16
RETENTION_DEFAULT = timedelta(days=3)
RETENTION_MAX = timedelta(days=36_500)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSettings:
    """What a topic was created with, and what of it may be changed (retention and limits)."""

    message_type: MessageType = MessageType.NORMAL
    queues: int = QUEUES_DEFAULT
    """Fixed at creation. One queue gives a global order."""
    retention: timedelta | None = RETENTION_DEFAULT
    """How long messages are kept after they were stored; None: for ever."""
    retention_bytes: int | None = None
    """How many bytes of table files a queue keeps at most; None: any number."""
    limits: TopicLimits = field(default_factory=TopicLimits)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "message_type", MessageType(self.message_type))
        except ValueError as error:
            raise InvalidArgument("no such message type", expected=", ".join(MessageType), observed=self.message_type) from error
        if not is_positive(self.queues):
            raise InvalidArgument("queues must be a positive whole number", observed=self.queues)
        if self.queues > QUEUES_MAX:
            raise LimitExceeded("too many queues", expected=f"at most {QUEUES_MAX}", observed=self.queues)
        retention: object = self.retention
        if retention is not None and not (isinstance(retention, timedelta) and retention > timedelta(0)):
            raise InvalidArgument("retention must be a positive timedelta, or None", observed=retention)
        if self.retention is not None and self.retention > RETENTION_MAX:
            hint = "None keeps for ever"
            raise LimitExceeded(
                "the retention is too long", expected=f"at most {RETENTION_MAX.days} days", observed=self.retention, hint=hint
            )
        limits: object = self.limits
        if not isinstance(limits, TopicLimits):
            raise InvalidArgument("limits must be TopicLimits", observed=type(limits).__name__)
        if self.retention_bytes is not None and not is_positive(self.retention_bytes):
            raise InvalidArgument("retention_bytes must be a positive whole number, or None", observed=self.retention_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicRecord:
    """``topic.json``: the settings, and which life of the topic they are of."""

    settings: TopicSettings
    incarnation: str
    """A fresh id for every creation."""
    replaces: str = ""
    """The incarnation before it; empty: the name was not used before."""
    table: str = "table"
    """The folder of the Delta table: ``table``, or ``table-<entry>`` when the name was used before."""
    created_ms: int = 0
    deleted: bool = False
    of: str = ""
    """A timer log's: the incarnation of the topic whose messages wait in it."""
    write_id: str = ""
    """Fresh for every write, as equal bytes have equal versions."""


def encode_record(record: TopicRecord) -> bytes:
    """``topic.json`` as bytes."""
    settings = asdict(record.settings)
    retention = record.settings.retention
    settings["retention"] = None if retention is None else retention.total_seconds()
    settings["limits"]["delay"] = record.settings.limits.delay.total_seconds()
    document = {"format": FORMAT_VERSION, **{f.name: getattr(record, f.name) for f in fields(record)}, "settings": settings}
    return json.dumps({**document, "digest": _digest(document)}, indent=2).encode()


def decode_record(data: bytes, *, where: str) -> TopicRecord:
    """The inverse of `encode_record`. Raises `DataDamaged` or `NewerFormatError`."""
    try:
        document: dict[str, Any] = json.loads(data)
        version = document.pop("format")
        if version != FORMAT_VERSION:
            raise NewerFormatError(
                "written by another version of Penstock",
                object=where,
                expected=f"format {FORMAT_VERSION}",
                observed=f"format {version}",
                hint="upgrade this process",
            )
        if document.pop("digest") != _digest({"format": version, **document}):
            raise _damaged("the topic's settings are not what was written", where, "another digest")
        values = document.pop("settings")
        seconds = values.pop("retention")
        said = values.pop("limits")
        limits = TopicLimits(**{**said, **({"delay": timedelta(seconds=said["delay"])} if "delay" in said else {})})
        retention = None if seconds is None else timedelta(seconds=seconds)
        return TopicRecord(settings=TopicSettings(**values, retention=retention, limits=limits), **document)
    except KeyError as error:
        raise _damaged("the object is not a topic's settings", where, f"no field {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged("the object is not a topic's settings", where, f"{type(error).__name__}: {error}") from error


def _damaged(message: str, where: str, observed: str) -> DataDamaged:
    return DataDamaged(
        message,
        operation="read the settings",
        object=where,
        expected="settings as Penstock writes them",
        observed=observed,
        hint="put an earlier version of it back, from a backup or the store's versions; log and table are untouched, and any Delta "
        "reader still reads the table",
    )


def _digest(document: dict[str, Any]) -> str:
    """Of the values, however they are laid out."""
    return digest(json.dumps(document, sort_keys=True).encode())
