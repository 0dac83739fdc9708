"""Work that several tasks wait for, each as long as it likes."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

FutureT = TypeVar("FutureT", bound=asyncio.Future[Any])


def shared(future: FutureT) -> FutureT:
    """The same future, whose error the loop does not report when no task waits."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future
