"""Notices that this gateway was stopped: it heard none of its groups' members meanwhile."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from ....log.runtime.runtime import Clock

_TICK_S: Final = 1.0
LATE_S: Final = 1.0
"""A process that does nothing for so long beside its sleep was stopped. Members outlast what is shorter."""


class Stops:
    """Counts the stops of this process. A timer that is late by little may be the first to run after a long one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awake_s = math.inf
        self._count = 0

    async def watch(self) -> None:
        """Look each second, until it is cancelled. What was before it is no stop."""
        self._awake_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(_TICK_S)
            self.count()

    def count(self) -> int:
        """The number of stops so far, with one that has just ended."""
        now_s = self._clock.monotonic_s()
        if now_s - self._awake_s > _TICK_S + LATE_S:
            self._count += 1
        self._awake_s = max(now_s, self._awake_s)
        return self._count
