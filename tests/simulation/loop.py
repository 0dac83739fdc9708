"""An asyncio event loop with virtual time, a seeded order of events, and processes that can stop.

Plain asyncio code runs on it unchanged. Nothing waits: when no handle is ready, time jumps to the next timer. Among ready handles
a seeded random number chooses, so every run of a seed is the same run. (``shuffle=False`` keeps asyncio's order: first come, first
served.) Every handle belongs to the `Host` whose code made it, found through a context variable; a stopped host's handles are kept
back, a crashed one's are dropped.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import inspect
import random
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

from tests.garbage import SET_ASIDE

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Garbage is collected at fixed steps only: a finalizer that ran whenever memory happens to fill would make runs differ.
_STEPS_BETWEEN_COLLECTIONS = 200_000


class SimulationError(AssertionError):
    """The simulated world came to a state that no run may reach."""


class Deadlock(SimulationError):
    """Nothing is ready, nothing is timed, and the main task is not done."""


class LimitReached(SimulationError):
    """The run took more steps or more virtual time than it may."""


class UnhandledError(SimulationError):
    """An exception that nobody saw: raised in a callback, or the unread result of a task."""


class Host:
    """Whose code runs: a simulated process, or the world around them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rate = 1.0
        """Local seconds in a true one."""
        self.asleep_s = 0.0
        """How long the host was suspended, in true seconds."""
        self.stopped = False
        self.crashed = False
        self.held: list[SimHandle] = []
        """Handles that came up while the host was stopped. A crashed host keeps them until the loop closes, so that
        nothing they refer to is finalized (and runs its ``finally`` blocks) during the run."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


WORLD = Host("world")
HOST: ContextVar[Host] = ContextVar("host", default=WORLD)


class SimHandle(asyncio.TimerHandle):
    """A scheduled call. It keeps its own fields, as those of asyncio's handles are private."""

    __slots__ = ("args", "callback", "context", "host", "local_when")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, local_when: float) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.host = context.get(HOST, WORLD)
        self.local_when = local_when

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.local_when

    def __repr__(self) -> str:
        return f"<SimHandle {self.host.name} {self.callback!r}>"


