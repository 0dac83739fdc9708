"""Waits in a thread without blocking Ctrl-C.

A signal that arrives in the moment before a thread blocks on a lock is noted and wakes nobody. Python acts on it when the thread next
runs. So a waiting thread wakes now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_UP_S = 0.25


def patiently(wait: Callable[[float], T], timeout_s: float | None = None) -> T:
    """What ``wait`` returns. ``wait`` is called with the time it may take, and raises `TimeoutError` after it. All calls together take
    at most ``timeout_s``.
    """
    left_s = math.inf if timeout_s is None else timeout_s
    while True:
        step_s = min(left_s, LOOK_UP_S)
        try:
            return wait(step_s)
        except TimeoutError:
            left_s -= step_s
            if left_s <= 0:
                raise
