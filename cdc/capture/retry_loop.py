"""Retries against a database that does not answer: it may be restarting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from ...log.runtime.runtime import Clock
from .errors import CaptureRetry

log = logging.getLogger("penstock.cdc")

T = TypeVar("T")

PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 5.0
LOOK_S = 0.1
"""The longest pause between two checks for a stop."""


def first_answer(ask: Callable[[], T], patience_s: float, *, now_s: Callable[[], float], pause: Callable[[float], None]) -> T:
    """A database's first answer, asked for repeatedly. Raises `CaptureRetry` after ``patience_s``."""
    until_s, pause_s = now_s() + patience_s, PAUSE_FIRST_S
    while True:
        try:
            return ask()
        except CaptureRetry as error:
            left_s = until_s - now_s()
            if left_s <= 0:
                raise
            log.warning("the database is waited for: %s", error)
        pause(min(pause_s, left_s))
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


class RetryLoop:
    """Repeats a capture after each temporary failure, as long as its patience lasts."""

    def __init__(self, patience_s: float, clock: Clock, pause: Callable[[float], None]) -> None:
        self._patience_s, self._clock, self._pause = patience_s, clock, pause
        self._pause_s, self._answered_s = PAUSE_FIRST_S, 0.0

    def note_answer(self) -> None:
        self._answered_s = self._clock.monotonic_s()

    def note_progress(self) -> None:
        self._pause_s = PAUSE_FIRST_S
        self.note_answer()

    def run(self, attempt: Callable[[], None], stopped: Callable[[], bool], *, failed: Callable[[], None]) -> None:
        """Call ``attempt`` until it returns, or until stopped in a pause. After each failure ``failed`` is called, and its time
        does not count. Raises the last `CaptureRetry` when patience is over.
        """
        self.note_progress()
        while True:
            try:
                attempt()
            except CaptureRetry as error:
                failed_s = self._clock.monotonic_s()
                failed()
                if failed_s - self._answered_s > self._patience_s:
                    raise
                log.warning("the database is waited for: %s", error)
            else:
                return
            if self._is_stopped_in_pause(stopped):
                return

    def _is_stopped_in_pause(self, stopped: Callable[[], bool]) -> bool:
        until_s = self._clock.monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        while not stopped() and (left_s := until_s - self._clock.monotonic_s()) > 0:
            self._pause(min(left_s, LOOK_S))
        return stopped()
