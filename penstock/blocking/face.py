"""What the synchronous classes have in common, written by hand: how they wait for the event-loop thread, and how they end.

The rest of this package is made by scripts/blocking_face.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar

from penstock.consumers import SimpleConsumer
from penstock.consumers.consumer import Consumer
from penstock.log import PenstockError
from penstock.log.limits import WAIT_MAX, check_duration
from penstock.log.portal import Portal

CoreT = TypeVar("CoreT")
ConsumerT = TypeVar("ConsumerT", bound=Consumer)
SimpleT = TypeVar("SimpleT", bound=SimpleConsumer)


class Face(Generic[CoreT]):
    """An asynchronous object, and the event-loop thread on which it works."""

    def __init__(self, core: CoreT, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    def __enter__(self) -> Self:
        return self


class ConsumerFace(Face[ConsumerT]):
    """What all consumers have."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._core.group

    @property
    def error(self) -> PenstockError | None:
        """Why the consumer ended by itself; None while it runs, and when it was closed."""
        return self._core.error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the consumer has ended: closed by another thread, or by itself. False when that takes longer than ``timeout``.

        Raises why it ended by itself.
        """
        if timeout is not None:
            check_duration("timeout", timeout, most=WAIT_MAX, operation="wait")
        if self._portal.stopped:
            return True

        async def wait() -> bool:
            ending = asyncio.ensure_future(self._core.ended())
            await asyncio.wait((ending,), timeout=None if timeout is None else timeout.total_seconds())
            if not ending.done():
                ending.cancel()
                return False
            ending.result()
            return True

        return self._portal.run(wait)

    def close(self, timeout: timedelta | None = None) -> None:
        """Take nothing more, let running handlers end, and leave in good order. At most ``timeout`` is waited for the handlers.

        What still runs then is left alone: its result no longer counts, and the message comes again. Closing again waits for the same end, at
        most for its own ``timeout``. Raises what ended the consumer by itself, and `InvalidArgument` inside one of its handlers.
        """
        if not self._portal.stopped:
            self._core.check_outside()
            self._portal.run(lambda: self._core.close(timeout=timeout))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        close_after(self.close, error)


class SimpleConsumerFace(ConsumerFace[SimpleT]):
    """A SimpleConsumer, which others may ask for as the event loop has it."""

    def on_loop(self) -> SimpleT:
        """The same consumer as the lake's event loop has it."""
        return self._core


def close_after(close: Callable[[], None], error: BaseException | None) -> None:
    """Leave a ``with`` block: an error that is already on its way is not replaced by what closing raises."""
    if error is None:
        close()
    else:
        with suppress(PenstockError):
            close()
