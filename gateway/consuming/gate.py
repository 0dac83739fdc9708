"""Lets acknowledgements go together that come shortly after one another: those of one queue are then one write of its cell."""

from __future__ import annotations

import asyncio
from typing import Final

from ...log.runtime.runtime import Clock

WAIT_EACH_S: Final = 0.0005
"""The time that is worth waiting for each acknowledgement that went together the last time."""
WAIT_MAX_S: Final = 0.01


class Gate:
    """Opens at once for who comes alone, and for many at most each `WAIT_MAX_S`.

    The more went together the last time, the longer the next ones wait for one another. So a client that acknowledges one message after the
    other does not wait, and many clients cost few writes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened_s = float("-inf")
        self._together = 0
        """How many went together when it opened last."""
        self._waiting = 0
        self._opening: asyncio.Task[None] | None = None

    async def through(self) -> None:
        """Return when the caller's turn is."""
        if self._opening is None:
            wait_s = self._opened_s + min(WAIT_MAX_S, self._together * WAIT_EACH_S) - self._clock.monotonic_s()
            if wait_s <= 0:
                self._opened_s, self._together = self._clock.monotonic_s(), 1
                return
            self._opening = asyncio.ensure_future(self._open(wait_s))
        self._waiting += 1
        await asyncio.shield(self._opening)

    async def _open(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        self._opened_s, self._together = self._clock.monotonic_s(), self._waiting
        self._waiting, self._opening = 0, None
