"""The limit on a command's messages."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future


class MessageLimiter:
    """A gate for messages, open until ``most`` of them are done (None: without end). A failed message makes room for another."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._inside = 0
        self._done = 0
        self._closed = False
        self._waiting: deque[Future[bool]] = deque()

    @property
    def finished(self) -> bool:
        return self._most is not None and self._done >= self._most

    @property
    def limited(self) -> bool:
        return self._most is not None

    @property
    def running(self) -> int:
        return self._inside

    def enter(self) -> Future[bool]:
        """Request to enter. The answer may come later; False: the gate is closed."""
        answer: Future[bool] = Future()
        with self._lock:
            self._waiting.append(answer)
            answered = self._next()
        _resolve(answered)
        return answer

    def leave(self, *, done: bool) -> None:
        with self._lock:
            self._inside -= 1
            self._done += done
            answered = self._next()
        _resolve(answered)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            answered = self._next()
        _resolve(answered)

    def _next(self) -> list[tuple[Future[bool], bool]]:
        """The futures that wait no longer, to be set without the lock."""
        answered = []
        while self._waiting and (self._closed or self._has_room()):
            self._inside += not self._closed
            answered.append((self._waiting.popleft(), not self._closed))
        return answered

    def _has_room(self) -> bool:
        return self._most is None or self._done + self._inside < self._most


def _resolve(answered: list[tuple[Future[bool], bool]]) -> None:
    for answer, may_go_on in answered:
        answer.set_result(may_go_on)
