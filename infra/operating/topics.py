"""Topics: their settings and contents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from ...log.limits import HEADERS_MAX
from ..terminal.output import duration_text
from ..terminal.values import FOREVER, DurationParam, RetentionParam, SizeParam
from .pending_messages import PendingTransactions, WaitingMessages, pending_transactions, waiting_messages
from .times import time_of

if TYPE_CHECKING:
    from ...aio import Lake
    from ...log import TopicDescription, TopicLimits, TopicSettings
    from ...log.format.state import SchemaVersion
    from ...log.schema.topic_schema import TopicSchema
    from .growth_advice import GrowthAdvice


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimitValues:
    """The limits of a message's size, and of its delay."""

    max_body_bytes: int
    max_properties_bytes: int
    max_properties: int
    max_headers_bytes: int
    max_headers: int
    max_message_group_bytes: int
    max_delay: timedelta

    @staticmethod
    def of(limits: TopicLimits) -> TopicLimitValues:
        return TopicLimitValues(
            max_body_bytes=limits.max_body_bytes,
            max_properties_bytes=limits.max_properties_bytes,
            max_properties=limits.max_properties,
            max_headers_bytes=limits.headers_bytes_max,
            max_headers=limits.headers_max,
            max_message_group_bytes=limits.max_message_group_bytes,
            max_delay=limits.max_delay,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfiguration:
    """The settings of a topic."""

    message_type: str
    typed: bool
    queues: int
    routing: str
    retention: timedelta | None
    """None: for ever."""
    retention_bytes: int | None
    limits: TopicLimitValues
    iceberg: bool
    message_group: str | None
    """The field of a row's message group."""
    tag: str | None
    keys: tuple[str, ...]
    bloom: tuple[str, ...]
    """The fields with Bloom filters."""

    @staticmethod
    def of(settings: TopicSettings) -> TopicConfiguration:
        return TopicConfiguration(
            message_type=str(settings.message_type),
            typed=settings.schema is not None,
            queues=settings.queues,
            routing=str(settings.routing),
            retention=settings.retention,
            retention_bytes=settings.retention_bytes,
            limits=TopicLimitValues.of(settings.limits),
            iceberg=settings.iceberg,
            message_group=settings.message_group,
            tag=settings.tag,
            keys=settings.keys,
            bloom=settings.bloom,
        )

    @property
    def type_text(self) -> str:
        return f"{self.message_type}, typed" if self.typed else self.message_type


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQueue:
    """A queue of the topic."""

    queue: int
    earliest: int
    next: int
    messages: int
    table_bytes: int
    """The size of its files in the table."""
    share: float | None
    """Its part of the newest messages, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotMessageGroup:
    """A message group with many of the newest messages."""

    message_group: str
    messages: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchemaVersion:
    """A version of the topic's schema."""

    version: int
    since: datetime
    changes: tuple[str, ...]
    """Its changes in words; empty for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesOverTime:
    """Counts of stored messages in equal slots of time."""

    start: datetime
    end: datetime
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """A topic as it is stored."""

    topic: str
    settings: TopicConfiguration
    created: datetime
    last_stored: datetime | None
    entries: int
    messages: int
    table_bytes: int
    """The size of the table's files, without the log."""
    schema_version: int | None
    schema: str | None
    schema_history: tuple[StoredSchemaVersion, ...]
    """The last 100 versions, the newest first."""
    queues: tuple[StoredQueue, ...]
    """All, or the hottest of very many."""
    hottest_groups: tuple[HotMessageGroup, ...]
    sampled: int
    """The number of newest messages behind shares."""
    over_time: MessagesOverTime | None
    """None: too few messages."""
    named_producers: dict[str, int]
    """Their last sequences of the last 30 days."""
    waiting: WaitingMessages | None = None
    """None: not of type DELAY, or not requested."""
    transactions: PendingTransactions | None = None
    """None: the topic takes none, or not requested."""
    growth: tuple[GrowthAdvice, ...] = ()
    """The consumer groups that more queues would help, if requested."""


async def topic_of(lake: Lake, name: str, *, queues: int | None = None, pending: bool = False) -> StoredTopic:
    """A topic, with at most ``queues`` queues, the hottest. Raises `TopicNotFound`."""
    found, schema = await lake.describe_topic(name), await lake.topic_schema(name)
    versions = () if schema is None else await lake.schema_history(name)
    kind = found.settings.message_type
    waiting, transactions = (
        await asyncio.gather(waiting_messages(lake, name, kind), pending_transactions(lake, name, kind))
        if pending
        else (None, None)
    )
    from .growth_advice import described_groups, growth_advice  # a list of topics is to be quick

    growth = growth_advice(name, found.settings.queues, await described_groups(lake)) if pending else ()
    stored = stored_topic_of(found, schema, versions, queues=queues, waiting=waiting, transactions=transactions)
    return replace(stored, growth=growth)


def stored_topic_of(
    found: TopicDescription,
    schema: TopicSchema | None,
    versions: Sequence[SchemaVersion],
    *,
    queues: int | None,
    waiting: WaitingMessages | None,
    transactions: PendingTransactions | None,
) -> StoredTopic:
    """The same of read values. Pure."""
    time = found.over_time
    listed = found.queues if queues is None or len(found.queues) <= queues else found.hottest_queues
    return StoredTopic(
        topic=found.name,
        settings=TopicConfiguration.of(found.settings),
        created=found.created,
        last_stored=found.last_stored,
        entries=found.entries,
        messages=found.messages,
        table_bytes=found.table_bytes,
        schema_version=None if schema is None else schema.version,
        schema=None if schema is None else schema.ddl,
        schema_history=tuple(
            StoredSchemaVersion(version=one.version, since=time_of(one.time_ms), changes=one.changes) for one in reversed(versions)
        ),
        queues=tuple(
            StoredQueue(
                queue=one.queue,
                earliest=one.earliest,
                next=one.next,
                messages=one.next - one.earliest,
                table_bytes=one.table_bytes,
                share=one.sampled / found.sampled if found.sampled else None,
            )
            for one in listed
        ),
        hottest_groups=tuple(
            HotMessageGroup(message_group=name, messages=count, share=count / found.sampled) for name, count in found.hottest_groups
        ),
        sampled=found.sampled,
        over_time=None if time is None else MessagesOverTime(start=time.start, end=time.end, counts=time.counts),
        named_producers=found.named_producers,
        waiting=waiting,
        transactions=transactions,
    )


TOPIC_SETTINGS: dict[str, tuple[click.ParamType[Any], str]] = {
    "retention": (RetentionParam(), "How long messages are kept, e.g. 3d; forever keeps them."),
    "retention_bytes": (SizeParam(), "How much of a queue's table files is kept; 0: any amount."),
    "max_body_bytes": (SizeParam(), "The largest body."),
    "max_properties_bytes": (SizeParam(), "Properties, tag and keys of a message together."),
    "max_properties": (click.IntRange(min=1), "The most properties of a message."),
    "max_headers_bytes": (SizeParam(), "The binary key and the headers of a message together, up to 1 MiB."),
    "max_headers": (click.IntRange(min=1, max=HEADERS_MAX), "The most headers of a message."),
    "max_message_group_bytes": (SizeParam(), "The longest message group."),
    "max_delay": (DurationParam(), "How far ahead messages may be due (topics of type DELAY), e.g. 40d."),
}
"""The changeable settings of a topic, in the forms of the command line, and what each is."""


def topic_changes(limits: TopicLimits, given: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a topic with these limits; None is no change. Raises what `TopicLimits` raises."""
    left = {name: value for name, value in given.items() if value is not None}
    changes: dict[str, Any] = {}
    if "retention" in left:
        retention = left.pop("retention")
        changes["retention"] = None if retention == FOREVER else retention
    if "retention_bytes" in left:
        changes["retention_bytes"] = left.pop("retention_bytes") or None
    if "iceberg" in left:
        changes["iceberg"] = left.pop("iceberg")
    if left:
        changes["limits"] = replace(limits, **left)
    return changes


def keeps_less(before: TopicSettings, changes: Mapping[str, Any]) -> bool:
    """Whether the changes let messages be dropped that are kept now."""

    def less(name: str) -> bool:
        old, new = getattr(before, name), changes.get(name, getattr(before, name))
        return new is not None and (old is None or new < old)

    return less("retention") or less("retention_bytes")


def change_lines(before: TopicSettings, changes: Mapping[str, Any]) -> list[str]:
    """What the changes change, a line each."""
    return [
        f"{name}: {setting_value_text(getattr(before, name))} -> {setting_value_text(value)}"
        for name, value in changes.items()
        if getattr(before, name) != value
    ]


def setting_value_text(value: object) -> str:
    from ...log import TopicLimits

    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, TopicLimits):
        stated = TopicLimitValues.of(value)
        return ", ".join(f"{name} {setting_value_text(getattr(stated, name))}" for name in TopicLimits.__dataclass_fields__)
    return "any" if value is None else str(value)
