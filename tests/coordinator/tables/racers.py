"""What contenders for a table do in the race tests."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from penstock.coordinator.tables import Cell, CellTable, CellVersion, Conflict
from penstock.log.errors import StoreUnavailable
from tests.coordinator.tables.linearizable import Call, Outcome
from tests.racing import WAIT_S, Barrier


@dataclass(frozen=True)
class Win:
    """A create that its contender holds for its own."""

    key: str
    data: bytes


async def contend(table: CellTable, name: str, keys: int, barrier: Barrier) -> list[Win]:
    """Create the same cells at the same moments as everybody else; say which ones were won."""
    wins = []
    for number in range(keys):
        key, data = f"race/{number:03}", f"{name}-{number}-".encode() * 30
        barrier.wait(WAIT_S)
        if await _created(table, key, data):
            wins.append(Win(key, data))
    return wins


async def _created(table: CellTable, key: str, data: bytes) -> bool:
    """Create as the coordinator does: what is not confirmed is read back, and written again while there is no cell."""
    for _ in range(20):
        try:
            await table.put(key, data, expected=None)
            return True
        except (Conflict, StoreUnavailable):
            found = await table.get(key)
            if found is not None:
                return found.data == data
    raise AssertionError(f"20 attempts to create {key} decided nothing")


async def count_up(table: CellTable, name: str, rounds: int, barrier: Barrier) -> list[int]:
    """Count up a shared cell, everybody from what all have read; return the numbers that were won."""
    won = []
    for number in range(rounds):
        barrier.wait(WAIT_S)
        held = await _held(table, "counter")
        count = int(held.data.partition(b" ")[0]) + 1
        data = b"%d %s.%d" % (count, name.encode(), number)
        barrier.wait(WAIT_S)
        try:
            await table.put("counter", data, expected=held.version)
            won.append(count)
        except (Conflict, StoreUnavailable):
            barrier.wait(WAIT_S)
            if (await _held(table, "counter")).data == data:
                won.append(count)
        else:
            barrier.wait(WAIT_S)
    return won


async def _held(table: CellTable, key: str) -> Cell:
    found = await table.get(key)
    assert found is not None
    return found


class Recorder:
    """Calls one cell and notes what was answered when."""

    def __init__(self, table: CellTable, name: str) -> None:
        self.history: list[Call] = []
        self._table = table
        self._name = name
        self._value: bytes | None = None
        self._version: CellVersion | None = None

    async def read(self) -> None:
        start = time.monotonic_ns()
        found = await self._table.get("cell")
        self._value, self._version = (found.data, found.version) if found else (None, None)
        self.history.append(Call(start, time.monotonic_ns(), self._value))

    async def write(self, *, delete: bool = False) -> None:
        """From what was read or written last, which others may have replaced."""
        new = None if delete and self._version else f"{self._name}.{len(self.history)}".encode()
        expected, outcome = self._value, Outcome.DONE
        start = time.monotonic_ns()
        try:
            version = await _write(self._table, new, self._version)
        except Conflict:
            outcome = Outcome.REFUSED
        except StoreUnavailable:
            outcome = Outcome.UNKNOWN
        else:
            self._value, self._version = new, version
        self.history.append(Call(start, time.monotonic_ns(), new, expected, outcome))


async def recorded(table: CellTable, name: str, rounds: int, barrier: Barrier) -> list[Call]:
    """In each round, a write by everybody from what all have read, then calls at random."""
    chance = random.Random(name)
    recorder = Recorder(table, name)
    for _ in range(rounds):
        barrier.wait(WAIT_S)
        await recorder.read()
        barrier.wait(WAIT_S)
        await recorder.write()
        for _ in range(6):
            if chance.random() < 0.4:
                await recorder.read()
            else:
                await recorder.write(delete=chance.random() < 0.15)
    return recorder.history


async def _write(table: CellTable, data: bytes | None, expected: CellVersion | None) -> CellVersion | None:
    if data is None:
        assert expected is not None
        await table.delete("cell", expected=expected)
        return None
    return await table.put("cell", data, expected=expected)
