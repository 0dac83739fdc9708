"""Memory that a burst of changes took, and that neither Java nor an allocator gives back by itself, is given back when the burst is over."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pyarrow as pa

QUIET_S = 5.0
"""How long nothing comes before a burst is over."""
EVENTS_MIN = 10_000
"""A burst is of so many changes: giving memory back takes a few tenths of a second."""


class BurstDetector:
    """Tells when a burst is over; pure. What went before, such as reading tables' rows, counts as one."""

    def __init__(self, now_s: float) -> None:
        self._events = 0
        self._since_s = now_s
        self._rested_at = -EVENTS_MIN

    def is_over(self, events: int, now_s: float) -> bool:
        """Whether one is over now; true once for each. ``events``: how many have come so far."""
        if events != self._events:
            self._events, self._since_s = events, now_s
        if events - self._rested_at < EVENTS_MIN or now_s - self._since_s < QUIET_S:
            return False
        self._rested_at = events
        return True


def give_back(jpype: Any) -> None:  # noqa: ANN401 - a module
    """Give back to the system what Java's heap, PyArrow and the C library hold and do not use."""
    jpype.JClass("java.lang.System").gc()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # musl has none
        trim(0)
