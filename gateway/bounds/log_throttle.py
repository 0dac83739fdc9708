"""Log lines that callers can cause at will: of each cause one in a while."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

AGAIN_S: Final = 10.0
_CAUSES_MAX: Final = 1_000
"""The oldest cause beyond is forgotten, and logged again."""


class LogThrottle:
    """Decides whether a cause is to be logged."""

    def __init__(self, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._told: OrderedDict[str, float] = OrderedDict()

    def is_due(self, cause: str, now_s: float) -> bool:
        """Whether a line is due, which then counts as logged."""
        if now_s - self._told.get(cause, float("-inf")) < self._again_s:
            return False
        self._told[cause] = now_s
        self._told.move_to_end(cause)
        if len(self._told) > _CAUSES_MAX:
            self._told.popitem(last=False)
        return True
