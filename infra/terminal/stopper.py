"""A signal's way to a command's event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Stopper:
    """Sets an event of another thread's loop, even before there is one."""

    def __init__(self) -> None:
        self._set: Callable[[], object] | None = None
        self._stopped = False

    def attach(self) -> asyncio.Event:
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        self._set = lambda: loop.call_soon_threadsafe(event.set)
        if self._stopped:
            event.set()
        return event

    def stop(self) -> None:
        self._stopped = True
        if self._set is not None:
            self._set()
