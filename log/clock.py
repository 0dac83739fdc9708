"""Time as the store has it: what producers stamp entries with, whatever this machine's clock does meanwhile."""

from __future__ import annotations

from .errors import ClockSkewError
from .limits import CLOCK_SKEW_MAX_MS
from .runtime import Clock
from .stores.protocol import ObjectStore

_NOISE_MS = 2_000
"""What a store's answer may be off by; S3 cuts its times to the second."""


class StoreClock:
    """A `Clock` whose wall time follows the store's: set by `sync`, and carried on by the monotonic clock, which never steps.

    Until the first `sync` it is this machine's.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self.monotonic_s = machine.monotonic_s
        """The machine's, without a step between: every ``send`` reads it."""
        self._base: tuple[int, float] | None = None

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, by the store's clock as far as it is known."""
        if self._base is None:
            return self._machine.wall_ms()
        base_ms, base_s = self._base
        return base_ms + int((self._machine.monotonic_s() - base_s) * 1000)

    async def sync(self, store: ObjectStore) -> None:
        """Ask the store. Raises `ClockSkewError` when this machine's clock is more than five minutes off."""
        before_ms = self._machine.wall_ms()
        store_ms = await store.clock_ms()
        after_s, after_ms = self._machine.monotonic_s(), self._machine.wall_ms()
        offset_ms = store_ms - (before_ms + after_ms) // 2
        if abs(offset_ms) > CLOCK_SKEW_MAX_MS:
            raise ClockSkewError(
                "this machine's clock is too far from the store's",
                operation="open for writing",
                object=store.url,
                expected=f"within {CLOCK_SKEW_MAX_MS // 60_000} minutes",
                observed=f"{-offset_ms / 60_000:+.1f} minutes",
                hint="set the clock (NTP); reading works meanwhile",
            )
        self._base = (after_ms + (offset_ms if abs(offset_ms) > _NOISE_MS else 0), after_s)
