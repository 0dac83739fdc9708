"""One key, many writers: one winner, and its bytes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from penstock.log.stores import Put
from tests.log.stores.conftest import Place
from tests.log.stores.racers import Win, contend, in_threads, increment, race_in_processes

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
    won = in_threads(place, THREADS, lambda store, number: contend(store, f"c{number}", KEYS, barrier))
    check_winners(place, [win for wins in won for win in wins], KEYS)


@pytest.mark.processes
def test_one_of_four_processes_creates_each_key(oracle: Place) -> None:
    check_winners(oracle, race_in_processes(oracle, 4, 4, KEYS), KEYS)


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
    refused = in_threads(place, 8, lambda store, number: increment(store, 10, str(number)))
    assert asyncio.run(read()).partition(b" ")[0] == b"80"
    assert sum(refused) > 0, "nobody ever met another: this was no race"
