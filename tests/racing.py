"""Contenders side by side: in threads with an event loop each, and in processes that start together."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.queues import Queue as ProcessQueue
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


def in_processes(place: P, processes: int, work: Callable[[P, int, ProcessBarrier], T], *, parties: int | None = None) -> list[T]:
    """Run ``work(place, 0, barrier)`` … each in a process of its own; ``parties`` wait at the barrier, by default one a process."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(parties or processes)
    results: ProcessQueue[T] = context.Queue()
    children = [
        context.Process(target=_work_in_process, args=(work, place, number, barrier, results), daemon=True)
        for number in range(processes)
    ]
    for child in children:
        child.start()
    try:
        return [results.get(timeout=WAIT_S) for _ in children]
    finally:
        for child in children:
            child.join(5)
            child.kill()
            child.join()
            child.close()
        results.close()


def _work_in_process(
    work: Callable[[P, int, ProcessBarrier], T], place: P, number: int, barrier: ProcessBarrier, results: ProcessQueue[T]
) -> None:
    results.put(work(place, number, barrier))
