"""One cell, many writers: one winner at a time, and what everybody saw could have been answered by one cell."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from multiprocessing.synchronize import Barrier as ProcessBarrier
from typing import Any, TypeVar

import pytest

from penstock.coordinator.tables import CellTable
from tests.coordinator.tables.linearizable import Outcome, is_linearizable
from tests.coordinator.tables.places import InStore, Place
from tests.coordinator.tables.racers import Win, contend, count_up, recorded
from tests.racing import Racers, in_threads

T = TypeVar("T")
THREADS = 8
PROCESSES = 4
ROUNDS = 8


@pytest.fixture(autouse=True)
def _restless_threads() -> Iterator[None]:
    """Threads change places as often as the interpreter can: what is in memory would hardly race otherwise."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


def side_by_side(place: Place, count: int, work: Callable[[CellTable, int], Coroutine[Any, Any, T]]) -> list[T]:
    return in_threads(place.open, count, work, one_for_all=place.one_for_all)


def check_winners(place: Place, wins: list[Win]) -> None:
    async def stored() -> dict[str, bytes | None]:
        table = place.open()
        cells = {key: await table.get(key) for key in await table.keys("race/")}
        await table.close()
        return {key: cell.data if cell else None for key, cell in cells.items()}

    assert [key for key, count in Counter(win.key for win in wins).items() if count > 1] == []
    assert {win.key: win.data for win in wins} == asyncio.run(stored())
    assert len(wins) == ROUNDS


def start_counter(place: Place) -> None:
    async def run() -> None:
        table = place.open()
        await table.put("counter", b"0 start", expected=None)
        await table.close()

    asyncio.run(run())


def test_one_of_8_threads_creates_each_cell(contended: Place) -> None:
    barrier = threading.Barrier(THREADS)
    won = side_by_side(contended, THREADS, lambda table, number: contend(table, f"c{number}", ROUNDS, barrier))
    check_winners(contended, [win for wins in won for win in wins])


def test_one_of_8_threads_wins_each_write(contended: Place) -> None:
    start_counter(contended)
    barrier = threading.Barrier(THREADS)
    won = side_by_side(contended, THREADS, lambda table, number: count_up(table, str(number), ROUNDS, barrier))
    assert sorted(count for counts in won for count in counts) == list(range(1, ROUNDS + 1))


def _race_in_process(place: Place, number: int, barrier: ProcessBarrier) -> tuple[list[Win], list[int]]:
    async def race(table: CellTable, _: int) -> tuple[list[Win], list[int]]:
        wins = await contend(table, f"p{number}", ROUNDS, barrier)
        return wins, await count_up(table, str(number), ROUNDS, barrier)

    return side_by_side(place, 1, race)[0]


@pytest.mark.processes
def test_one_of_4_processes_wins_each_write(shared: Place, racers: Racers) -> None:
    start_counter(shared)
    told = racers.run(shared, _race_in_process)
    check_winners(shared, [win for wins, _ in told for win in wins])
    assert sorted(count for _, counts in told for count in counts) == list(range(1, ROUNDS + 1))


def test_what_8_threads_saw_is_linearizable(contended: Place) -> None:
    barrier = threading.Barrier(THREADS)
    seen = side_by_side(contended, THREADS, lambda table, number: recorded(table, str(number), ROUNDS, barrier))
    history = [call for calls in seen for call in calls]
    outcomes = Counter(call.outcome for call in history)
    if isinstance(contended, InStore) and contended.reads_tear:
        history = [replace(call, outcome=Outcome.NOT_DONE) if call.outcome is Outcome.REFUSED else call for call in history]
    assert is_linearizable(history)
    assert outcomes[Outcome.DONE] >= ROUNDS
    assert outcomes[Outcome.REFUSED] + outcomes[Outcome.UNKNOWN] >= ROUNDS * (THREADS - 1)
