"""A clock that is moved by hand."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from penstock.log import InvalidArgument, SystemClock
from penstock.log.limits import Duration, checked_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class HandClock:
    """A `penstock.log.Clock` that a test moves ahead with `advance`. Nothing expires by that alone: a topic's maintenance removes messages.

    Between two calls it goes on as real time does, since lingering and time-outs wait for real events. Use it as ``Runtime(clock=clock)``, or with
    `penstock.testing.memory_lake`, whose store has the same time.
    """

    def __init__(self, start: datetime | None = None) -> None:
        """``start`` must have a zone (default: the present)."""
        self._system = SystemClock()
        self._lock = threading.Lock()
        self._started_s = self._system.monotonic_s()
        if start is None:
            self._start_ms = self._system.wall_ms()
        elif start.tzinfo is None:
            raise InvalidArgument("a time must have a zone", operation="HandClock", observed=start.isoformat())
        else:
            self._start_ms = (start - _EPOCH) // _MILLISECOND
        self._advanced = timedelta(0)

    def now(self) -> datetime:
        """The time, in UTC."""
        return _EPOCH + self.wall_ms() * _MILLISECOND

    def advance(self, duration: Duration) -> None:
        """Let a `timedelta` or a number of seconds pass at once. Raises `InvalidArgument` for a negative one."""
        passed = checked_duration("duration", duration, most=timedelta.max, operation="advance")
        with self._lock:
            self._advanced += passed

    def wall_ms(self) -> int:
        return self._start_ms + int((self.monotonic_s() - self._started_s) * 1000)

    def monotonic_s(self) -> float:
        return self._system.monotonic_s() + self._advanced.total_seconds()
