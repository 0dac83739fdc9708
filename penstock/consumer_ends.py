"""Consumers of a group, for synchronous callers; the work is done on the lake's event-loop thread."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

from penstock.consumers import BroadcastConsumer as AsyncBroadcastConsumer
from penstock.consumers import ConsumerStatistics
from penstock.consumers import PullConsumer as AsyncPullConsumer
from penstock.consumers import PushConsumer as AsyncPushConsumer
from penstock.consumers.consumer import Consumer
from penstock.consumers.pull import MESSAGES_MAX
from penstock.log import MessageView, PenstockError, Position
from penstock.log.limits import WAIT_MAX, check_duration
from penstock.log.portal import Portal

from .ends import close_after

CoreT = TypeVar("CoreT", bound=Consumer)

_POLL_TIMEOUT = timedelta(seconds=1)


class ConsumerEnd(Generic[CoreT]):
    """What all consumers have. Use one in a ``with`` block, or close it."""

    def __init__(self, core: CoreT, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._core.group

    @property
    def error(self) -> PenstockError | None:
        """Why it ended by itself; None while it runs, and when it was closed."""
        return self._core.error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended: closed by another thread, or by itself. False when that takes longer than ``timeout``.

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
        """Take nothing more, let the handlers that run come to their end, and leave, in good order; at most ``timeout`` is waited for that.

        What still runs then is left alone: its result counts no more, and the message comes again. Closing again waits for the same end, at
        most as long as it says itself. Raises what ended the consumer by itself, and `InvalidArgument` inside one of its handlers.
        """
        if not self._portal.stopped:
            self._core.check_outside()
            self._portal.run(lambda: self._core.close(timeout=timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        close_after(self.close, error)


class PushConsumer(ConsumerEnd[AsyncPushConsumer]):
    """A member of a consumer group that runs a listener for every message; see `penstock.Lake.push_consumer`.

    Use it in a ``with`` block, or close it: that lets running handlers end, settles what they did, and hands its queues over.
    """

    def statistics(self) -> ConsumerStatistics:
        """How the queues stand that it owns."""
        return self._core.statistics()

    def drain(self) -> None:
        """Begin to close without waiting for the end: nothing more is taken, and what was not started goes back."""
        self._portal.run(self._core.drain)


class PullConsumer(ConsumerEnd[AsyncPullConsumer]):
    """A member of a consumer group that asks for messages itself; see `penstock.Lake.pull_consumer`.

    Use it in a ``with`` block, or close it: that hands its queues over. What was not committed is handed out again.
    """

    @property
    def assignment(self) -> list[tuple[str, int]]:
        """The queues that it reads now, as (topic, queue). They may come and go with the group's other members."""
        return self._core.assignment

    def poll(self, max_messages: int = MESSAGES_MAX, *, timeout: timedelta = _POLL_TIMEOUT) -> list[MessageView]:
        """The next messages, of one or several queues; waits until there are some, at most ``timeout``; then an empty list.

        Raises `InvalidArgument` for a bad number, `ClosedError`, `OffsetOutOfRange` when retention took what is next (seek on), what made
        reading impossible, and why the consumer ended by itself.
        """
        return self._portal.run(lambda: self._core.poll(max_messages, timeout=timeout))

    def poll_arrow(
        self, max_messages: int = MESSAGES_MAX, *, timeout: timedelta = _POLL_TIMEOUT
    ) -> list[tuple[str, pa.RecordBatch]]:
        """The same as (topic, batch with `MESSAGE_SCHEMA`), each of one queue."""
        return self._portal.run(lambda: self._core.poll_arrow(max_messages, timeout=timeout))

    def position(self, topic: str, queue: int) -> int:
        """The offset that `poll` hands out next. Raises `InvalidArgument` for a queue that is not its own now."""
        return self._core.position(topic, queue)

    def committed(self, topic: str, queue: int) -> int:
        """The offset up to which the group has settled a queue of this consumer. Raises as `position` does."""
        return self._core.committed(topic, queue)

    def seek(self, topic: str, queue: int, to: Position) -> int:
        """Go on at an offset, a store time, ``"earliest"`` or ``"latest"``; gives the offset. Nothing is committed by that.

        Raises `InvalidArgument` for a queue that is not its own now, `OffsetOutOfRange` for an offset that is not kept.
        """
        return self._portal.run(lambda: self._core.seek(topic, queue, to))

    def commit(self) -> None:
        """Settle all that was handed out: durable when this returns. After a `seek` back, the group goes back as by a reset.

        What was handed out before an operator's reset is not settled by it. Raises `OwnershipLost` when some of its queues have another owner
        by now; what was handed out of those comes again, there.
        """
        self._portal.run(self._core.commit)


class BroadcastConsumer(ConsumerEnd[AsyncBroadcastConsumer]):
    """A named member of a broadcasting group, whose listener gets every message; see `penstock.Lake.broadcast_consumer`.

    Use it in a ``with`` block, or close it: that lets running handlers end, and saves how far it is.
    It ends by itself with `FencedError` when another process opens the name.
    """

    @property
    def member(self) -> str:
        """The name under which its progress is kept."""
        return self._core.member
