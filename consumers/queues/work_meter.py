"""Measures what a PushConsumer tells of its work with each heartbeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import quantiles

from ...coordinator.rebalance.balance import Queue
from ...coordinator.workers.lease import MemberWork
from ...log.runtime.runtime import Clock

_HANDLERS = 512
_OF_ONE_RUN = 32
"""The handlers of one run that are noted, as its last ones."""
_WRITES = 16
_RATE_S = 1.0
"""The least time over which a rate is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkNow:
    """What a consumer does at this moment."""

    busy: int
    held: int
    """Messages in memory that are not done."""
    done: int
    """Messages of the runs under way that are done."""
    times_s: tuple[float, ...]
    """The times of the last handlers in the runs under way, and of running ones so far."""
    next_offsets: Mapping[Queue, int]
    full: bool
    paused: bool


class WorkMeter:
    """The work of one consumer."""

    def __init__(self, clock: Clock, *, threads: int) -> None:
        self._clock = clock
        self._threads = threads
        self._handlers_s: deque[float] = deque(maxlen=_HANDLERS)
        self._writes_s: deque[float] = deque(maxlen=_WRITES)
        self._done = self._told = 0
        self._since_s = clock.monotonic_s()
        self._ends: Mapping[Queue, int] = {}
        self._rates = 0.0, 0.0

    def handled(self, times_s: Iterable[float], done: int) -> None:
        """Note the times of a run's last handlers, and its messages that are done."""
        self._handlers_s.extend(list(times_s)[-_OF_ONE_RUN:])
        self._done += done

    def wrote(self, took_s: float) -> None:
        self._writes_s.append(took_s)

    def told(self, number: int, now: WorkNow) -> MemberWork:
        times_ms = sorted(1000 * one for one in (*self._handlers_s, *now.times_s))
        p50_ms, p95_ms = _quantiles(times_ms)
        came, done = self._measured(now)
        return MemberWork(
            number=number,
            threads=self._threads,
            busy=min(now.busy, self._threads),
            fetched=max(0, now.held - now.busy),
            in_per_s=round(came, 3),
            out_per_s=round(done, 3),
            p50_ms=round(p50_ms, 3),
            p95_ms=round(p95_ms, 3),
            write_ms=round(1000 * sorted(self._writes_s)[len(self._writes_s) // 2], 3) if self._writes_s else 0.0,
            full=now.full,
            paused=now.paused,
        )

    def _measured(self, now: WorkNow) -> tuple[float, float]:
        now_s = self._clock.monotonic_s()
        if (took_s := now_s - self._since_s) >= _RATE_S:
            came = sum(max(0, end - self._ends[queue]) for queue, end in now.next_offsets.items() if queue in self._ends)
            done = self._done + now.done
            self._rates = came / took_s, max(0, done - self._told) / took_s
            self._since_s, self._told, self._ends = now_s, done, dict(now.next_offsets)
        return self._rates


def _quantiles(ascending: list[float]) -> tuple[float, float]:
    if len(ascending) < 2:
        return (ascending[0], ascending[0]) if ascending else (0.0, 0.0)
    cuts = quantiles(ascending, n=20, method="inclusive")
    return cuts[9], cuts[18]
