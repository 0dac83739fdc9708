"""Turns of an event loop, and whose it is."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

_IDLE_TURNS: Final = 8
_TURNS_MAX: Final = 64


class Growing(Protocol):
    """A batch that others add to."""

    @property
    def count(self) -> int: ...


async def until_still(batch: Growing) -> None:
    """Let those join that are on their way through the event loop, as calls of a server are for several turns of it. Return after 8 turns without
    another, and after 64 at last.
    """
    count, idle = batch.count, 0
    for _ in range(_TURNS_MAX):
        await asyncio.sleep(0)
        idle = idle + 1 if batch.count == count else 0
        if idle == _IDLE_TURNS:
            return
        count = batch.count


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the calling thread is running this loop: then it needs no wake-up by its pipe, which takes two calls of the system."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
