"""A worker as its parent has it: a process of its own, and the channel to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from typing import Final

from .seat import WORKER_VARIABLE, Seat

log = logging.getLogger("penstock.pool")

_LINE_MAX: Final = 64 * 2**20
"""The largest line of a worker: its metrics, of a process with very many queues."""
_LAST_WORDS_S: Final = 1.0
"""The time for what an ended worker said before. The channel ends with it, unless a fork of it has it, too."""
_END_PATIENCE_S: Final = 3.0
"""The time between telling a worker to end without waiting for its handlers, and killing it."""


class WorkerProcess:
    """A fresh process of a command, never a fork: Arrow's and the stores' threads do not survive one.

    It is told to end by SIGTERM, and takes the channel's end for the same.
    """

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, became_ready: Callable[[], None]
    ) -> None:
        self._process = process
        self._reader, self._writer = reader, writer
        self._became_ready = became_ready
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._hearing = asyncio.ensure_future(self._hear())
        self.ready = False
        self.finished = False

    @classmethod
    async def start(cls, command: Sequence[str], number: int, became_ready: Callable[[], None]) -> WorkerProcess:
        """Raises `OSError` when the machine has no room for it."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    "--worker",
                    str(Seat(number, theirs.fileno())),
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, WORKER_VARIABLE: str(number)},
                    start_new_session=True,  # Ctrl-C in a terminal is for the parent
                )
            reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_MAX)
        except BaseException:
            ours.close()
            raise
        return cls(process, reader, writer, became_ready)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> int:
        """Wait for its end, and for what it said before. Returns the exit code; the negative number of a signal."""
        code = await self._process.wait()
        await asyncio.wait((self._hearing,), timeout=_LAST_WORDS_S)
        self._hearing.cancel()
        self._writer.close()
        return code

    def drain(self) -> None:
        """Tell it to take nothing more, and to end when what runs has ended."""
        self._signal(signal.SIGTERM)

    async def end_now(self) -> None:
        """Tell it not to wait for what runs; kill it if that takes long."""
        self._signal(signal.SIGINT)
        try:
            async with asyncio.timeout(_END_PATIENCE_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    async def metrics(self) -> str:
        """Its metrics, as Prometheus reads them. Raises `ConnectionError` when it ends instead of answering."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(json.dumps({"ask": "metrics", "id": number}).encode() + b"\n")
            await self._writer.drain()
            return await answer
        finally:
            del self._asked[number]

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def _hear(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except ConnectionError:
            return  # it was killed
        except ValueError as error:
            log.warning("the channel of worker process %d is heard no more: %s", self.pid, error)
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the worker says nothing more"))

    def _take(self, said: dict[str, object]) -> None:
        match said:
            case {"said": "ready"}:
                self.ready = True
                self._became_ready()
            case {"said": "finished"}:
                self.finished = True
            case {"said": "metrics", "id": int(number), "text": str(text)} if number in self._asked:
                self._asked[number].set_result(text)
