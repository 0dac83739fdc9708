"""One key, many writers: one winner, and its bytes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from contextlib import suppress

import pytest

from penstock.log.stores import Conflict, ObjectStore, Put
from tests.log.stores.conftest import MemoryPlace, Place
from tests.log.stores.racers import Win, contend, increment, race_in_processes
from tests.racing import WAIT_S, Racers, in_threads

THREADS = 32
KEYS = 15


def check_winners(place: Place, wins: list[Win], keys: int) -> None:
    async def stored() -> dict[str, bytes]:
        store = place.open()
        found = {info.key: (await store.get(info.key)).data for info in await store.list("race/")}
        await store.close()
        return found

    assert [key for key, count in Counter(win.key for win in wins).items() if count > 1] == []
    assert {win.key: win.body for win in wins} == asyncio.run(stored())
    assert len(wins) == keys


def test_one_of_32_threads_creates_each_key(place: Place) -> None:
    barrier = threading.Barrier(THREADS)
    won = in_threads(place.open, THREADS, lambda store, number: contend(store, f"c{number}", KEYS, barrier))
    check_winners(place, [win for wins in won for win in wins], KEYS)


def test_one_of_6_threads_creates_each_key_in_a_shared_memory() -> None:
    """Its calls never wait, so only threads that are switched within a call can meet: at once, and on many keys."""
    place, keys, barrier = MemoryPlace("memory://shared", {}), 10_000, threading.Barrier(6)

    async def create_all(store: ObjectStore, number: int) -> list[Win]:
        wins = []
        barrier.wait(WAIT_S)
        for key in (f"race/{place:020}" for place in range(keys)):
            with suppress(Conflict):
                await store.put(key, b"%d" % number, mode=Put.CREATE)
                wins.append(Win(key, b"%d" % number))
        return wins

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        won = in_threads(place.open, 6, create_all)
    finally:
        sys.setswitchinterval(interval_s)
    check_winners(place, [win for wins in won for win in wins], keys)


@pytest.mark.processes
def test_one_of_four_processes_creates_each_key(place: Place, racers: Racers) -> None:
    check_winners(place, race_in_processes(racers, place, 4, KEYS), KEYS)


def test_increments_by_if_match_are_never_lost(place: Place) -> None:
    async def read() -> bytes:
        store = place.open()
        try:
            return (await store.get("counter")).data
        finally:
            await store.close()

    async def write() -> None:
        store = place.open()
        await store.put("counter", b"0 start", mode=Put.CREATE)
        await store.close()

    asyncio.run(write())
    refused = in_threads(place.open, 8, lambda store, number: increment(store, 10, str(number)))
    assert asyncio.run(read()).partition(b" ")[0] == b"80"
    assert sum(refused) > 0, "nobody ever met another: this was no race"
