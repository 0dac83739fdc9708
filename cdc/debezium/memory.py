"""The release of a burst's memory, which neither Java nor an allocator gives back by itself."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pyarrow as pa

QUIET_S = 5.0
"""The silence after which a burst is over."""
EVENTS_MIN = 10_000
"""The least changes of a burst: giving memory back takes a few tenths of a second."""


class BurstDetector:
    """Finds the end of a burst; pure. Earlier work, such as reading tables' rows, counts as one."""

    def __init__(self, now_s: float) -> None:
        self._events = 0
        self._since_s = now_s
        self._rested_at = -EVENTS_MIN

    def is_over(self, events: int, now_s: float) -> bool:
        """Whether one is over now; true once for each. ``events``: so far."""
        if events != self._events:
            self._events, self._since_s = events, now_s
        if events - self._rested_at < EVENTS_MIN or now_s - self._since_s < QUIET_S:
            return False
        self._rested_at = events
        return True


def give_back(jpype: Any) -> None:  # noqa: ANN401 - a module
    jpype.JClass("java.lang.System").gc()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # musl has none
        trim(0)
