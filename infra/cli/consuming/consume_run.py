"""The listener of `penstock consume`, and the command's end."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....consumers import QueueStatistics
from ....consumers.handlers.executor import is_coroutine_function
from ....consumers.handlers.missing_result import name_of
from ....consumers.handlers.results import MessagesDeclined, judge
from ....log import MessageView, PenstockError
from ...terminal.session import OutputFailed
from .handlers import CommandNotRun
from .message_limiter import MessageLimiter

if TYPE_CHECKING:
    from ....blocking.consumers import PushConsumer

log = logging.getLogger("penstock.consume")

_SHORT_S, _LOOK_S = 0.02, 0.25
_QUEUES_COME_S = 20.0
"""The wait of a consumer without queues for those of a dead one: the longest lease, and a quarter more."""


class ConsumeRun:
    """The listeners, and events for the main thread."""

    def __init__(self, *, most: int | None = None) -> None:
        self.gate = MessageLimiter(most)
        self._error: BaseException | None = None
        self._events: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One item for each possible end. A signal handler may call its ``put``."""
        self._started_s = self._active_s = time.monotonic()
        self._ended = threading.Event()

    def wake(self) -> None:
        self._events.put(None)

    def listener(self, handle: Callable[[Any], object], *, one_by_one: bool = False) -> Callable[[Any], Any]:
        """The listener that gives ``handle`` what it gets; ``one_by_one``: as a list of one message."""

        def listen(given: Any) -> object:  # noqa: ANN401 - a message, or a list
            return self._listen(handle, given, one_by_one=one_by_one)

        async def listen_async(given: Any) -> object:  # noqa: ANN401 - a message, or a list
            return await self._listen_async(handle, given)

        listener: Callable[[Any], Any] = listen_async if is_coroutine_function(handle) else listen
        listener.__qualname__ = name_of(handle)
        return listener

    # --- In handlers' threads and tasks -------------------------------------------------------------------------------------------

    def _listen(self, handle: Callable[[Any], object], given: Any, *, one_by_one: bool) -> object:  # noqa: ANN401 - a message, or a list
        with self._turn(given, self.gate.enter().result()) as say:
            try:
                return say(handle([given] if one_by_one else given))
            except (BrokenPipeError, OutputFailed, CommandNotRun) as error:
                self._fail(error)
                self._ended.wait()  # the message has not failed, so it goes back as it came
                raise MessagesDeclined from error

    async def _listen_async(self, handle: Callable[[Any], object], given: Any) -> object:  # noqa: ANN401 - a message, or a list
        with self._turn(given, await asyncio.wrap_future(self.gate.enter())) as say:
            result: Any = handle(given)
            return say(await result)

    @contextmanager
    def _turn(self, given: MessageView | list[MessageView], may_go_on: bool) -> Iterator[Callable[[object], object]]:
        if not may_go_on:
            raise MessagesDeclined
        done = False

        def say(result: object) -> object:
            nonlocal done
            done = judge(result, len(given) if isinstance(given, list) else 1).failure is None
            return result

        try:
            yield say
        finally:
            self._active_s = time.monotonic()
            self.gate.leave(done=done)
            if self.gate.finished:
                self.wake()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self.wake()

    # --- In the main thread -------------------------------------------------------------------------------------------------------

    def wait(self, consumers: Sequence[PushConsumer], stopped: Callable[[], bool], until_idle: timedelta | None) -> None:
        """Wait for the command's end: stopped, finished, failed or idle."""
        for consumer in consumers:
            threading.Thread(target=self._watch, args=(consumer,), name="penstock-consume", daemon=True).start()
        idle_s = None if until_idle is None else until_idle.total_seconds()
        while not (stopped() or self.gate.finished or self._error is not None):
            if idle_s is not None and self._is_idle(consumers, idle_s):
                return
            try:
                self._events.get(timeout=None if idle_s is None else min(_LOOK_S, max(_SHORT_S, idle_s / 4)))
            except queue.Empty:
                continue

    def end(self, consumers: Sequence[PushConsumer]) -> None:
        """Raises the error that ended the command."""
        if len(consumers) > 1 or self.gate.limited or self._error is not None:
            for consumer in consumers:
                if consumer.error is None:
                    consumer.drain()
            self.give_back()
        if running := self.gate.running:
            log.info("it ends once %d running handlers have returned; a second signal does not wait for them", running)
        for consumer in consumers:
            try:
                consumer.close()
            except PenstockError as error:
                self._error = self._error or error
        if self._error is not None:
            raise self._error

    def give_back(self) -> None:
        """Release unprocessed messages, which the consumer gives back."""
        self.gate.close()
        self._ended.set()

    def _watch(self, consumer: PushConsumer) -> None:
        try:
            consumer.wait()
        except PenstockError as error:
            self._fail(error)

    def _is_idle(self, consumers: Sequence[PushConsumer], idle_s: float) -> bool:
        now_s = time.monotonic()
        queues = [queue for consumer in consumers for queue in consumer.statistics().queues]
        if self.gate.running or any(map(_has_work, queues)):
            self._active_s = now_s
            return False  # also if idle_s is 0
        if not queues and now_s < self._started_s + _QUEUES_COME_S:
            return False
        return now_s >= self._active_s + idle_s


def _has_work(one: QueueStatistics) -> bool:
    """Fetched messages about to be granted are neither ready nor in flight."""
    return one.ready_messages > 0 or one.inflight_messages > 0 or one.lag_messages > one.waiting_messages + one.parked_groups
