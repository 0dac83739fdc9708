"""The threads of one table, for blocking clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...log.errors import ClosedError, ForkedError
from ...log.runtime.runtime import closed_with_process, run_in_pool

T = TypeVar("T")

_HINT = "Close it, or use it in a with block"


class TableThreads:
    """Runs blocking calls off the event loop, at most ``threads`` at once."""

    def __init__(self, name: str, threads: int, *, url: str) -> None:
        self._url = url
        self._pid = os.getpid()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._closed = False

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that has the threads."""
        return os.getpid() != self._pid

    async def run(self, work: Callable[[], T]) -> T:
        """Raises `ClosedError` after `close`, and `ForkedError` in a forked child. A cancelled call leaves ``work`` running."""
        self.check()
        return await run_in_pool(self._pool, work, object=self._url, hint=_HINT)

    def begin(self, work: Callable[[], None]) -> None:
        """Begin work that tells its end by itself. Raises as `run`."""
        self.check()
        try:
            self._pool.submit(work)
        except RuntimeError:
            with closed_with_process(object=self._url, hint=_HINT):
                raise

    def check(self) -> None:
        """Raise as `run` does."""
        if self.forked:
            raise ForkedError(
                "the table was opened before this process was forked", object=self._url, hint="Open the lake in the child"
            )
        if self._closed:
            raise ClosedError("the table is closed", object=self._url)

    async def close(self, last: Callable[[], None]) -> None:
        """Let running work end, then run ``last``."""
        if self._closed or self.forked:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._pool.shutdown)
        await loop.run_in_executor(None, last)
