"""Whether more queues would help a topic's consumer groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...log.limits import QUEUES_MAX

if TYPE_CHECKING:
    from ...coordinator import GroupDescription

_LAG_MIN = 1_000
"""A smaller lag is no reason for something that cannot be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthAdvice:
    """A consumer group that more queues would help."""

    group: str
    queues: int
    """The number to grow to."""
    reason: str


def growth_advice(topic: str, queues: int, groups: Iterable[GroupDescription]) -> tuple[GrowthAdvice, ...]:
    """The groups with members that have no queue though messages wait, and those with most of their lag in one queue."""
    advice = []
    for one in groups:
        lags = {progress.queue: progress.lag for progress in one.queues if progress.topic == topic}
        lag, members = sum(lags.values()), len(one.members)
        if not lags or lag < _LAG_MIN:
            continue
        furthest = max(lags, key=lambda queue: (lags[queue], -queue))
        if members > len(one.queues):
            idle = members - len(one.queues)
            wanted, reason = queues * -(-members // queues), f"{idle} of {members} members have no queue, and {lag:,} messages wait"
        elif queues > 1 and lags[furthest] > lag / 2:
            wanted, reason = 2 * queues, f"queue {furthest} has {lags[furthest] / lag:.0%} of the lag of {lag:,} messages"
        else:
            continue
        if wanted <= QUEUES_MAX:
            advice.append(GrowthAdvice(group=one.name, queues=wanted, reason=reason))
    return tuple(advice)
