"""Waiting for a database that does not answer, before a capture of it has begun: it may just be starting again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from .errors import CaptureRetry

log = logging.getLogger("penstock.cdc")

T = TypeVar("T")

PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 5.0


def first_answer(ask: Callable[[], T], patience_s: float, *, now_s: Callable[[], float], pause: Callable[[float], None]) -> T:
    """The answer of a database, which is asked again for so long. Raises `CaptureRetry` when it has not answered by then."""
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
