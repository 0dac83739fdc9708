"""When a failed message is run again: the schedules a consumer group can have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ..log.errors import InvalidArgument

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
ROCKETMQ_INTERVALS = (
    *(seconds * _SECOND for seconds in (10, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)
"""RocketMQ's documented table of 16; what comes after waits two hours each time."""
INTERVAL_MAX = timedelta(days=7)


class Schedule(StrEnum):
    """How the intervals of a `RetryPolicy` follow from one another."""

    FIXED = "fixed"
    """Always ``interval``."""
    ROCKETMQ = "rocketmq"
    """`ROCKETMQ_INTERVALS`."""
    EXPONENTIAL = "exponential"
    """``interval``, twice that, and so on up to ``interval_max``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How long a message waits between a failed attempt and the next. Raises `InvalidArgument` for what makes no sense."""

    schedule: Schedule = Schedule.FIXED
    interval: timedelta = _SECOND
    """FIXED: each. EXPONENTIAL: the first."""
    interval_max: timedelta = timedelta(hours=2)
    """EXPONENTIAL: none is longer."""
    jitter: float = 0.0
    """From 0 to 1: so much of an interval is left to chance, so that what failed together does not come back together."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "schedule", Schedule(self.schedule))
        except ValueError as error:
            raise InvalidArgument("no such retry schedule", expected=", ".join(Schedule), observed=self.schedule) from error
        for name in ("interval", "interval_max"):
            interval: object = getattr(self, name)
            if not isinstance(interval, timedelta) or not timedelta(0) <= interval <= INTERVAL_MAX:
                raise InvalidArgument(f"{name} must be a timedelta from 0 to {INTERVAL_MAX.days} days", observed=interval)
        jitter: object = self.jitter
        if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidArgument("jitter must be a number from 0 to 1", observed=jitter)

    def delay(self, strikes: int, chance: float) -> timedelta:
        """How long to wait after the ``strikes``-th failure (from 1); ``chance`` is a random number from 0 to 1, for the jitter."""
        if self.schedule is Schedule.ROCKETMQ:
            interval = ROCKETMQ_INTERVALS[min(strikes, len(ROCKETMQ_INTERVALS)) - 1]
        elif self.schedule is Schedule.EXPONENTIAL:
            interval = min(self.interval * 2 ** min(strikes - 1, 40), self.interval_max)
        else:
            interval = self.interval
        return interval * (1 - self.jitter * chance)
