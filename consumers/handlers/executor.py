"""Threads for ordinary listeners, tasks for coroutines. The lease is checked before every handler."""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from ...log.errors import RetryError
from ...log.message.message import MessageView
from ...log.runtime.runtime import Clock
from ..schedule.lanes import LaneRun
from .results import ConsumeResult, ListenerVerdict, MessagesDeclined, judge, raised

log = logging.getLogger("penstock.consumers")

_REPORT_S = 0.05
_LOOK_AGAIN_S = 0.02
"""The time after a move until idle threads are looked for, as a run may be at a slow message."""


class RunOwner(Protocol):
    """The owner of a run."""

    @property
    def until_s(self) -> float:
        """The time, by the monotonic clock, until which handlers may be started. Called in the handler's thread. It moves back only with a
        cancellation of runs.
        """
        ...

    def moved(self, *runs: LaneRun) -> None:
        """Called on the event loop, with all that ended or got on since the last call."""
        ...


class Executor(Protocol):
    """Runs runs."""

    def start(self, owner: RunOwner, runs: Iterable[LaneRun]) -> None:
        """Call this on the event loop only."""
        ...

    def gave_up(self, run: LaneRun) -> None:
        """Another handler may take the place of the run's at once."""
        ...

    async def close(self) -> None:
        """Start nothing more. Waits for no handler."""
        ...

    def runs_here(self) -> bool:
        """Whether the caller runs inside a handler."""
        ...

    @property
    def hung(self) -> int:
        """The given-up handlers that still run."""
        ...

    @property
    def is_idle(self) -> bool: ...

    @property
    def busy(self) -> int:
        """The handlers that run and count, and so take a place."""
        ...


