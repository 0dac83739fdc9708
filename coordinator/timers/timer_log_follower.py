"""Reads the timer log into memory as it grows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ...log.errors import ClosedError, RetryError
from ...log.produce.delays import QUEUE
from ...log.read.reader import Reader
from ...log.runtime.backoff import Backoff
from .runs.memtable import TimedRows

_AGAIN_S = 0.1


class TimerLogFollower:
    """Reads a timer log as it grows, while there is room in memory."""

    def __init__(self, reader: Reader, start: int, *, rows_max: int, bytes_max: int) -> None:
        self.rows = TimedRows()
        self.known = start
        self.wakeup = asyncio.Event()
        self._reader = reader
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._wanted = 0
        self._room = asyncio.Event()
        self._task = asyncio.ensure_future(self._read_on())
        self._task.add_done_callback(lambda _: self.wakeup.set())

    @property
    def is_full(self) -> bool:
        """Whether reading waits for `make_room`."""
        return self.known >= self._wanted and self._has_much

    @property
    def _has_much(self) -> bool:
        return len(self.rows) >= self._rows_max or self.rows.size_bytes >= self._bytes_max

    def make_room(self) -> None:
        self._room.set()

    def check(self) -> None:
        """Raise the error that made reading impossible."""
        if self._task.done():
            self._task.result()
            raise ClosedError("the timer log is not read any more", operation="play timers")

    async def reach(self, offset: int) -> None:
        self._wanted = max(self._wanted, offset)
        while self.known < offset:
            self.check()
            self.wakeup.clear()
            self._room.set()
            await self.wakeup.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._reader.close()

    async def _read_on(self) -> None:
        backoff = Backoff(_AGAIN_S)
        while True:
            before = self.known
            try:
                await self._read()
            except RetryError:
                if self.known > before:
                    backoff = Backoff(_AGAIN_S)
                await asyncio.sleep(backoff.next_s())
            else:
                return

    async def _read(self) -> None:
        async with aclosing(self._reader.read(queue=QUEUE, start=self.known, follow=True)) as source:
            async for batch in source:
                self.rows.add(batch)
                self.known = int(batch.column("offset")[-1].as_py()) + 1
                self.wakeup.set()
                while self.is_full:
                    self._room.clear()
                    await self._room.wait()
