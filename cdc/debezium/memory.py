"""The return of a burst's memory to the system, which neither Java nor an allocator does by itself."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pyarrow as pa

QUIET_S = 5.0
"""The silence that ends a burst."""
EVENTS_MIN = 10_000
"""The least changes of a burst: the return takes a few tenths of a second."""


class BurstDetector:
    """Finds the end of a burst; pure. Earlier work, such as a snapshot, counts as one."""

    def __init__(self, now_s: float) -> None:
        self._events = 0
        self._since_s = now_s
        self._rested_at = -EVENTS_MIN

    def is_over(self, events: int, now_s: float) -> bool:
        """Whether a burst has just ended, once for each. ``events``: so far."""
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
