"""Work that takes memory, a few at a time, and of one owner fewer than of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

EACH: Final = 2
ALL: Final = 8


@dataclass(slots=True)
class _Line:
    turns: asyncio.Semaphore
    waiting: int = 0


class FairSemaphore:
    """Lets owners work in turn."""

    def __init__(self, each: int = EACH, all: int = ALL) -> None:
        self._each = each
        self._all = asyncio.Semaphore(all)
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def of(self, owner: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(owner, _Line(asyncio.Semaphore(self._each)))
        line.waiting += 1
        try:
            async with line.turns, self._all:
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[owner]
