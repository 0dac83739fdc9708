"""The surroundings of protocol code: time, randomness, and work off the event loop.

Protocol code is ``async def`` on plain asyncio primitives; the event loop decides whether time is real or simulated. A `Runtime` has the rest, one
for each simulated process.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..errors import ClosedError

T = TypeVar("T")

_DRAWN_BYTES = 4_096
_FLOAT_BITS = 53

_OFFLOADED_BYTES_MIN = 2_048
"""A few messages, which take some 0.5 ms. Of more, threads do what the event loop has no time for."""


class Clock(Protocol):
    """The two clocks of one process."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may step in either direction."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some start; never steps, and includes suspended time."""
        ...


# CLOCK_MONOTONIC stands still while a laptop sleeps, and a view of the log must age meanwhile.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clocks of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.clock_gettime(_STEADY_CLOCK)


class DrawnBits(random.SystemRandom):
    """The same numbers with a call of the system, which lets other threads in, each 4 KiB only.

    Thread-safe. A forked child draws its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._pid = 0
        self._drawn = b""
        self._at = 0

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        if k <= 0 or size > _DRAWN_BYTES:
            return super().getrandbits(k)
        with self._lock:
            if self._at + size > len(self._drawn) or self._pid != os.getpid():
                self._drawn, self._at, self._pid = os.urandom(_DRAWN_BYTES), 0, os.getpid()
            taken = self._drawn[self._at : self._at + size]
            self._at += size
        return int.from_bytes(taken, "big") >> (8 * size - k)

    def random(self) -> float:
        return self.getrandbits(_FLOAT_BITS) * 2.0**-_FLOAT_BITS


@dataclass(frozen=True, slots=True)
class Runtime:
    """The surroundings of one process."""

    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=DrawnBits)
    threads: bool = True
    """Whether heavy work may leave the event loop's thread; off in the simulation."""

    async def offload(self, work: Callable[[], T], *, size_bytes: int | None = None) -> T:
        """Do heavy work in a thread of the loop's pool; or here and now if ``size_bytes``, the size of its data, is small."""
        if not self.threads or (size_bytes is not None and size_bytes < _OFFLOADED_BYTES_MIN):
            return work()
        return await run_in_pool(None, work)

    def new_id(self) -> str:
        """128 bits as 32 hexadecimal digits."""
        return f"{self.random.getrandbits(128):032x}"


async def run_in_pool(
    pool: Executor | None,
    work: Callable[[], T],
    *,
    object: str | None = None,
    operation: str | None = None,
    hint: str | None = None,
) -> T:
    """Run ``work`` in a thread of ``pool`` (None: the loop's own). Raises `ClosedError` when the process ends."""
    with closed_with_process(object=object, operation=operation, hint=hint):
        return await asyncio.get_running_loop().run_in_executor(pool, work)


@contextmanager
def closed_with_process(*, object: str | None = None, operation: str | None = None, hint: str | None = None) -> Iterator[None]:
    """Raise `ClosedError` where a pool takes no more work as the process ends."""
    try:
        yield
    except RuntimeError as error:
        if not _ends_with_process(error):
            raise
        raise ClosedError("the process ends, and its lake was not closed", operation=operation, object=object, hint=hint) from error


def _ends_with_process(error: RuntimeError) -> bool:
    """Whether a pool refused work because the interpreter ends."""
    text = str(error)
    return not threading.main_thread().is_alive() or text.startswith("cannot schedule") or text.endswith("interpreter shutdown")
