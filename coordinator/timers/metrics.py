"""The metrics of delayed messages, by topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...log.metrics import Sample, gauge, watched
from .player import TimerStatistics

TIMING_MESSAGES = gauge(
    "rocketmq_timing_messages", "Delayed messages that wait for their time", "{message}", labels=("topic",), largest=True
)
TIMERS_LATE = gauge(
    "penstock_timers_late", "How late a delayed message of the last ones came, at the most", "ms", labels=("topic",), largest=True
)
TIMERS_FIRED = watched("penstock_timers_fired_total", "Delayed messages that came into their topic", "{message}", labels=("topic",))
TIMER_CLAIMS = watched(
    "penstock_timer_claims_total", "Steps that let delayed messages go, each a write of a cell", labels=("topic",)
)

CATALOGUE = (
    TIMING_MESSAGES,
    TIMERS_LATE,
    TIMERS_FIRED,
    TIMER_CLAIMS,
)


def timer_samples(timers: Mapping[str, TimerStatistics]) -> Iterator[Sample]:
    """The metrics of the topics whose delayed messages this process delivers."""
    for topic, statistics in timers.items():
        yield Sample(TIMING_MESSAGES, (topic,), statistics.waiting)
        yield Sample(TIMERS_LATE, (topic,), statistics.late_ms)
        yield Sample(TIMERS_FIRED, (topic,), statistics.fired)
        yield Sample(TIMER_CLAIMS, (topic,), statistics.claims)
