"""What a long run says of itself while it goes on."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

EVERY_S = 15.0
WINDOW_S = 120.0
"""Rates are of so long."""


@dataclass
class Progress:
    """A line now and then."""

    say: Callable[[str], None]
    wanted: int
    """Messages; 0: no number."""
    began_s: float
    until_s: float = math.inf
    _looks: deque[tuple[float, int]] = field(default_factory=deque)
    _said_s: float = -math.inf

    def look(self, now_s: float, stored: int, through: int, done: Mapping[str, int]) -> None:
        """So many messages are stored, and through both groups; a line if the last one was long ago."""
        self._looks.append((now_s, through))
        while now_s - self._looks[0][0] > WINDOW_S:
            self._looks.popleft()
        if now_s < self._said_s + EVERY_S:
            return
        self._said_s = now_s
        self.say(self._line(now_s, stored, through, done))

    def _line(self, now_s: float, stored: int, through: int, done: Mapping[str, int]) -> str:
        from_s, before = self._looks[0]
        rate = (through - before) / (now_s - from_s) if now_s > from_s else 0.0
        left_s = min((self.wanted - through) / rate if self.wanted and rate > 0 else math.inf, self.until_s - now_s)
        of = f" of {self.wanted:,}" if self.wanted else ""
        deeds = Counter(done)
        return (
            f"  {clock(now_s - self.began_s)}: {through:,}{of} messages through, {stored:,} stored, {rate:,.0f}/s; {deeds['kill']} kills, "
            f"{deeds['stop']} stops, {deeds.total()} deeds; {'no end in sight' if left_s == math.inf else f'about {clock(left_s)} left'}"
        )


Step: TypeAlias = Callable[..., None]
"""Told how many more are done, and what else is to be said."""


@dataclass
class Steps:
    """What the judge says while it works, which takes minutes after a long run: a line now and then, of whatever it is at."""

    say: Callable[[str], None]
    now_s: Callable[[], float]
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._said_s = self.now_s()

    def of(self, whole: int, what: str) -> Step:
        """A new step with so many."""
        began_s, done = self.now_s(), 0

        def told(more: int, beside: str = "") -> None:
            nonlocal done
            done += more
            now_s = self.now_s()
            if now_s < self._said_s + EVERY_S:
                return
            self._said_s = now_s
            left_s = (now_s - began_s) * (whole - done) / done if 0 < done < whole else math.inf
            left = "" if left_s == math.inf else f"; about {clock(left_s)} left of this"
            self.say(f"  {done:,} of {whole:,} {what}{beside and ', ' + beside}{left}")

        return told


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
