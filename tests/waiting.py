"""The one place where tests wait for real time: for what other processes and threads do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.02


def wait_until(condition: Callable[[], T], what: str, *, timeout_s: float = 60.0) -> T:
    """The first true value of ``condition``; after ``timeout_s`` the test fails, saying ``what`` did not happen."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(_POLL_S)
    return value


async def until(look: Callable[[], Awaitable[T]], is_so: Callable[[T], bool], what: str, *, timeout_s: float = 60.0) -> T:
    """What another process answers once it is so; after ``timeout_s`` the test fails, saying ``what`` did not happen."""
    deadline = time.monotonic() + timeout_s
    while not is_so(found := await look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; but {found}")
        await asyncio.sleep(_POLL_S)
    return found
