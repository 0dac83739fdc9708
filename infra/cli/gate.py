"""How many messages a command may still take, asked by threads and by tasks before each."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future


class Gate:
    """Lets messages in one by one until ``most`` of them are done (None: without end); whoever failed makes room for another."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._inside = 0
        self._done = 0
        self._closed = False
        self._waiting: deque[Future[bool]] = deque()

    @property
    def finished(self) -> bool:
        """Whether as many are done as may be."""
        return self._most is not None and self._done >= self._most

    @property
    def limited(self) -> bool:
        """Whether there may be somebody who waits."""
        return self._most is not None

    @property
    def inside(self) -> int:
        """How many have entered, and not left."""
        return self._inside

    def enter(self) -> Future[bool]:
        """Resolves to whether to go on, once that is known; False: it is closed."""
        answer: Future[bool] = Future()
        with self._lock:
            self._waiting.append(answer)
            told = self._next()
        _tell(told)
        return answer

    def leave(self, *, done: bool) -> None:
        """Say that one who entered is done, or has failed."""
        with self._lock:
            self._inside -= 1
            self._done += done
            told = self._next()
        _tell(told)

    def close(self) -> None:
        """Turn away those who wait, and whoever comes."""
        with self._lock:
            self._closed = True
            told = self._next()
        _tell(told)

    def _next(self) -> list[tuple[Future[bool], bool]]:
        """Those who wait no longer, and their answers; to be told without the lock."""
        told = []
        while self._waiting and (self._closed or self._has_room()):
            self._inside += not self._closed
            told.append((self._waiting.popleft(), not self._closed))
        return told

    def _has_room(self) -> bool:
        return self._most is None or self._done + self._inside < self._most


def _tell(told: list[tuple[Future[bool], bool]]) -> None:
    for answer, may_go_on in told:
        answer.set_result(may_go_on)
