"""One cell, many writers: one winner at a time, and what everybody saw could have been answered by one cell."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier as ProcessBarrier

import pytest

from penstock.coordinator.tables import CellTable, CellVersion
from tests.coordinator.tables.linearizable import Call, Outcome, is_linearizable
from tests.coordinator.tables.places import InMemory, InMemoryStore, Place
from tests.coordinator.tables.racers import Win, contend, in_processes, in_threads, increment, recorded

THREADS = 8
PROCESSES = 4
KEYS = 6
TIMES = 6
CALLS = 40


@pytest.fixture(autouse=True)
def _restless_threads() -> Iterator[None]:
    """Threads change places as often as the interpreter can: what is in memory would hardly race otherwise."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


def check_winners(place: Place, wins: list[Win]) -> None:
    async def stored() -> dict[str, bytes | None]:
        table = place.open()
        cells = {key: await table.get(key) for key in await table.keys("race/")}
        await table.close()
        return {key: cell.data if cell else None for key, cell in cells.items()}

    assert [key for key, count in Counter(win.key for win in wins).items() if count > 1] == []
    assert {win.key: win.data for win in wins} == asyncio.run(stored())
    assert len(wins) == KEYS


def start_counter(place: Place) -> CellVersion:
    async def run() -> CellVersion:
        table = place.open()
        version = await table.put("counter", b"0 start", expected=None)
        await table.close()
        return version

    return asyncio.run(run())


def check_counts(counted: list[tuple[list[int], int]], times: int) -> None:
    assert sorted(number for taken, _ in counted for number in taken) == list(range(1, times + 1))
    assert sum(refused for _, refused in counted) > 0, "nobody ever met another: this was no race"


def is_quick(place: Place) -> bool:
    """Whether a call takes microseconds: such calls seldom meet another, so there must be more of them."""
    return isinstance(place, InMemory | InMemoryStore)


def test_one_of_8_threads_creates_each_cell(oracle: Place) -> None:
    barrier = threading.Barrier(THREADS)
    won = in_threads(oracle, THREADS, lambda table, number: contend(table, f"c{number}", KEYS, barrier))
    check_winners(oracle, [win for wins in won for win in wins])


def test_increments_in_8_threads_are_never_lost(oracle: Place) -> None:
    start_counter(oracle)
    times = 25 * TIMES if is_quick(oracle) else TIMES
    barrier = threading.Barrier(THREADS)
    check_counts(in_threads(oracle, THREADS, lambda table, number: increment(table, str(number), times, barrier)), THREADS * times)


def _race_in_process(place: Place, number: int, barrier: ProcessBarrier) -> tuple[list[Win], tuple[list[int], int]]:
    async def race(table: CellTable, _: int) -> tuple[list[Win], tuple[list[int], int]]:
        wins = await contend(table, f"p{number}", KEYS, barrier)
        return wins, await increment(table, str(number), 2 * TIMES, barrier)

    return in_threads(place, 1, race)[0]


@pytest.mark.processes
def test_one_of_4_processes_wins_each_write(shared: Place) -> None:
    start_counter(shared)
    told = in_processes(shared, PROCESSES, _race_in_process)
    check_winners(shared, [win for wins, _ in told for win in wins])
    check_counts([counted for _, counted in told], PROCESSES * 2 * TIMES)


def test_what_8_threads_saw_is_linearizable(oracle: Place) -> None:
    barrier = threading.Barrier(THREADS)
    calls = 5 * CALLS if is_quick(oracle) else CALLS

    async def record(table: CellTable, number: int) -> list[Call]:
        await table.get("cell")  # connections and files are opened before the race
        barrier.wait(60)
        return await recorded(table, str(number), calls)

    history = [call for seen in in_threads(oracle, THREADS, record) for call in seen]
    outcomes = Counter(call.outcome for call in history)
    assert is_linearizable(history)
    assert outcomes[Outcome.DONE] >= THREADS
    assert outcomes[Outcome.REFUSED] >= THREADS, "nobody ever met another: this was no race"
