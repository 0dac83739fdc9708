"""The common parts of the synchronous classes, written by hand: waiting for the event-loop thread, and ending.

infra/scripts/blocking_face.py makes the rest of this package.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.log import ClosedError, PenstockError, Producer
from penstock.log.limits import WAIT_MAX, Duration, optional_duration
from penstock.log.runtime.portal import Portal

if TYPE_CHECKING:
    from penstock.consumers import SimpleConsumer
    from penstock.consumers.consumer import Consumer
    from penstock.coordinator.transactions.sending.transaction import Transaction

T = TypeVar("T")
CoreT = TypeVar("CoreT")
ProducerT = TypeVar("ProducerT", bound=Producer)
ConsumerT = TypeVar("ConsumerT", bound="Consumer")
SimpleT = TypeVar("SimpleT", bound="SimpleConsumer")
TransactionT = TypeVar("TransactionT", bound="Transaction")


class Face(Generic[CoreT]):
    """An asynchronous object, and the event-loop thread on which it works."""

    def __init__(self, core: CoreT, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._core)

    def __enter__(self) -> Self:
        return self


class ClosableFace(Face[CoreT]):
    """An object that the end of a ``with`` block closes."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        close_after(self.close, error)


class ProducerFace(ClosableFace[ProducerT]):
    """A producer, whose ``send`` is the asynchronous one's: a call between them would cost a tenth of it."""

    def __init__(self, core: ProducerT, portal: Portal) -> None:
        super().__init__(core, portal)
        self.send = core.send


class TransactionFace(Face[TransactionT]):
    """A transaction, which the end of a ``with`` block rolls back or leaves."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._portal.stopped or self._portal.forked:
            return  # the checker will be asked
        self._portal.run(lambda: self._core.leave(error))


class ConsumerFace(ClosableFace[ConsumerT]):
    """The common parts of all consumers."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._core.group

    @property
    def error(self) -> PenstockError | None:
        """Why the consumer ended by itself; None: it runs, or was closed."""
        return self._core.error

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until the consumer has ended: closed by another thread, or by itself. False when that takes longer than ``timeout``. Raises why it
        ended by itself.
        """
        patience = optional_duration("timeout", timeout, most=WAIT_MAX, operation="wait")
        if self._portal.stopped:
            return True

        async def wait() -> bool:
            ending = asyncio.ensure_future(self._core.ended())
            known = self._core.has_ended  # even with a timeout of 0, in which nothing can be waited for
            await asyncio.wait((ending,), timeout=None if patience is None or known else patience.total_seconds())
            if not ending.done():
                ending.cancel()
                return False
            ending.result()
            return True

        return self._portal.run(wait)

    def close(self, timeout: Duration | None = None) -> None:
        """Take nothing more, and let running handlers end, at most for ``timeout``.

        What still runs then no longer counts, and the message comes again. Closing again waits for the same end, at most for its own ``timeout``.
        Raises what ended the consumer by itself, and `InvalidArgument` inside one of its handlers.
        """
        if not self._portal.stopped:
            self._core.check_outside()
            self._portal.run(lambda: self._core.close(timeout=timeout))


class SimpleConsumerFace(ConsumerFace[SimpleT]):
    """A SimpleConsumer, which others may ask for as the event loop has it."""

    def on_loop(self) -> SimpleT:
        """The same consumer as the lake's event loop has it."""
        return self._core


def portal_of(face: Face[Any]) -> Portal:
    """The event-loop thread on which a face's object works."""
    return face._portal  # noqa: SLF001 - of this module


def core_of(face: Face[CoreT] | None) -> CoreT | None:
    """The asynchronous object behind a face; foreign objects are left to be refused."""
    return face._core if isinstance(face, Face) else face  # noqa: SLF001 - of this module


def iterated(portal: Portal, source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate on the event-loop thread. ``source`` does not run before the first step."""
    try:
        while True:
            try:
                yield portal.run(source.__anext__)
            except StopAsyncIteration:
                return
    finally:
        if not portal.forked:
            with suppress(ClosedError):  # the lake's end, which may come at any moment, closes the source too
                portal.run(source.aclose)


def close_after(close: Callable[[], None], error: BaseException | None) -> None:
    """Leave a ``with`` block: an error that is already on its way is not replaced by what closing raises."""
    if error is None:
        close()
    else:
        with suppress(PenstockError):
            close()
