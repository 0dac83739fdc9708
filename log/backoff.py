"""Waiting before one tries again what failed for a moment."""

from __future__ import annotations

_MAX_S = 1.0


class Backoff:
    """How long to wait before one tries again, and then again."""

    def __init__(self, first_s: float) -> None:
        self._next_s = first_s

    def next_s(self) -> float:
        """Each is twice as long as the one before, up to a second."""
        now_s, self._next_s = self._next_s, min(2 * self._next_s, _MAX_S)
        return now_s
