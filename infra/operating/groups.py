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
from ...coordinator.operators.holding import Cause, GroupWork
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
    work: GroupWork | None = None
    """How fast it works, and what holds it up."""

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
        work=found.work,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFact:
    """A fact about a group's work, for people."""

    name: str
    value: str


def work_facts(work: GroupWork) -> list[WorkFact]:
    """What is known of it, what holds first."""
    found = {
        "holds": None if work.holds is Cause.NOTHING else f"{work.holds}: {work.because}",
        "in, out": None
        if work.rate_in is None or work.rate_out is None
        else f"{_rate(work.rate_in)}, {_rate(work.rate_out)} a second",
        "caught up in": None if work.catch_up is None else duration_text(work.catch_up),
        "handlers": None
        if work.handler_p50 is None or work.handler_p95 is None
        else f"half within {duration_text(work.handler_p50)}, 95% within {duration_text(work.handler_p95)}",
        "threads": None
        if not work.threads
        else f"{work.busy} of {work.threads} run a handler, {work.fetched_ahead:,} messages are fetched ahead",
    }
    return [WorkFact(name=name, value=value) for name, value in found.items() if value is not None]


def duration_text(duration: timedelta) -> str:
    """Two digits are enough."""
    seconds = duration.total_seconds()
    for most, unit_s, unit in ((1.0, 0.001, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < most:
            count = seconds / unit_s
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"


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
