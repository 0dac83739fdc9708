"""Lines of a file descriptor for an event loop, with an end to the wait at any time."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncIterator

log = logging.getLogger("penstock.mcp")

LINE_BYTES_MAX = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
_AHEAD = 64


class LineReader:
    """The lines of a descriptor, without their ends. A line that is too long ends them. A daemon thread reads, so the process can end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="penstock mcp input", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            self._room.release()
            yield line

    def _read(self) -> None:
        rest = b""
        while data := self._some():
            *lines, rest = (rest + data).split(b"\n")
            if any(len(line) > LINE_BYTES_MAX for line in (*lines, rest)):
                log.error("a request has more than %s bytes; no further ones are read", f"{LINE_BYTES_MAX:,}")
                rest = b""
                break
            for line in lines:
                self._room.acquire()
                self._put(self._readable(line))
        if rest:
            self._put(self._readable(rest))
        self._put(None)

    def _readable(self, line: bytes) -> str:
        """A line without surrogate halves: the package does not answer a request with one."""
        text = line.decode("utf-8", "replace")
        if "\\ud" not in text.lower():
            return text
        try:
            return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace").decode()
        except (ValueError, RecursionError):
            return text

    def _some(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            log.error("the input cannot be read: %s", error)  # noqa: TRY400 - it ends as at its end
            return b""

    def _put(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
