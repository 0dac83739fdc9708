"""Contenders for the race tests: threads with a store and an event loop each, in this process or in others."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.queues import Queue as ProcessQueue
from multiprocessing.synchronize import Barrier as ProcessBarrier
from typing import Any, TypeAlias, TypeVar

from penstock.log.errors import StoreUnavailable
from penstock.log.stores import Conflict, IfMatch, ObjectMissing, ObjectStore, Put
from tests.log.stores.conftest import Place

T = TypeVar("T")
Barrier: TypeAlias = "threading.Barrier | ProcessBarrier"
WAIT_S = 60


@dataclass(frozen=True)
class Win:
    """A create that its contender holds for its own."""

    key: str
    body: bytes


def in_threads(place: Place, count: int, work: Callable[[ObjectStore, int], Coroutine[Any, Any, T]]) -> list[T]:
    """Run ``work(store, 0)`` … side by side, each in a thread with a store and a loop of its own."""

    async def run(number: int) -> T:
        store = place.open()
        try:
            return await work(store, number)
        finally:
            await store.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda number: asyncio.run(run(number)), range(count)))


async def contend(store: ObjectStore, name: str, keys: int, barrier: Barrier) -> list[Win]:
    """Create the same keys at the same moments as everybody else; say which ones were won."""
    wins = []
    for number in range(keys):
        key, body = f"race/{number:020}", f"{name}-{number}-".encode() * 60
        barrier.wait(WAIT_S)
        if await _create(store, key, body):
            wins.append(Win(key, body))
    return wins


async def _create(store: ObjectStore, key: str, body: bytes) -> bool:
    """Create as an appender does: what is not confirmed is read back, and put again while the key is free."""
    for _ in range(20):
        try:
            await store.put(key, body, mode=Put.CREATE)
            return True
        except (Conflict, StoreUnavailable):
            try:
                return (await store.get(key)).data == body
            except ObjectMissing:
                continue
    raise AssertionError(f"20 attempts to create {key} decided nothing")


async def increment(store: ObjectStore, times: int, name: str) -> int:
    """Count up a shared counter; return how many attempts were refused."""
    refused = 0
    for time in range(times):
        mark = f"{name}.{time}"  # equal bytes have equal versions on S3, so no two writes are alike
        while True:
            held = await store.get("counter")
            count, _, _ = held.data.partition(b" ")
            try:
                await store.put("counter", b"%d %s" % (int(count) + 1, mark.encode()), mode=IfMatch(held.version))
                break
            except Conflict:
                refused += 1
    return refused


def _contend_in_process(
    place: Place, first: int, threads: int, keys: int, barrier: ProcessBarrier, results: ProcessQueue[list[Win]]
) -> None:
    won = in_threads(place, threads, lambda store, number: contend(store, f"c{first + number}", keys, barrier))
    results.put([win for wins in won for win in wins])


def race_in_processes(place: Place, processes: int, threads: int, keys: int) -> list[Win]:
    """The race of `contend` between processes of several threads each."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes * threads)
    results: ProcessQueue[list[Win]] = context.Queue()
    children = [
        context.Process(target=_contend_in_process, args=(place, p * threads, threads, keys, barrier, results), daemon=True)
        for p in range(processes)
    ]
    for child in children:
        child.start()
    try:
        return [win for _ in children for win in results.get(timeout=WAIT_S)]
    finally:
        for child in children:
            child.join(5)
            child.kill()
            child.join()
            child.close()
        results.close()
