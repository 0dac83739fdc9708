"""How long handlers take, of late."""

from __future__ import annotations

import math

_REMEMBERED = 1_000


class HandlerPace:
    """The mean time of some last messages."""

    def __init__(self) -> None:
        self._count = 0.0
        self._took_s = 0.0

    def note(self, count: int, took_s: float) -> None:
        """Handlers of so many messages took so long, one after the other."""
        if self._count > _REMEMBERED:
            self._count, self._took_s = self._count / 2, self._took_s / 2
        self._count += count
        self._took_s += took_s

    def expected_s(self, count: int) -> float:
        """The time of so many more; infinite while nothing is known."""
        return count * self._took_s / self._count if self._count else math.inf
