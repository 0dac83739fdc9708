"""Looks that viewers share, each kept for a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")

ENTRIES_MAX = 256


@dataclass(slots=True)
class _Kept:
    done: asyncio.Task[Any] | None = None
    done_s: float = 0.0
    """The beginning of the finished look."""
    running: asyncio.Task[Any] | None = None


class LookCache:
    """Results by key, at most ``entries`` of them: the least recently used go first. Callers wait for a look under way.

    A result is given for ``fresh_s`` seconds; for ``stale_s`` more it is given at once while the next look is made. An error is kept like a result.
    """

    def __init__(self, monotonic_s: Callable[[], float], *, entries: int = ENTRIES_MAX) -> None:
        self._now_s = monotonic_s
        self._entries = entries
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]], *, fresh_s: float, stale_s: float = 0.0) -> T:
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)
        age_s = self._now_s() - kept.done_s
        if kept.done is not None and age_s < fresh_s:
            return cast("T", await asyncio.shield(kept.done))
        if kept.running is None:
            kept.running = asyncio.ensure_future(self._made(kept, make, self._now_s()))
            kept.running.add_done_callback(_retrieved)
        if kept.done is not None and age_s < fresh_s + stale_s and kept.done.exception() is None:
            return cast("T", kept.done.result())
        return cast("T", await asyncio.shield(kept.running))

    async def _made(self, kept: _Kept, make: Callable[[], Awaitable[T]], began_s: float) -> T:
        this = asyncio.current_task()
        try:
            return await make()
        finally:
            if kept.running is this:
                kept.done, kept.done_s, kept.running = this, began_s, None

    def clear(self) -> None:
        """Forget all results. Looks under way go on."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's error, which may have no other reader."""
    if not task.cancelled():
        task.exception()
