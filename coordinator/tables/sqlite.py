"""Cells in a SQLite file, for the processes of one machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import cast

from ...log.errors import PenstockError, unforeseen
from ...log.runtime.runtime import Runtime
from .changes import CellWrite, Change, Deletion, Outcome, error_of, take_together
from .protocol import Cell, CellVersion, Told, check_cell, check_cell_key
from .sqlite_file import LOCK_WAIT_MAX_S, SqliteFile
from .threads import TableThreads
from .versions import first_number, number_of, version_of

_LINGERS_S = 0.05
"""The time for which the writing thread stays for the next write: to hand it to a pool takes a fifth of what the write takes."""


class _LoopChange(Change):
    loop: asyncio.AbstractEventLoop
    """The loop that calls ``told``."""


class SqliteTable:
    """Cells in one file, made by the first write.

    An acknowledged write survives a power failure (write-ahead log, ``synchronous=FULL``). The file must be local. A locked file is tried again at
    random intervals. Raises `StoreUnavailable` after ``lock_wait_max_s``.

    One thread writes and another reads, so that no read waits for a lock. Waiting writes are committed together.
    """

    lists_cheaply = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        runtime: Runtime,
        wait: Callable[[float], object] | None = None,
        lock_wait_max_s: float = LOCK_WAIT_MAX_S,
    ) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._runtime = runtime
        self._closing = threading.Event()
        self._reader, self._writer = (
            SqliteFile(self._path, runtime=runtime, closing=self._closing, wait=wait, lock_wait_max_s=lock_wait_max_s)
            for _ in range(2)
        )
        self._waiting: deque[_LoopChange] = deque()
        self._committing = False
        """Whether the writing thread will look at what waits."""
        self._lingers = False
        """Whether it waits to be told of more."""
        self._more: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.Lock()
        self._reads = TableThreads("penstock-sqlite-read", 1, url=self.url)
        self._writes = TableThreads("penstock-sqlite-write", 1, url=self.url)

    @property
    def url(self) -> str:
        return "sqlite" + Path(self._path).as_uri().removeprefix("file")

    async def get(self, key: str) -> Cell | None:
        check_cell_key(key)
        rows = await self._reads.run(lambda: self._reader.read("get", "SELECT data, version FROM cells WHERE key = ?", key))
        return next((Cell(cast("bytes", data), version_of(version)) for data, version in rows), None)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        write = self._write(key, data, expected)
        await self._change("put", expected, write)
        return version_of(write.version)

    def begin_put(self, key: str, data: bytes, expected: CellVersion | None, told: Told) -> None:
        """`put`, whose end is told. What was not begun raises."""
        write = self._write(key, data, expected)

        def hear(outcome: Outcome) -> None:
            told(version_of(write.version) if outcome is True else error_of("put", expected, write, outcome))

        self._writes.check()
        self._add(_LoopChange(write, hear, asyncio.get_running_loop()))

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        check_cell_key(key)
        await self._change("delete", expected, Deletion(key, number_of(expected)))

    async def keys(self, prefix: str) -> list[str]:
        statement = "SELECT key FROM cells WHERE substr(key, 1, ?) = ? ORDER BY key"
        rows = await self._reads.run(lambda: self._reader.read("keys", statement, len(prefix), prefix))
        return [cast("str", key) for (key,) in rows]

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        statement = "SELECT key, data, version FROM cells WHERE substr(key, 1, ?) = ?"
        found: dict[str, Cell | CellVersion | PenstockError] = {}
        for prefix in prefixes:
            rows = await self._reads.run(lambda prefix=prefix: self._reader.read("read all", statement, len(prefix), prefix))  # type: ignore[misc]
            found |= {cast("str", key): Cell(cast("bytes", data), version_of(version)) for key, data, version in rows}
        return found

    async def close(self) -> None:
        """Give up waiting writes, and close the file. Does nothing in a forked child."""
        if self._writes.forked:
            return
        self._closing.set()
        self._more.put(None)
        await self._writes.close(self._writer.close)
        await self._reads.close(self._reader.close)

    def _write(self, key: str, data: bytes, expected: CellVersion | None) -> CellWrite:
        check_cell(key, data)
        replaced = number_of(expected) if expected is not None else None
        return CellWrite(key, first_number(self._runtime) if replaced is None else replaced + 1, data, replaced)

    async def _change(self, operation: str, expected: CellVersion | None, wanted: CellWrite | Deletion) -> None:
        self._writes.check()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()

        def hear(found: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(found)

        change = _LoopChange(wanted, hear, loop)
        try:
            self._add(change)
            found = await outcome
        except BaseException:
            self._withdraw(change)
            raise
        if found is not True:
            raise error_of(operation, expected, wanted, found)

    def _add(self, change: _LoopChange) -> None:
        with self._lock:
            self._waiting.append(change)
            begin, self._committing = not self._committing, True
            lingers, self._lingers = self._lingers, False
        if lingers:
            self._more.put(None)
        if begin:
            try:
                self._writes.begin(self._commit_waiting)
            except BaseException:
                self._committing = False
                self._withdraw(change)
                raise

    def _withdraw(self, change: _LoopChange) -> None:
        with self._lock, suppress(ValueError):  # cancelled or closed: a change that is not on its way yet stays undone
            self._waiting.remove(change)

    def _commit_waiting(self) -> None:
        """Commit until nothing waits: what gathered during a commit goes into the next one, without a turn of the event loop between them."""
        lingered = False
        while True:
            with self._lock:
                changes = take_together(self._waiting)
                if not changes and (lingered or self._closing.is_set()):
                    self._committing = self._lingers = False
                    return
                self._lingers = not changes
            if lingered := not changes:
                with suppress(Empty):
                    self._more.get(timeout=_LINGERS_S)
                    lingered = False
                continue
            outcomes = self._committed([change.wanted for change in changes])
            for loop in {change.loop for change in changes}:
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_tell, loop, changes, outcomes)

    def _committed(self, wanted: Sequence[CellWrite | Deletion]) -> Sequence[Outcome]:
        try:
            match wanted:
                case [Deletion() as deletion]:
                    return [self._writer.delete(deletion)]
                case _:
                    return self._writer.put([one for one in wanted if isinstance(one, CellWrite)])
        except PenstockError as error:
            return [error] * len(wanted)
        except Exception as error:  # noqa: BLE001 - those who wait must hear of it
            return [unforeseen(error, operation="write cells")] * len(wanted)


def _tell(loop: asyncio.AbstractEventLoop, changes: Sequence[_LoopChange], outcomes: Sequence[Outcome]) -> None:
    for change, outcome in zip(changes, outcomes, strict=True):
        if change.loop is loop:
            change.told(outcome)
