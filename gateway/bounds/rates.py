"""The rates of what many may do, each for itself."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

OWNERS_MAX = 10_000
"""Beyond this number the quietest owner is forgotten, and may begin anew."""


@dataclass(slots=True)
class OwnerRates:
    """A rate of each owner. What it did not use it may do at once, up to a number."""

    per_s: float
    at_once: int
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """What each may do at once, as of a time."""

    def take(self, owner: str, now_s: float) -> bool:
        """Whether the owner may do it now, which then counts."""
        left, at_s = self._left.get(owner, (float(self.at_once), now_s))
        left = min(float(self.at_once), left + (now_s - at_s) * self.per_s)
        may = left >= 1
        self._left[owner] = (left - 1 if may else left, now_s)
        self._left.move_to_end(owner)
        if len(self._left) > OWNERS_MAX:
            self._left.popitem(last=False)
        return may
