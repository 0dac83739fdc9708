"""The store in memory, shared by lakes that have a thread each."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from penstock.log.stores import Conflict, MemoryStore, Put

THREADS = 4
KEYS = 2000


@pytest.fixture(autouse=True)
def _restless_threads() -> Iterator[None]:
    """Threads change places as often as the interpreter can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


def test_one_of_four_threads_creates_each_object() -> None:
    store = MemoryStore()
    barrier = threading.Barrier(THREADS)

    async def contend() -> list[str]:
        won = []
        for number in range(KEYS):
            if number % 20 == 0:
                barrier.wait(60)
            with suppress(Conflict):
                await store.put(f"k{number:04}", b"", mode=Put.CREATE)
                won.append(f"k{number:04}")
        return won

    with ThreadPoolExecutor(THREADS) as pool:
        won = Counter(key for wins in pool.map(lambda _: asyncio.run(contend()), range(THREADS)) for key in wins)
    assert [key for key, winners in won.items() if winners > 1] == []
    assert [info.key for info in asyncio.run(store.list(""))] == sorted(won)
    assert len(won) == KEYS
