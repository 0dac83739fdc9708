"""Consumer groups: their settings, and how far one is. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ...coordinator.groups.record import GroupProtocol, setting_text
from ...coordinator.groups.retry import RetryPolicy
from ...coordinator.operators.describe import KafkaGroup, QueueProgress
from ...coordinator.registry.failures import LastFailure

if TYPE_CHECKING:
    from ...coordinator import GroupDescription, GroupSettings

FAILURES_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfiguration:
    """The settings of a group."""

    delivery_order: str
    retry: RetryPolicy
    max_attempts: int | None
    """None: any number."""
    dead_letter_policy: str
    filters: dict[str, str]
    """The filters by topic."""

    @staticmethod
    def of(settings: GroupSettings) -> GroupConfiguration:
        return GroupConfiguration(
            delivery_order=settings.delivery_order.value,
            retry=settings.retry,
            max_attempts=settings.max_attempts,
            dead_letter_policy=settings.dead_letter_policy.value,
            filters=dict(settings.filters),
        )

    @property
    def retry_text(self) -> str:
        return setting_text(self.retry)

    @property
    def attempts_text(self) -> str:
        return setting_text(self.max_attempts)

    @property
    def filters_text(self) -> str:
        return "; ".join(f"{topic}: {tags}" for topic, tags in self.filters.items()) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in a topic."""

    group: str
    topic: str
    lag: int
    """Unsettled messages."""
    lag_time: timedelta
    """The age of the oldest unsettled message."""
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """A group on its topics, queue by queue."""

    group: str
    protocol: str
    """``kafka`` for a group of Kafka's clients, else ``penstock``."""
    settings: GroupConfiguration | None
    """None for a group of Kafka's clients, which has none of them; the same for `kafka`, the other way round."""
    kafka: KafkaGroup | None
    members: tuple[str, ...]
    """Members that joined, some perhaps dead; the first of very many."""
    members_total: int
    topics: tuple[str, ...]
    lag: int
    lag_time: timedelta
    lost_letters: int
    queues_total: int
    queues: tuple[QueueProgress, ...]
    """All, or those with the greatest lag of very many."""
    failures: tuple[LastFailure, ...] = ()
    """Why messages that are not done failed last, the newest first; the first of very many."""

    def of_topic(self, topic: str) -> Sequence[QueueProgress]:
        return [one for one in self.queues if one.topic == topic]


def progress_of(found: GroupDescription, *, queues: int | None = None, members: int | None = None) -> GroupProgress:
    listed = found.queues
    if queues is not None and len(listed) > queues:
        listed = tuple(sorted(listed, key=lambda one: -one.lag)[:queues])
    return GroupProgress(
        group=found.name,
        protocol=found.protocol.value,
        settings=GroupConfiguration.of(found.settings) if found.protocol is GroupProtocol.PENSTOCK else None,
        kafka=None if found.kafka is None else replace(found.kafka, members=found.kafka.members[:members]),
        members=found.members[:members],
        members_total=len(found.members),
        topics=tuple(dict.fromkeys(one.topic for one in found.queues)),
        lag=found.lag,
        lag_time=found.lag_time,
        lost_letters=found.lost_letters,
        queues_total=len(found.queues),
        queues=listed,
        failures=found.failures[:FAILURES_SHOWN],
    )


def lags_of(found: GroupDescription) -> list[GroupLag]:
    by_topic: defaultdict[str, list[QueueProgress]] = defaultdict(list)
    for one in found.queues:
        by_topic[one.topic].append(one)
    return [
        GroupLag(
            group=found.name,
            topic=topic,
            lag=sum(one.lag for one in queues),
            lag_time=max(one.lag_time for one in queues),
            parked=sum(one.parked for one in queues),
        )
        for topic, queues in by_topic.items()
    ]
