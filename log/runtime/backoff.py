"""Waits before a retry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ..errors import StoreUnavailable
from .runtime import Clock

T = TypeVar("T")

_FIRST_S = 0.1
_MAX_S = 1.0


class Backoff:
    """The waits between tries of one operation."""

    def __init__(self, first_s: float) -> None:
        self._next_s = first_s

    def next_s(self) -> float:
        """Twice the wait before, up to a second."""
        now_s, self._next_s = self._next_s, min(2 * self._next_s, _MAX_S)
        return now_s


async def until_answered(work: Callable[[], Awaitable[T]], clock: Clock, *, timeout_s: float) -> T:
    """The result of ``work``, repeated while the store does not answer."""
    backoff, end_s = Backoff(_FIRST_S), clock.monotonic_s() + timeout_s
    while True:
        try:
            return await work()
        except StoreUnavailable:
            if clock.monotonic_s() >= end_s:
                raise
        await asyncio.sleep(backoff.next_s())


async def wait_for(seconds: float | None, *events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 may lose a cancellation
            await stop.wait()
