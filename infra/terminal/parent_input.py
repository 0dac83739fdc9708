"""The parent process's lines, on standard input or another open file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

_CHUNK_BYTES = 65_536


class ParentLines:
    """The lines of an open file, until its end: the parent is gone then.

    `sys.stdin` is not read: a daemon thread would hold its lock at the interpreter's end.
    """

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._heard = b""

    def __iter__(self) -> Iterator[str]:
        while True:
            while b"\n" not in self._heard:
                chunk = b""
                with suppress(ConnectionResetError):
                    chunk = os.read(self._file, _CHUNK_BYTES)
                if not chunk:
                    return
                self._heard += chunk
            line, _, self._heard = self._heard.partition(b"\n")
            yield line.decode().strip()


class ParentInput:
    """The lines of standard input, one after another. Its end ends this process."""

    def __init__(self) -> None:
        self._lines = iter(ParentLines())

    def next(self) -> str:
        for line in self._lines:
            return line
        os._exit(1)
