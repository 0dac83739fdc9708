"""Whether more queues would help a topic's consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...log.limits import QUEUES_MAX

if TYPE_CHECKING:
    from ...aio import Lake
    from ...coordinator import GroupDescription

_GROUPS_MAX = 50
"""The most groups that are looked at."""
_LAG_MIN = 1_000
"""A smaller lag is no reason for something that cannot be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthAdvice:
    """A consumer group that more queues would help."""

    group: str
    queues: int
    """The number to grow to."""
    reason: str

    def way(self, topic: str) -> str:
        """How to grow, and what that costs."""
        return (
            f"`penstock topic alter {topic} --queues {self.queues}` adds them while all runs. It cannot be taken back; every consumer group gets "
            "a cell for each, and every publication a file for each that has messages"
        )


async def described_groups(lake: Lake) -> list[GroupDescription]:
    """The consumer groups, of very many some."""
    from ...coordinator import GroupNotFound  # a list of topics is to be quick

    found = []
    for group in sorted(await lake.groups())[:_GROUPS_MAX]:
        with suppress(GroupNotFound):  # deleted meanwhile
            found.append(await lake.describe_group(group))
    return found


def growth_advice(topic: str, queues: int, groups: Iterable[GroupDescription]) -> tuple[GrowthAdvice, ...]:
    """The groups with members that have no queue though messages wait, and those with most of their lag in one queue. Pure."""
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
