"""One call as its handler sees it: messages in, messages out, and an end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from .frames import StreamCode
from .heads import CallFailed, CallGone, CallHead, GrpcStatus
from .limits import Http2Limits
from .session import Http2Session
from .streams import Http2Stream

log = logging.getLogger("penstock.gateway")


class GrpcCall:
    """A call. What it writes is sent when ``on_output`` comes to it."""

    __slots__ = (
        "_due",
        "_limits",
        "_loop",
        "_on_output",
        "_session",
        "_stream",
        "_task",
        "_waiters",
        "deadline_s",
        "is_tls",
        "metadata",
        "path",
        "peer",
    )

    def __init__(
        self,
        session: Http2Session,
        stream: Http2Stream,
        head: CallHead,
        *,
        peer: str,
        is_tls: bool,
        limits: Http2Limits,
        on_output: Callable[[], None],
    ) -> None:
        self.path = head.path
        self.metadata = head.metadata
        self.peer = peer
        self.is_tls = is_tls
        self.deadline_s: float | None = None
        """The end of the client's wait, in the loop's time; None: it has none."""
        self._session = session
        self._stream = stream
        self._limits = limits
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        if head.timeout_s is not None:
            self.deadline_s = self._loop.time() + head.timeout_s
            self._due = self._loop.call_at(self.deadline_s, self._expire)
        stream.listener = self

    def start(self, handler: Handler) -> asyncio.Task[None]:
        """Run the handler. The task ends when the answer was sent, or the call is gone."""
        self._task = self._loop.create_task(self._run(handler))
        return self._task

    def time_remaining_s(self) -> float | None:
        """The rest of the client's wait; None: it has no end."""
        return None if self.deadline_s is None else max(self.deadline_s - self._loop.time(), 0.0)

    async def read(self) -> bytes | None:
        """The next message; None: the client sends no more. Raises `CallGone`, and `CallFailed` for what is no message."""
        stream = self._stream
        while stream.is_open:
            message = self._session.read(stream)
            if self._session.output.has_output:
                self._on_output()  # there is room for more, which the client is to know
            if message is not None or stream.is_whole:
                return message
            await self._changed()
        raise CallGone("the call is over")

    async def messages(self) -> AsyncIterator[bytes]:
        """All further messages."""
        while (message := await self.read()) is not None:
            yield message

    async def write(self, message: bytes) -> None:
        """Return when the message is sent, as far as this process knows. Raises `CallGone`, and `CallFailed` for one that is too large."""
        stream = self._stream
        if len(message) > self._limits.answer_bytes:
            raise CallFailed(
                GrpcStatus.RESOURCE_EXHAUSTED, f"an answer of {len(message)} bytes is larger than {self._limits.answer_bytes}"
            )
        while stream.unsent is not None:
            await self._changed()
        if not stream.is_open:
            raise CallGone("the call is over")
        self._session.output.write(stream, message)
        self._on_output()
        while stream.unsent is not None:
            await self._changed()
        if not stream.is_open:
            raise CallGone("the call is over")

    # --- What the stream tells ---

    def on_change(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def on_gone(self) -> None:
        if self._due is not None:
            self._due.cancel()  # also where the task never begins
        self.on_change()
        if self._task is not None:
            self._task.cancel()

    def _expire(self) -> None:
        if self._stream.is_open:
            self._finish(GrpcStatus.DEADLINE_EXCEEDED, "the call took longer than its client waits")
            if self._stream.is_open:
                self._session.reset(self._stream, StreamCode.CANCEL)
                self._on_output()
        if self._task is not None:
            self._task.cancel()

    async def _changed(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def _run(self, handler: Handler) -> None:
        try:
            answer = await handler(self)
            if answer is not None:
                await self.write(answer)
        except CallGone:
            return
        except CallFailed as failure:
            self._finish(failure.code, failure.message)
        except Exception as error:
            log.exception("a call of %s failed in an unforeseen way", self.peer)
            self._finish(GrpcStatus.UNKNOWN, f"the gateway failed in an unforeseen way: {type(error).__name__}")
        else:
            self._finish(GrpcStatus.OK)
        finally:
            if self._due is not None:
                self._due.cancel()

    def _finish(self, code: GrpcStatus, message: str = "") -> None:
        if self._stream.is_open:
            self._session.output.finish(self._stream, code, message)
            self._on_output()


Handler: TypeAlias = Callable[[GrpcCall], Awaitable[bytes | None]]
"""Serves a call: reads and writes messages, and returns the last one, or None. Raises `CallFailed`; `CallGone` is no failure."""
Handlers: TypeAlias = Callable[[str], Handler | None]
"""The handler of a path; None: there is none."""


async def unserved(call: GrpcCall) -> Any:  # noqa: ANN401 - it never returns
    raise CallFailed(GrpcStatus.UNIMPLEMENTED, "the gateway has no such method")
