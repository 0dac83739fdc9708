"""The bridge from synchronous callers to asynchronous code: one event-loop thread per process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from .errors import ForkedError, InvalidArgument

T = TypeVar("T")


class Portal:
    """An event loop in a daemon thread, started by the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work()`` on the loop and wait for it; Ctrl-C cancels it there.

        Raises `ForkedError` in a child of the process that made this portal, and `InvalidArgument` on the loop's own thread.
        """
        if os.getpid() != self._pid:
            raise ForkedError("the process was forked after the lake was opened", hint="connect again in the child")
        loop = self._started()
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is loop:
            raise InvalidArgument(
                "a blocking call on Penstock's own event loop would wait for itself", hint="use penstock.aio there"
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._serve, args=(self._loop,), name="penstock", daemon=True).start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def stop(self) -> None:
        """End the thread; the portal can be used again."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
