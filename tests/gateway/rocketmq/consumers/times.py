"""Time for tests of what consumers are given."""

from __future__ import annotations

from penstock.log import Clock


class Times(Clock):
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s
