"""The store's clock, by which entries are stamped and retries are due."""

from __future__ import annotations

import logging

from .errors import ClockSkewError, StoreUnavailable
from .limits import CLOCK_SKEW_MAX_MS
from .runtime.runtime import Clock
from .stores.protocol import ObjectStore

log = logging.getLogger("penstock.log")

_NOISE_MS = 2_000
"""The error of a store's answer; S3 cuts its times to the second."""
_ANSWER_MAX_S = 30.0
"""The longest request for the time; half of it bounds the error."""
_MINUTE_MS = 60_000

_Base = tuple[int, float]
"""A wall time, and its monotonic time."""


class StoreClock:
    """A `Clock` whose wall time follows the store's: set by `sync`, carried on by the monotonic clock; this machine's before the first `sync` or
    `hold`.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self.monotonic_s = machine.monotonic_s
        self._base: _Base | None = None
        self._seen: tuple[_Base, int] | None = None
        self.synced = False
        self.agreed = False
        """Whether this machine's clock was ever within five minutes of the store's. From then on time does not depend on it."""

    def wall_ms(self) -> int:
        machine_ms, base = self._machine.wall_ms(), self._base
        if base is None:
            return machine_ms
        now_ms = base[0] + int((self.monotonic_s() - base[1]) * 1000)  # written out: it is asked several times a message
        seen, self._seen = self._seen, (base, machine_ms - now_ms)
        if seen is not None and seen[0] is base and not -_NOISE_MS <= machine_ms - now_ms - seen[1] <= _NOISE_MS:
            log.warning(
                "this machine's clock was set %s; due times and store timestamps do not follow: nothing is early or late for it",
                _by(machine_ms - now_ms - seen[1]),
            )
        return now_ms

    def _carried_ms(self, base: _Base) -> int:
        base_ms, base_s = base
        return base_ms + int((self._machine.monotonic_s() - base_s) * 1000)

    def hold(self) -> None:
        if self._base is None:
            base = (self._machine.wall_ms(), self._machine.monotonic_s())
            self._seen, self._base = (base, 0), base

    async def sync(self, store: ObjectStore) -> int:
        """Follow the store's clock. Returns the milliseconds by which this machine's clock is ahead.

        Raises `StoreUnavailable` for an answer that took too long: the process may have stood still for hours.
        """
        before_s = self._machine.monotonic_s()
        store_ms = await store.clock_ms()
        after_s, after_ms = self._machine.monotonic_s(), self._machine.wall_ms()
        if after_s - before_s > _ANSWER_MAX_S:
            raise StoreUnavailable(
                "the store's answer came too late to tell the time by it",
                operation="clock",
                object=store.url,
                expected=f"within {_ANSWER_MAX_S:g} s",
                observed=f"{after_s - before_s:.1f} s",
            )
        middle_ms = after_ms - int((after_s - before_s) * 500)  # so that a step of the clock meanwhile does not count
        ahead_ms = middle_ms - store_ms
        if abs(ahead_ms) <= _NOISE_MS:
            ahead_ms = 0
        base = (after_ms - ahead_ms, after_s)
        if self.synced and self._base is not None and abs(moved_ms := base[0] - self._carried_ms(self._base)) > _NOISE_MS:
            log.warning("the store's clock was set %s as this process measures time; due times follow it", _by(moved_ms))
        self._seen, self._base, self.synced = (base, ahead_ms), base, True
        self.agreed |= abs(ahead_ms) <= CLOCK_SKEW_MAX_MS
        return ahead_ms


def _by(step_ms: int) -> str:
    return f"{'ahead' if step_ms > 0 else 'back'} by {abs(step_ms) / 1000:.1f} s"


def too_far(ahead_ms: int, store: ObjectStore, operation: str = "open for writing") -> ClockSkewError:
    return ClockSkewError(
        "this machine's clock is too far from the store's",
        operation=operation,
        object=store.url,
        expected=f"within {CLOCK_SKEW_MAX_MS // _MINUTE_MS} minutes",
        observed=f"{ahead_ms / _MINUTE_MS:+.1f} minutes",
        hint="set the clock (NTP); reading works meanwhile",
    )
