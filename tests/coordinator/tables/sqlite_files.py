"""SQLite files of cells for tests, and other processes that lock them."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.coordinator.tables import SqliteTable
from penstock.log.runtime.runtime import Runtime


class HandClock:
    """Time that passes only in `wait`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits_s: list[float] = []

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds


def run(path: Path, use: Callable[[SqliteTable], Awaitable[None]], *, clock: HandClock | None = None) -> None:
    async def main() -> None:
        runtime = Runtime(clock=clock, random=random.Random(7)) if clock else Runtime()
        if clock:
            table = SqliteTable(path, runtime=runtime, wait=clock.wait, lock_wait_max_s=0.1)
        else:
            table = SqliteTable(path, runtime=runtime)
        try:
            await use(table)
        finally:
            await table.close()

    asyncio.run(main())


def make(path: Path) -> None:
    """A file with one cell."""

    async def use(table: SqliteTable) -> None:
        await table.put("k", b"one", expected=None)

    run(path, use)


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
