"""The last hour of a lake by its looks, in memory only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime

from ....coordinator.operators.lake_view import LakeOverview

HOUR_S = 3600.0
APART_S = 5.0
"""The least time between two points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPoint:
    """A lake's sums at one moment."""

    at: datetime
    at_s: float
    """The same by the monotonic clock."""
    lag: int
    parked: int
    timers: int
    oldest_ms: int
    """The age of the oldest unsettled message with a known age."""
    stored: int
    """Messages ever stored in the topics that groups read."""
    settled: int
    dead_letters: int
    """Dead letters ever written."""


def point_of(at: datetime, seen: LakeOverview) -> MetricsPoint:
    """The sums of one look. Pure."""
    queues = [queue for group in seen.groups for queue in group.queues]
    stored = {(group.topic, one.progress.queue): one.progress.next_offset or 0 for group in seen.groups for one in group.queues}
    return MetricsPoint(
        at=at,
        at_s=seen.ended_s,
        lag=sum(one.progress.lag for one in queues),
        parked=sum(one.progress.parked for one in queues),
        timers=sum(seen.timers.values()),
        oldest_ms=max((one.lag_ms for one in queues if one.lag_ms is not None), default=0),
        stored=sum(stored.values()),
        settled=sum((one.progress.next_offset or 0) - one.progress.lag for one in queues),
        dead_letters=sum(group.dead_letters for group in seen.groups),
    )


class MetricsHistory:
    """The points of the last hour, where there were looks."""

    def __init__(self) -> None:
        self._points: deque[MetricsPoint] = deque()

    def add(self, point: MetricsPoint) -> None:
        """Add a point, unless it comes too soon."""
        if self._points and point.at_s - self._points[-1].at_s < APART_S:
            return
        self._points.append(point)
        while point.at_s - self._points[0].at_s > HOUR_S:
            self._points.popleft()

    @property
    def points(self) -> tuple[MetricsPoint, ...]:
        return tuple(self._points)
