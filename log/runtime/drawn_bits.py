"""Random numbers of the operating system, drawn ahead."""

from __future__ import annotations

import os
import random
import threading

_DRAWN_BYTES = 4_096
_FLOAT_BITS = 53


class DrawnBits(random.SystemRandom):
    """The same numbers with a call of the system each 4 KiB: that call lets other threads in, and every write of a cell draws two ids.

    Thread-safe. A forked child draws its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._pid = 0
        self._drawn = b""
        self._at = 0

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        if k <= 0 or size > _DRAWN_BYTES:
            return super().getrandbits(k)
        with self._lock:
            if self._at + size > len(self._drawn) or self._pid != os.getpid():
                self._drawn, self._at, self._pid = os.urandom(_DRAWN_BYTES), 0, os.getpid()
            taken = self._drawn[self._at : self._at + size]
            self._at += size
        return int.from_bytes(taken, "big") >> (8 * size - k)

    def random(self) -> float:
        return self.getrandbits(_FLOAT_BITS) * 2.0**-_FLOAT_BITS
