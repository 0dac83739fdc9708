"""What calls wait for that are woken together: cheaper than an `asyncio.Event`, for which each of them would need a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence


class Signal:
    """It is given again and again. Who has seen how often it was given so far is woken by the next time."""

    def __init__(self) -> None:
        self.given = 0
        """How often."""
        self._waiting: set[asyncio.Future[None]] = set()

    def give(self) -> None:
        self.given += 1
        for one in self._waiting:
            _wake(one)

    def add(self, waiting: asyncio.Future[None]) -> None:
        self._waiting.add(waiting)

    def remove(self, waiting: asyncio.Future[None]) -> None:
        self._waiting.discard(waiting)


async def wait_any(seen: Sequence[tuple[Signal, int]], timeout_s: float) -> bool:
    """Return when one of the signals was given more often than was seen, or after the time: whether one was."""
    if any(signal.given != count for signal, count in seen):
        return True
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(timeout_s, _wake, waiting)
    for signal, _ in seen:
        signal.add(waiting)
    try:
        await waiting
    finally:
        timer.cancel()
        for signal, _ in seen:
            signal.remove(waiting)
    return any(signal.given != count for signal, count in seen)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
