"""Bridges synchronous callers to asynchronous code: one event-loop thread per lake, and waiting without blocking Ctrl-C."""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TypeVar

from ..errors import ClosedError, ForkedError, InvalidArgument, PenstockError, RetryError

T = TypeVar("T")

LOOK_UP_S = 0.25
"""The time after which a waiting thread wakes: a signal just before it blocks on a lock wakes no thread."""


class Portal:
    """An event loop in a thread of its own, from the first call to `stop` or the interpreter's exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._halt = asyncio.Event()
        self._stopped = False
        self._pid = os.getpid()

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def forked(self) -> bool:
        return os.getpid() != self._pid

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work()`` on the loop and wait for it. Ctrl-C cancels it there, and is raised once it has ended.

        Raises `ForkedError` in a child process, `ClosedError` after `stop`, also for waiting calls, `InvalidArgument` on the loop's
        own thread, and `RetryError` when no thread or loop can be started.
        """
        if self.forked:
            raise ForkedError("the process was forked after the lake was opened", hint="connect again in the child")
        finished: Future[asyncio.Task[T]] = Future()
        tasks: list[asyncio.Task[T]] = []

        async def call() -> T:
            return await work()

        def start() -> None:
            tasks.append(asyncio.get_running_loop().create_task(call()))
            tasks[0].add_done_callback(finished.set_result)

        try:
            self._submit(start)
            task = patiently(finished.result)
        except PenstockError:
            raise  # of the submission: nothing was handed over
        except BaseException:
            # The signal may have come while the work was handed over.
            self._withdraw(tasks, finished)
            raise
        if task.cancelled() and self._stopped:
            raise ClosedError("the lake was closed meanwhile")
        return task.result()

    def stop(self) -> None:
        if self.forked:
            return  # neither the thread nor the holder of the lock exists here
        with self._lock:
            self._stopped = True
            loop, self._loop = self._loop, None
            if loop is None:
                return
            loop.call_soon_threadsafe(self._halt.set)
        atexit.unregister(self.stop)
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(LOOK_UP_S)

    def _submit(self, start: Callable[[], object]) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._stopped:
                raise ClosedError("the lake is closed", hint="open it anew: penstock.connect(…)")
            if self._loop is None:
                self._loop = self._start()
            elif self._thread is threading.current_thread():
                raise InvalidArgument(
                    "a blocking call on Penstock's own event loop would wait for itself", hint="use penstock.aio there"
                )
            self._loop.call_soon_threadsafe(start)
            return self._loop

    def _withdraw(self, tasks: list[asyncio.Task[T]], finished: Future[asyncio.Task[T]]) -> None:
        """Cancel work that `_submit` may have handed over, and wait for its end."""
        loop = self._loop

        def cancel() -> None:
            # The loop's callbacks run in order: what was handed over has begun by now.
            for task in tasks:
                task.cancel()
            if not tasks:
                finished.cancel()

        def ended(wait_s: float) -> None:
            try:
                finished.result(wait_s)
            except TimeoutError:
                if loop is not None and not loop.is_closed():
                    raise

        if loop is not None:
            loop.call_soon_threadsafe(cancel)
        if loop is not None or tasks:
            with suppress(CancelledError):
                patiently(ended)

    def _start(self) -> asyncio.AbstractEventLoop:
        running: Future[asyncio.AbstractEventLoop] = Future()

        async def serve() -> None:
            running.set_result(asyncio.get_running_loop())
            await self._halt.wait()

        def run() -> None:
            serving = serve()
            try:
                asyncio.run(serving)
            except BaseException as error:
                serving.close()
                if running.done():
                    if isinstance(error, RuntimeError) and not threading.main_thread().is_alive():
                        return  # from Python 3.12 on no thread can be started then, and one would wait for those of the loop
                    raise
                running.set_exception(error)  # nothing runs yet, and somebody waits for it

        try:
            self._thread = threading.Thread(target=run, name="penstock", daemon=True)
            self._thread.start()
            loop = running.result()
        except Exception as error:
            raise RetryError(
                "the event-loop thread could not be started",
                operation="connect",
                observed=repr(error),
                hint="the process may be out of threads or open files; the next call tries again",
            ) from error
        # An object left open at the end must not wait for a thread that the interpreter has frozen.
        atexit.register(self.stop)
        return loop


def patiently(wait: Callable[[float], T], timeout_s: float | None = None) -> T:
    """The result of ``wait``, which gets its time and raises `TimeoutError` after it. All calls take at most ``timeout_s``."""
    left_s = math.inf if timeout_s is None else timeout_s
    while True:
        step_s = min(left_s, LOOK_UP_S)
        try:
            return wait(step_s)
        except TimeoutError:
            left_s -= step_s
            if left_s <= 0:
                raise
