"""A TCP proxy that does to connections what networks do: cuts them, also in the middle of an answer, loses answers, and stalls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_CHUNK_BYTES: Final = 65_536
_IN_ANSWER_BYTES: Final = 2_000
"""A connection that is cut in the middle of an answer passes at most so many bytes of it."""
_LOST_S: Final = (0.1, 2.0)
"""Answers are lost for so long before the connection is cut: requests of that time are carried out."""
_STALL_S: Final = (0.2, 3.0)


class Fault(StrEnum):
    """What is done to one connection."""

    CUT = "cut"
    CUT_IN_ANSWER = "cut in answer"
    LOSE_ANSWERS = "lose answers"
    STALL = "stall"


@dataclass(eq=False)
class _Link:
    """One connection of a client, and the one to the server for it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    may_pass: asyncio.Event = field(default_factory=asyncio.Event)
    loses: bool = False
    left_bytes: int | None = None
    """It is cut after so many more bytes of answers."""

    def cut(self) -> None:
        """End both at once: what was on its way is lost."""
        for writer in (self.client, self.server):
            writer.transport.abort()


class Proxy:
    """Passes connections at ``host``:``port`` on to a server, in the running event loop. What is done to them follows from the seed."""

    def __init__(self, host: str, port: int, behind: tuple[str, int], seed: int) -> None:
        self.host, self.port = host, port
        self.done: Counter[str] = Counter()
        self._behind = behind
        self._chance = random.Random(seed)
        self._links: list[_Link] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.cut()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # --- Faults -----------------------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault | None = None) -> Fault | None:
        """Do something to a connection. None: there is none."""
        fault = self._chance.choice(list(Fault)) if fault is None else fault
        if not self._links:
            return None
        link, loop = self._chance.choice(self._links), asyncio.get_running_loop()
        match fault:
            case Fault.CUT:
                link.cut()
            case Fault.CUT_IN_ANSWER:
                link.left_bytes = self._chance.randrange(_IN_ANSWER_BYTES)
            case Fault.LOSE_ANSWERS:
                link.loses = True
                loop.call_later(self._chance.uniform(*_LOST_S), link.cut)
            case Fault.STALL:
                link.may_pass.clear()
                loop.call_later(self._chance.uniform(*_STALL_S), link.may_pass.set)
        self.done[fault] += 1
        return fault

    # --- Passing on -------------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            answers, server = await asyncio.open_connection(*self._behind)
        except OSError:
            writer.transport.abort()
            self._serving.discard(task)
            return
        link = _Link(writer, server)
        link.may_pass.set()
        self._links.append(link)
        try:
            with suppress(asyncio.CancelledError):  # the proxy is closed
                await asyncio.gather(self._pass(reader, server, link), self._pass(answers, writer, link, is_answer=True))
        finally:
            self._links.remove(link)
            link.cut()
            self._serving.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link, *, is_answer: bool = False
    ) -> None:
        """Pass bytes on in one direction. At its end the other one ends, too."""
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await link.may_pass.wait()
                if is_answer and link.loses:
                    continue
                if is_answer and link.left_bytes is not None:
                    data, link.left_bytes = data[: link.left_bytes], link.left_bytes - len(data)
                writer.write(data)
                await writer.drain()
                if link.left_bytes is not None and link.left_bytes <= 0:
                    link.server.transport.abort()
                    break
        writer.close()