class ThreadExecutor:
    """Runs a listener in threads of its own; a given-up handler's thread is replaced."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        *,
        batches: bool,
        threads: int,
        clock: Clock,
        name: str,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._call = call
        self._idle = idle
        self._batches = batches
        self._clock = clock
        self._name = name
        self._ready: deque[tuple[RunOwner, LaneRun]] = deque()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One entry for each thread to be woken."""
        self._called = False
        """Whether a thread is on its way to what is ready."""
        self._closed = False
        self._outbox: deque[tuple[RunOwner, LaneRun, bool]] = deque()
        self._delivery_due = False
        self._looks_again = False
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._hung: dict[LaneRun, None] = {}
        self._idents: set[int] = set()
        self._at_work: set[int] = set()
        self._vacant: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One entry for each thread that could not be replaced."""
        try:
            for _ in range(threads):
                self._add_thread()
        except RuntimeError as error:
            self._end_threads()
            raise RetryError(
                "not all of the threads for handlers could be started",
                operation="consume",
                object=name,
                expected=f"{threads:,} threads",
                observed=f"{self._count:,}, then: {error}",
                hint="ask for fewer, or allow the process more",
            ) from error

    @property
    def hung(self) -> int:
        return len(self._hung)

    @property
    def is_idle(self) -> bool:
        return not self._ready and len(self._at_work) < len(self._idents)

    @property
    def busy(self) -> int:
        return max(0, len(self._at_work) - len(self._hung))

    def start(self, owner: RunOwner, runs: Iterable[LaneRun]) -> None:
        self._ready.extend([(owner, run) for run in runs])
        self._wake_one()
        self._look_later()

    def gave_up(self, run: LaneRun) -> None:
        self._hung[run] = None
        try:
            self._add_thread()
        except RuntimeError as error:
            self._vacant.put(None)
            log.warning("%s: no thread can be started in place of one that hangs, there is one less: %s", self._name, error)

    async def close(self) -> None:
        self._end_threads()

    def runs_here(self) -> bool:
        return threading.get_ident() in self._idents

    def _end_threads(self) -> None:
        """Let threads end when nothing is ready any more."""
        self._closed = True
        for _ in range(self._count):
            self._calls.put(None)

    def _wake_one(self) -> None:
        """Wake one thread for what is ready, unless one is on its way. It wakes the next before its own handler: to wake a thread costs more than
        many a handler, and quick ones need few.
        """
        if self._ready and not self._called:
            self._called = True
            self._calls.put(None)

    def _next(self) -> tuple[RunOwner, LaneRun] | None:
        """What a thread runs next, once there is something; None: nothing any more."""
        while True:
            try:
                item = self._ready.popleft()
            except IndexError:
                if self._closed:
                    return None
                self._calls.get()
                self._called = False  # before it looks again: whoever comes too late to be seen calls anew
                continue
            self._wake_one()
            return item

    def _add_thread(self) -> None:
        threading.Thread(target=self._work, name=f"{self._name}-{self._count + 1}", daemon=True).start()
        self._count += 1

    def _work(self) -> None:
        self._idents.add(threading.get_ident())
        try:
            self._run_all()
        finally:
            self._idents.discard(threading.get_ident())

    def _run_all(self) -> None:
        ident = threading.get_ident()
        while (item := self._next()) is not None:
            owner, run = item
            if not run.claim():
                continue  # it was taken back
            self._at_work.add(ident)
            if self._batches:
                self._run_batches(owner, run)
            else:
                self._run_one_by_one(owner, run)
            since_s, run.since_s = run.since_s, None
            self._at_work.discard(ident)
            self._tell(owner, run, last=True)
            if run.timed_out_at is not None and since_s is not None and self._is_replaced():
                return

    def _is_replaced(self) -> bool:
        try:
            self._vacant.get_nowait()
        except queue.Empty:
            return True
        return False

    def _run_one_by_one(self, owner: RunOwner, run: LaneRun) -> None:
        call, now, until_s = self._call, self._clock.monotonic_s, owner.until_s
        run.took_s = took_s = array("d")
        run.left = left = deque[MessageView | list[MessageView]](run.messages)
        reported_s: float | None = None
        run.began_s = ended_s = now()
        while left:
            since_s = ended_s
            if run.cancelled or since_s >= until_s:
                until_s = owner.until_s
                if run.cancelled or since_s >= until_s:
                    return
            try:
                message = left.popleft()
            except IndexError:
                return  # it was taken back
            run.since_s = since_s
            try:
                result = call(message)
                failure = None if result is ConsumeResult.SUCCESS else judge(result, 1).failure
            except MessagesDeclined:
                return
            except BaseException as error:  # noqa: BLE001 - whatever a listener raises is its failure, and the thread is ours
                failure = raised(error, 1).failure
            ended_s = now()
            took_s.append(ended_s - since_s)
            if run.timed_out_at is not None:
                return
            if failure is not None:
                run.failure = failure
                return
            run.done += 1
            if reported_s is None:
                reported_s = since_s
            if ended_s - reported_s > _REPORT_S:
                reported_s = ended_s
                self._tell(owner, run)

    def _run_batches(self, owner: RunOwner, run: LaneRun) -> None:
        run.took_s = took_s = array("d")
        left, reported_s = run.begin_lists(), self._clock.monotonic_s()
        run.began_s = reported_s
        while left:
            since_s = self._clock.monotonic_s()
            if run.cancelled or since_s >= owner.until_s:
                return
            try:
                messages = left.popleft()
            except IndexError:
                return  # it was taken back
            run.since_s = since_s
            try:
                verdict = judge(self._call(messages), len(messages))
            except MessagesDeclined:
                return
            except BaseException as error:  # noqa: BLE001 - whatever a listener raises is its failure, and the thread is ours
                verdict = raised(error, len(messages))
            ended_s = self._clock.monotonic_s()
            took_s.append(ended_s - since_s)
            if not apply(run, verdict):
                return
            if left and ended_s - reported_s > _REPORT_S:
                reported_s = ended_s
                self._tell(owner, run)

    def _tell(self, owner: RunOwner, run: LaneRun, *, last: bool = False) -> None:
        self._outbox.append((owner, run, last))
        if not self._delivery_due:
            self._delivery_due = True
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._delivery_due = False
        told: dict[RunOwner, dict[LaneRun, None]] = {}  # each owner hears of all its runs at once, and of each once
        while self._outbox:
            owner, run, last = self._outbox.popleft()
            if last:
                run.ended = True  # only here: an owner that looks sees all that came before, and is told once
                self._hung.pop(run, None)
            told.setdefault(owner, {})[run] = None
        for owner, runs in told.items():
            owner.moved(*runs)
        self._look()
        self._look_later()

    def _look_later(self) -> None:
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_later(_LOOK_AGAIN_S, self._look_again)

    def _look(self) -> None:
        if self.is_idle:
            self._idle()

    def _look_again(self) -> None:
        self._looks_again = False
        self._look()


class TaskExecutor:
    """Runs a coroutine function on the event loop, at most ``tasks`` at once."""

    def __init__(
        self,
        call: Callable[[Any], Awaitable[object]],
        *,
        batches: bool,
        tasks: int,
        clock: Clock,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._call = call
        self._idle = idle
        self._batches = batches
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[RunOwner, LaneRun]] = deque()
        self._room = tasks
        self._hung: dict[LaneRun, asyncio.Task[None]] = {}
        self._running: dict[LaneRun, asyncio.Task[None]] = {}

    @property
    def hung(self) -> int:
        return len(self._hung)

    @property
    def is_idle(self) -> bool:
        return self._room > 0 and not self._waiting

    @property
    def busy(self) -> int:
        return len(self._running) - len(self._hung)

    def start(self, owner: RunOwner, runs: Iterable[LaneRun]) -> None:
        self._waiting.extend((owner, run) for run in runs)
        self._go_on()

    def gave_up(self, run: LaneRun) -> None:
        self._hung[run] = self._running[run]
        self._running[run].cancel()
        self._room += 1
        self._go_on()

    async def close(self) -> None:
        while self._waiting:
            owner, run = self._waiting.popleft()
            if run.claim():
                run.ended = True
                owner.moved(run)
        for run, task in self._running.items():
            if run.since_s is not None:  # a task that has not begun does not begin, as it is cancelled itself
                task.cancel()

    def runs_here(self) -> bool:
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:  # no loop runs in this thread
            return False

    def _go_on(self) -> None:
        while self._waiting and self._room > 0:
            owner, run = self._waiting.popleft()
            if not run.claim():
                continue  # it was taken back
            self._room -= 1
            task = asyncio.ensure_future(self._work(owner, run))
            self._running[run] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, owner: RunOwner, run: LaneRun) -> None:
        try:
            if self._batches:
                await self._run_batches(owner, run)
            else:
                await self._run_one_by_one(owner, run)
        except asyncio.CancelledError:
            if run.timed_out_at is None:
                raise
        finally:
            run.since_s = None
            run.ended = True
            del self._running[run]
            if self._hung.pop(run, None) is None:
                self._room += 1
            owner.moved(run)
            self._go_on()
            self._look()

    def _look(self) -> None:
        if self.is_idle:
            self._idle()

    async def _run_one_by_one(self, owner: RunOwner, run: LaneRun) -> None:
        run.began_s = reported_s = self._clock.monotonic_s()
        run.took_s = took_s = array("d")
        run.left = left = deque[MessageView | list[MessageView]](run.messages)
        if len(left) > 1 and self.is_idle:
            asyncio.get_running_loop().call_soon(self._idle)  # an earlier search for something to do found nothing here
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)
        while left:
            if run.cancelled or self._clock.monotonic_s() >= owner.until_s:
                return
            message = left.popleft()
            run.since_s = since_s = self._clock.monotonic_s()
            verdict = await self._verdict(message, 1)
            took_s.append(self._clock.monotonic_s() - since_s)
            if verdict is None or run.timed_out_at is not None:
                return
            if verdict.failure is not None:
                run.failure = verdict.failure
                return
            run.done += 1
            if since_s - reported_s > _REPORT_S:
                reported_s = since_s
                owner.moved(run)

    async def _run_batches(self, owner: RunOwner, run: LaneRun) -> None:
        run.took_s = took_s = array("d")
        left, reported_s = run.begin_lists(), self._clock.monotonic_s()
        run.began_s = reported_s
        if run.list_max:
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)
        while left:
            since_s = self._clock.monotonic_s()
            if run.cancelled or since_s >= owner.until_s:
                return
            messages = left.popleft()
            run.since_s = since_s
            verdict = await self._verdict(messages, len(messages))
            took_s.append(self._clock.monotonic_s() - since_s)
            if verdict is None or not apply(run, verdict):
                return
            if left and since_s - reported_s > _REPORT_S:
                reported_s = since_s
                owner.moved(run)

    async def _verdict(self, given: object, count: int) -> ListenerVerdict | None:
        """None when the listener declines."""
        try:
            return judge(await self._call(given), count)
        except MessagesDeclined:
            return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return raised(error, count)  # the cancellation of something that the listener waited for
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a listener raises is its failure
            return raised(error, count)


def apply(run: LaneRun, verdict: ListenerVerdict) -> bool:
    """Record a batch's outcome, unless it was given up. Returns whether the next may begin."""
    if run.timed_out_at is not None:
        return False
    run.failure = verdict.failure
    run.done += verdict.succeeded
    return verdict.failure is None


def is_coroutine_function(listener: Callable[..., Any]) -> bool:
    """Whether the listener is ``async def``, or an object whose ``__call__`` is."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004


def executor_of(
    listener: Callable[[Any], Any],
    *,
    batches: bool,
    at_once: int,
    clock: Clock,
    group: str,
    idle: Callable[[], None] = lambda: None,
) -> Executor:
    """The listener's executor, to be made on the event loop. ``idle`` is called when a handler has ended and none waits."""
    if is_coroutine_function(listener):
        return TaskExecutor(listener, batches=batches, tasks=at_once, clock=clock, idle=idle)
    return ThreadExecutor(listener, batches=batches, threads=at_once, clock=clock, name=f"penstock-{group}", idle=idle)
