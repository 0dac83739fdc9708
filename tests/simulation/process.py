"""A simulated process: its clocks, its chance, and the ways it can stop."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from penstock.log.runtime.runtime import Runtime
from tests.simulation.loop import HOST, Host, SimLoop
from tests.simulation.trace import Event, Trace

T = TypeVar("T")

EPOCH_MS = 1_750_000_000_000
"""What a right wall clock shows when a run begins."""


class Crashed(Exception):
    """The simulated process ended before its work did."""


class SimClock:
    """The clocks of one machine.

    The wall clock is ``offset_ms`` off and may be stepped; the monotonic one runs at ``rate``, and counts suspends as
    CLOCK_BOOTTIME does.
    """

    def __init__(self, loop: SimLoop, *, offset_ms: int = 0, rate: float = 1.0, boot_s: float = 0.0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms
        self.rate = rate
        self.boot_s = boot_s

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self._loop.now * 1000) + self.offset_ms

    def monotonic_s(self) -> float:
        return self.boot_s + self._loop.now * self.rate


class SimProcess(Host):
    """One process of the run. Made by `Kernel.process`."""

    def __init__(
        self, name: str, *, loop: SimLoop, clock: SimClock, rng: random.Random, trace: Trace, counts: Counter[str]
    ) -> None:
        super().__init__(name)
        self.rate = clock.rate
        self.clock = clock
        self.runtime = Runtime(clock=clock, random=rng, threads=False)
        self._loop = loop
        self._trace = trace
        self._counts = counts
        self.on_stop: Callable[[float], object] = lambda _: None
        """Told how many seconds the process is stopped for."""
        self._stopped_until_s = 0.0
        self._end: asyncio.Future[None] = loop.create_future()
        self._context = Context()
        self._context.run(HOST.set, self)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start ``work`` as code of this process. Its task never ends if the process crashes; `run` tells."""
        return self._loop.create_task(work, context=self._context.copy())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` as code of this process and wait for it. Raises `Crashed` if the process crashes before it is done."""
        task = self.spawn(work)
        waiting: list[asyncio.Future[Any]] = [task, self._end]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Crashed(self.name)
        return task.result()

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call ``function`` as code of this process, now."""
        return self._context.copy().run(function, *args)

    async def ended(self) -> None:
        """Wait until the process has crashed."""
        await asyncio.shield(self._end)

    def crash(self) -> None:
        """End the process, as SIGKILL does: its code runs on to its next ``await`` and no further; requests on their way go on."""
        if not self.crashed:
            self._note("crash")
            self.crashed = self.stopped = True
            self._end.set_result(None)

    def pause(self, seconds: float) -> None:
        """Stop the process, as SIGSTOP does; timers that fall due meanwhile fire at its end."""
        self._stop("pause", seconds)

    def suspend(self, seconds: float) -> None:
        """Suspend the machine, as closing a laptop does: timers stand still too, ``monotonic_s`` and the wall clock go on."""
        if not self.crashed:
            self._loop.sleep_through(self, seconds)
            self._stop("suspend", seconds)

    def step_clock(self, milliseconds: int) -> None:
        """Step the wall clock."""
        self._note("step_clock", f"{milliseconds} ms")
        self.clock.offset_ms += milliseconds

    @property
    def awake_s(self) -> float:
        """When it goes on, if it is paused or suspended; else a time that has passed."""
        return 0.0 if self.crashed else self._stopped_until_s

    async def halt(self) -> None:
        """Wait as a crashed process waits: for ever."""
        await self._loop.create_future()

    def _stop(self, how: str, seconds: float) -> None:
        if self.crashed:
            return
        self._note(how, f"{seconds:.3f} s")
        self.stopped = True
        self._stopped_until_s = max(self._stopped_until_s, self._loop.now + seconds)
        self._loop.call_world(seconds, self._resume)
        self.on_stop(seconds)

    def _resume(self) -> None:
        if not self.crashed and self.stopped and self._loop.now >= self._stopped_until_s:
            self.stopped = False
            self._loop.release(self)

    def _note(self, what: str, detail: str = "") -> None:
        self._counts[what] += 1
        self._trace.events.append(Event(self._loop.now, self.name, what, "", detail))