class SimTask(asyncio.Task[T]):
    """A task whose hash does not depend on its address, so that sets of tasks have the same order in every run."""

    __slots__ = ("host", "number")

    def __init__(self, coro: Any, *, loop: SimLoop, number: int, host: Host, name: str | None, context: Context | None) -> None:
        self.number = number
        self.host = host
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future[T]):
    """A future with such a hash."""

    __slots__ = ("host", "number")

    def __init__(self, *, loop: SimLoop, number: int) -> None:
        self.number = number
        self.host = HOST.get()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """The event loop. ``now`` is the true virtual time in seconds; `time` is what the running host's own clock makes of it."""

    def __init__(
        self, rng: random.Random, *, shuffle: bool = True, max_steps: int = 5_000_000, max_time_s: float = 400 * 86_400.0
    ) -> None:
        self.now = 0.0
        self.steps = 0
        self.unhandled: list[dict[str, Any]] = []
        self.on_quiet: Callable[[], None] | None = None
        """Called when nothing is ready and time is about to pass, at most once a second."""
        self._quiet_s = 0.0
        self._rng = rng
        self._shuffle = shuffle
        self.max_steps = max_steps
        self._max_time_s = max_time_s
        self._ready: list[SimHandle] = []
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._created = 0
        self._tasks: list[SimTask[Any]] = []
        self._tasks_prune_at = 256
        self._generators: dict[int, Host] = {}
        self._begun: list[weakref.ref[AsyncGenerator[Any, Any]]] = []
        self._world = Context()
        self._running = False
        self._closed = False

    # ------------------------------------------------------------------------------------------------- what asyncio calls

    def call_soon(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> SimHandle:
        handle = SimHandle(callback, args, copy_context() if context is None else context, 0.0)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_soon(callback, *args, context=context)  # there is one thread

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        context = copy_context() if context is None else context
        host = context.get(HOST, WORLD)
        when = self.now + max(delay, 0.0) / host.rate
        return self._add_timer(when, SimHandle(callback, args, context, (when - host.asleep_s) * host.rate))

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        context = copy_context() if context is None else context
        host = context.get(HOST, WORLD)
        return self._add_timer(max(when / host.rate + host.asleep_s, self.now), SimHandle(callback, args, context, when))

    def time(self) -> float:
        """The host's CLOCK_MONOTONIC: it drifts, and stands still while the host is suspended."""
        host = HOST.get()
        return (self.now - host.asleep_s) * host.rate

    def create_future(self) -> asyncio.Future[Any]:
        self._created += 1
        return SimFuture(loop=self, number=self._created)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        self._created += 1
        host = HOST.get() if context is None else context.get(HOST, WORLD)
        task: SimTask[T] = SimTask(coro, loop=self, number=self._created, host=host, name=name, context=context)
        if len(self._tasks) >= self._tasks_prune_at:
            self._forget_done_tasks()
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        culprit = context.get("task") or context.get("future")
        host = culprit.host if isinstance(culprit, SimTask | SimFuture) else HOST.get()
        if not self._closed and not host.crashed:
            self.unhandled.append({**context, "host": host.name})

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    async def shutdown_asyncgens(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        raise SimulationError("the simulation has one thread: give code under it a runtime with threads=False")

    # ------------------------------------------------------------------------------------------ what the simulation calls

    def call_world(self, delay_s: float, callback: Callable[..., object], *args: Any) -> SimHandle:
        """Call in true time, whatever becomes of the host that runs now."""
        return self._add_timer(self.now + delay_s, SimHandle(callback, args, self._world, 0.0))

    def sleep_through(self, host: Host, seconds: float) -> None:
        """The host's machine is suspended: its loop's clock stands still, and its timers with it."""
        host.asleep_s += seconds
        self._timers = [(when + seconds if timer.host is host else when, order, timer) for when, order, timer in self._timers]
        heapq.heapify(self._timers)

    def release(self, host: Host) -> None:
        """What was kept back while the host was stopped is ready now."""
        self._ready.extend(host.held)
        host.held.clear()

    def run_until_complete(self, future: Any) -> Any:
        if self._closed or self._running:
            raise RuntimeError("the loop runs once")
        main: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        hooks = sys.get_asyncgen_hooks()
        set_aside = SET_ASIDE.any
        if not set_aside:
            gc.freeze()
        gc.disable()
        self._running = True
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(self._generator_begins, self._generator_is_dropped)
        try:
            self._run(main)
            return main.result()
        finally:
            # Tasks whose exception nobody read say so as they are collected.
            self._forget_done_tasks()
            gc.collect()
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)
            self._running = False
            gc.enable()
            if not set_aside:
                gc.unfreeze()

    def close(self) -> None:
        """End whatever has not ended. ``finally`` blocks run only now, when nothing can happen any more."""
        self._closed = True
        asyncio._set_running_loop(self)  # for what those blocks call: without one they would make a real loop
        for task in self._tasks:
            task.host.crashed = task.host is not WORLD
        for begun in self._begun:
            _end_within(begun())
        for task in self._tasks:
            if not task.done():
                _end(cast("Coroutine[Any, Any, Any]", task.get_coro()))
        asyncio._set_running_loop(None)
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    def pending(self) -> str:
        """The tasks that are not done, and where each waits."""
        waiting = [f"  {task.host.name}: {_where(task.get_coro())}" for task in self._tasks if not task.done()]
        return "\n".join(waiting[:50])

    # ----------------------------------------------------------------------------------------------------------- the run

    def _run(self, main: asyncio.Future[Any]) -> None:
        ready, draw, shuffle = self._ready, self._rng.random, self._shuffle
        while not main.done():
            if not ready:
                self._jump()
                continue
            handle = ready.pop(int(draw() * len(ready)) if shuffle and len(ready) > 1 else 0)
            callback = handle.callback
            if callback is None:
                continue
            if handle.host.stopped:
                handle.host.held.append(handle)
                continue
            self.steps += 1
            try:
                handle.context.run(callback, *handle.args)
            except Exception as error:  # noqa: BLE001  # of a callback, which nobody awaits
                self.unhandled.append({"message": "a callback failed", "exception": error, "host": handle.host.name})
            if self.steps % _STEPS_BETWEEN_COLLECTIONS == 0:
                gc.collect()
            if self.steps >= self.max_steps:
                raise LimitReached(f"{self.steps} steps, {self.now:.3f} s of virtual time\n{self.pending()}")

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing will ever happen, at {self.now:.3f} s\n{self.pending()}")
        if self.on_quiet is not None and self.now >= self._quiet_s:
            self._quiet_s = self.now + 1.0
            self.on_quiet()
        self.now = timers[0][0]
        if self.now > self._max_time_s:
            raise LimitReached(f"{self.now:.0f} s of virtual time, {self.steps} steps\n{self.pending()}")
        while timers and timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(timers)[2])

    def _add_timer(self, when: float, handle: SimHandle) -> SimHandle:
        self._created += 1
        heapq.heappush(self._timers, (when, self._created, handle))
        return handle

    def _forget_done_tasks(self) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks_prune_at = 2 * len(self._tasks) + 256

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = HOST.get()
        self._begun.append(weakref.ref(generator))

    def _generator_is_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        host = self._generators.pop(id(generator), WORLD)
        if not self._closed:
            context = copy_context()
            context.run(HOST.set, host)
            self.create_task(generator.aclose(), context=context)


def _end(coroutine: Coroutine[Any, Any, Any]) -> None:
    # Every `await` in a `finally` block answers a close with RuntimeError, and waits to be closed again.
    for _ in range(1000):
        try:
            coroutine.close()
        except BaseException:  # noqa: BLE001  # whatever the dead may still say
            continue
        return


def _end_within(generator: AsyncGenerator[Any, Any] | None) -> None:
    """End what a generator waits for, from within: nothing else finds it, and it would say so when it is collected."""
    found, waits = [], getattr(generator, "ag_await", None)
    while inspect.iscoroutine(waits):
        found.append(waits)
        waits = waits.cr_await
    for coroutine in reversed(found):
        _end(coroutine)


def _where(coroutine: Any) -> str:
    frames = []
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        frames.append(f"{coroutine.cr_code.co_qualname}:{coroutine.cr_frame.f_lineno}")
        coroutine = coroutine.cr_await
    return " > ".join(frames)
