"""Contenders side by side: in threads with an event loop each, and in processes that begin together."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.synchronize import Barrier as ProcessBarrier
from typing import Any, Protocol, TypeAlias, TypeVar

Barrier: TypeAlias = "threading.Barrier | ProcessBarrier"
WAIT_S = 100


class Closable(Protocol):
    """A client of whatever is contended for."""

    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)
P = TypeVar("P")
T = TypeVar("T")


def in_threads(
    open_client: Callable[[], C], count: int, work: Callable[[C, int], Coroutine[Any, Any, T]], *, one_for_all: bool = False
) -> list[T]:
    """Run ``work(client, 0)`` … side by side, each in a thread with a loop of its own, and a client of its own or ``one_for_all``."""
    common = open_client() if one_for_all else None

    async def run(number: int) -> T:
        client = common or open_client()
        try:
            return await work(client, number)
        finally:
            if client is not common:
                await client.close()

    with ThreadPoolExecutor(count) as pool:
        done = list(pool.map(lambda number: asyncio.run(run(number)), range(count)))
    if common is not None:
        asyncio.run(common.close())
    return done


class Racers:
    """Processes that race, and stay from one race to the next: each takes more than a second to start."""

    def __init__(self, processes: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = processes
        self._barriers = {count: context.Barrier(processes * count) for count in (1, threads)}
        self._pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_get_ready, initargs=(self._barriers,))

    def run(self, place: P, work: Callable[[P, int, ProcessBarrier], T], *, threads: int = 1) -> list[T]:
        """Run ``work(place, 0, barrier)`` … each in a process of its own, which brings as many ``threads`` to the barrier."""
        self._barriers[threads].reset()
        return list(self._pool.map(partial(_race, work, place, threads), range(self._processes), timeout=WAIT_S))

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


_BARRIERS: dict[int, ProcessBarrier] = {}
"""In a process that races: what it was given as it started, since a barrier cannot be sent later."""


def _get_ready(barriers: dict[int, ProcessBarrier]) -> None:
    _BARRIERS.update(barriers)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _race(work: Callable[[P, int, ProcessBarrier], T], place: P, threads: int, number: int) -> T:
    return work(place, number, _BARRIERS[threads])
