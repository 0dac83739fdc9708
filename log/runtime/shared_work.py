"""Work for which several wait, each as long as it likes."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

FutureT = TypeVar("FutureT", bound=asyncio.Future[Any])


def shared(future: FutureT) -> FutureT:
    """The same future, whose error is told to those who wait for it. Nobody may be waiting any more: then it is no error of the loop."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future
