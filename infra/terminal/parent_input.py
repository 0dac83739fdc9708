"""The parent process's lines on standard input."""

from __future__ import annotations

import os
from typing import NoReturn


class ParentInput:
    """The lines, one after another. The end of standard input ends this process: its parent is gone.

    `sys.stdin` is not read: a daemon thread would hold its lock at the interpreter's end.
    """

    def __init__(self) -> None:
        self._heard = b""

    def next(self) -> str:
        while b"\n" not in self._heard:
            self._heard += os.read(0, 65_536) or self._gone()
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode().strip()

    @staticmethod
    def _gone() -> NoReturn:
        os._exit(1)
