"""The common part of all consumers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from types import TracebackType
from typing import Any, ClassVar, Self

from ..log.errors import ClosedError, InvalidArgument, PenstockError, unforeseen
from ..log.limits import WAIT_MAX, Duration, optional_duration, shown
from .membership import Membership

log = logging.getLogger("penstock.consumers")


class Consumer:
    """The life of a consumer; subclasses write `_begin`, `_work` and `_end`."""

    _OPERATION: ClassVar[str] = "consume"
    _CLOSE_HINT: ClassVar[str] = "tell another thread or task to close it"

    def __init__(self, group: str, *, name: str) -> None:
        """``name`` is for the log."""
        self.group = group
        self._name = name
        self._loop: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.error: PenstockError | None = None
        """Set when the consumer ended by itself."""

    def __repr__(self) -> str:
        ended = "" if self.error is None else f"ended by {type(self.error).__name__}"
        return shown(self, f"of group {self.group}", "closed" if self._closing is not None else ended)

    async def start(self) -> None:
        """Begin. Raises before anything is consumed when topic, group or settings do not fit."""
        try:
            self._check_unclosed()
            await self._begin()
            self._check_unclosed()
        except BaseException:
            await self._end()
            raise
        self._loop = asyncio.ensure_future(self._run())

    async def close(self, timeout: Duration | None = None) -> None:
        """Stop taking messages, let running handlers end (within ``timeout``, a `timedelta` or seconds), and hand queues over.

        A second call waits for the same end, within its own ``timeout``. Raises the error that ended the consumer before, and `InvalidArgument`
        inside one of its handlers.
        """
        self.check_outside()
        wait = optional_duration("timeout", timeout, most=WAIT_MAX, operation="close")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        if wait is not None:
            await asyncio.wait((self._closing,), timeout=wait.total_seconds())
            if not self._closing.done():
                self._break_off()
        await asyncio.shield(self._closing)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing is not None

    @property
    def done(self) -> bool:
        """Whether it was closed to the end."""
        return self._closing is not None and self._closing.done()

    @property
    def has_ended(self) -> bool:
        """Whether it was closed to the end, or ended by itself."""
        return self._loop is not None and self._loop.done()

    async def ended(self) -> None:
        """Wait until the consumer was closed or ended by itself. Raises its error."""
        assert self._loop is not None, "it was started"
        await asyncio.wait((self._loop,))
        if self.error is not None:
            raise self.error

    def check_outside(self) -> None:
        """Raise `InvalidArgument` inside a handler of this consumer."""
        if self._handles_here():
            raise InvalidArgument(
                "a listener cannot close its own consumer: that waits for the listener's end",
                operation="close",
                object=self.group,
                hint=self._CLOSE_HINT,
            )

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        if self._loop is None:
            await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- What each kind does ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _work(self) -> None:
        """Raises errors that make going on impossible."""
        raise NotImplementedError

    async def _give_up(self) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        """Release everything, however far the consumer came."""
        raise NotImplementedError

    def _break_off(self) -> None:
        if self._loop is not None:
            self._loop.cancel()

    def _handles_here(self) -> bool:
        return False

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._work()
        except ClosedError as error:  # the process ends, or its lake was closed: who did that knows
            log.info("%s ends: %s", self._name, error)
            self.error = error
        except PenstockError as error:
            log.error("%s ends: %s", self._name, error)  # noqa: TRY400 - it says all
            self.error = error
        except Exception as error:
            log.exception("%s ends", self._name)
            self.error = unforeseen(error, operation=self._OPERATION)
        finally:
            try:
                await self._end()
            except ClosedError as error:  # the process ends; others find out that the consumer is gone
                self.error = self.error or error

    async def _close(self) -> None:
        if self._loop is not None:
            if not self._loop.done():
                await self._give_up()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self.error is not None:
            raise self.error

    def _check_unclosed(self) -> None:
        if self._closing is not None:
            raise ClosedError("the consumer was closed before it had begun", operation=self._OPERATION, object=self.group)

    def _check_open(self, operation: str) -> None:
        if self.error is not None:
            raise self.error
        if self._closing is not None or self._loop is None:
            raise ClosedError("the consumer is closed", operation=operation, object=self.group)


class GroupMember(Consumer):
    """A consumer that shares its topics' queues with the other members of its group."""

    def __init__(self, membership: Membership, *, group: str) -> None:
        super().__init__(group, name=f"the consumer of group {group}")
        self._membership = membership

    async def start(self) -> None:
        await super().start()
        assert self._loop is not None, "it was started"
        self._membership.follow(self._loop)

    async def _begin(self) -> None:
        await self._membership.begin()

    async def _give_up(self) -> None:
        await self._membership.give_up()

    async def _end(self) -> None:
        await self._membership.end()
