"""Estimates how often entries come. Correctness does not depend on the estimate."""

from __future__ import annotations

_INTERVAL_FIRST_MS = 1000.0
_VISIBLE_MS = 30
"""The time from composing an entry until others can read it."""
_SHARE = 0.25


class Rhythm:
    """The interval between the last entries, a geometric mean, which follows quickly when a silence ends."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._interval_ms = _INTERVAL_FIRST_MS

    def note(self, append_time_ms: int) -> None:
        if self._last_ms:
            self._interval_ms = self._interval_ms ** (1 - _SHARE) * max(1, append_time_ms - self._last_ms) ** _SHARE
        self._last_ms = max(self._last_ms, append_time_ms)

    def silent(self, now_ms: int) -> None:
        if self._last_ms:
            self._interval_ms = max(self._interval_ms, now_ms - self._last_ms)

    def expected(self, now_ms: int) -> int:
        """The entries due since the last one."""
        return int(max(0, now_ms - self._last_ms - _VISIBLE_MS) / self._interval_ms) if self._last_ms else 0

    def next_s(self, now_ms: int) -> float:
        """Seconds until the next entry is due; negative when late."""
        return (self._last_ms + self._interval_ms + _VISIBLE_MS - now_ms) / 1000
