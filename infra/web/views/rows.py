"""Rows of several pages: a consumer group on a topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ....coordinator.operators.lake_view import GroupOverview, LakeOverview
from ..lakes.source import LakeSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A consumer group on one topic."""

    group: str
    topic: str
    lag: int
    lag_time: timedelta | None
    """The age of the oldest unsettled message; None: unknown."""
    settled_per_second: float | None
    """The rate since the look before; None: there was none, or a reset came between."""
    in_flight: int
    waiting: int
    blocked: int
    parked: int
    consumers: int
    queues: int
    queues_owned: int
    dead_letters: int
    """The number ever written."""


def group_rows(looked: LakeSnapshot) -> Sequence[GroupRow]:
    """All groups on all topics, the greatest lag first."""
    return looked.memoized(_group_rows)


def _group_rows(looked: LakeSnapshot) -> Sequence[GroupRow]:
    before = {(one.group, one.topic): one for one in (looked.before.groups if looked.before is not None else ())}
    took_s = 0.0 if looked.before is None else looked.seen.ended_s - looked.before.ended_s
    rows = (_row(one, before.get((one.group, one.topic)), took_s) for one in looked.seen.groups)
    return sorted(rows, key=lambda one: (-one.lag, one.group, one.topic))


def _row(seen: GroupOverview, before: GroupOverview | None, took_s: float) -> GroupRow:
    queues_progress = [one.progress for one in seen.queues]
    ages = [one.lag_ms for one in seen.queues if one.lag_ms is not None]
    return GroupRow(
        group=seen.group,
        topic=seen.topic,
        lag=sum(one.lag for one in queues_progress),
        lag_time=timedelta(milliseconds=max(ages)) if ages else None,
        settled_per_second=None if before is None else _rate(settled_count(seen) - settled_count(before), took_s),
        in_flight=sum(one.in_flight for one in queues_progress),
        waiting=sum(one.waiting for one in queues_progress),
        blocked=sum(one.blocked for one in queues_progress),
        parked=sum(one.parked for one in queues_progress),
        consumers=seen.consumers,
        queues=len(seen.queues),
        queues_owned=seen.owned,
        dead_letters=seen.dead_letters,
    )


def settled_count(seen: GroupOverview) -> int:
    """Settled messages, of those ever stored."""
    return sum((one.progress.next_offset or 0) - one.progress.lag for one in seen.queues)


def stored_by_topic(seen: LakeOverview) -> Mapping[str, int]:
    """Messages ever stored, by topic."""
    return {one.topic: sum(queue.progress.next_offset or 0 for queue in one.queues) for one in seen.groups}


def stored_per_second(looked: LakeSnapshot) -> Mapping[str, float]:
    """The rates by topic."""
    if looked.before is None:
        return {}
    before, took_s = stored_by_topic(looked.before), looked.seen.ended_s - looked.before.ended_s
    rates = {topic: _rate(now - before[topic], took_s) for topic, now in stored_by_topic(looked.seen).items() if topic in before}
    return {topic: rate for topic, rate in rates.items() if rate is not None}


def _rate(count: int, seconds: float) -> float | None:
    """None where it is negative, as after a reset."""
    return None if count < 0 or seconds <= 0 else round(count / seconds, 1)


def live_group(row: GroupRow) -> dict[str, object]:
    """A row's live values."""
    at = f"{row.group}:{row.topic}"
    return {
        f"lag:{at}": row.lag,
        f"lag_time:{at}": row.lag_time,
        f"rate:{at}": row.settled_per_second,
        f"blocked:{at}": row.blocked,
        f"parked:{at}": row.parked,
        f"waiting:{at}": row.waiting,
        f"consumers:{at}": row.consumers,
        f"owned:{at}": f"{row.queues_owned:,} of {row.queues:,}",
    }


def live_groups(rows: Sequence[GroupRow]) -> dict[str, object]:
    return {key: value for row in rows for key, value in live_group(row).items()}
