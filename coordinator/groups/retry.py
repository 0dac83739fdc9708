"""The schedules of retries of failed messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal, TypeAlias

from ...log.errors import InvalidArgument
from ...log.limits import ChoiceField, DurationField, field_default, named, set_durations

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
ROCKETMQ_INTERVALS = (
    *(seconds * _SECOND for seconds in (10, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)
"""RocketMQ's 16 intervals. Later ones are two hours each."""
INTERVAL_MAX = timedelta(days=7)


class RetrySchedule(StrEnum):
    """The intervals of a `RetryPolicy`."""

    FIXED = "fixed"
    """Always ``interval``."""
    ROCKETMQ = "rocketmq"
    """`ROCKETMQ_INTERVALS`."""
    EXPONENTIAL = "exponential"
    """``interval``, twice that, and so on up to ``interval_max``."""


RetryScheduleLike: TypeAlias = "RetrySchedule | Literal['fixed', 'rocketmq', 'exponential']"
"""A schedule as callers may give it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """The time between a failed attempt and the next. Raises `InvalidArgument` for invalid settings."""

    schedule: ChoiceField[RetrySchedule, RetryScheduleLike] = field_default(RetrySchedule.FIXED)
    interval: DurationField = field_default(_SECOND)
    """FIXED: each interval. EXPONENTIAL: the first."""
    interval_max: DurationField = field_default(timedelta(hours=2))
    """EXPONENTIAL: the longest."""
    jitter: float = 0.0
    """The random part of an interval, from 0 to 1."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "schedule", named(RetrySchedule, self.schedule))
        except ValueError as error:
            raise InvalidArgument("no such retry schedule", expected=", ".join(RetrySchedule), observed=self.schedule) from error
        set_durations(self, "interval", "interval_max", most=INTERVAL_MAX, operation="retry policy")
        jitter: object = self.jitter
        if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidArgument("jitter must be a number from 0 to 1", observed=jitter)

    def delay(self, strikes: int, chance: float) -> timedelta:
        """The wait after the ``strikes``-th failure (from 1); ``chance`` is a random number from 0 to 1."""
        if self.schedule is RetrySchedule.ROCKETMQ:
            interval = ROCKETMQ_INTERVALS[min(strikes, len(ROCKETMQ_INTERVALS)) - 1]
        elif self.schedule is RetrySchedule.EXPONENTIAL:
            interval = min(self.interval * 2 ** min(strikes - 1, 40), self.interval_max)
        else:
            interval = self.interval
        return interval * (1 - self.jitter * chance)
