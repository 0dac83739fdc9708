"""Broadcasting: every member gets every message, in queue order, and keeps its progress under its own name."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from ..coordinator.coordination import Coordination
from ..coordinator.groups import check_group_name
from ..coordinator.progress import MemberProgress, open_progress
from ..log.backoff import Backoff
from ..log.errors import (
    ClosedError,
    DataDamaged,
    InvalidArgument,
    OffsetOutOfRange,
    PenstockError,
    RetryError,
    UnknownOutcome,
    unforeseen,
)
from ..log.lake import Lake
from ..log.messages import MessageView, views
from ..log.reader import Reader
from ..log.tags import TagFilter
from .executor import is_coroutine_function
from .feed import Feed
from .membership import Subscription
from .results import judge, raised

log = logging.getLogger("penstock.consumers")

SAVE_EVERY = timedelta(seconds=1)
_MEMBER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FETCH_ROWS_MAX = 500
_FETCH_BYTES_MAX = 4 * 1024 * 1024
_TROUBLE_S = 0.2


class BroadcastConsumer:
    """One named member of a broadcasting group. Made by ``lake.broadcast_consumer``.

    It gets all messages of its topics, those of a queue one after the other; different queues side by side. A listener that fails or raises
    is logged, and the message counts as done. Progress is saved every second and when it closes, so that after a crash the last second
    comes again. Whoever opens the name next fences this one: it ends with `FencedError`.
    """

    def __init__(
        self,
        lake: Lake,
        coordination: Coordination,
        *,
        group: str,
        member: str,
        subscriptions: Mapping[str, Subscription],
        listener: Callable[..., Any],
        save_every: timedelta = SAVE_EVERY,
    ) -> None:
        check_group_name(group)
        check_member_name(member)
        self.group, self.member = group, member
        self._lake = lake
        self._coordination = coordination
        self._subscriptions = dict(subscriptions)
        self._listener = listener
        self._save_s = save_every.total_seconds()
        self._feeds: dict[str, Feed] = {}
        self._progress: dict[str, MemberProgress] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._handling: set[object] = set()
        """Threads and tasks that are inside the listener now."""
        self._queues: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.error: PenstockError | None = None
        """Why it ended by itself."""

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take over the member's name. Raises before anything runs when a topic does not exist."""
        topics = {name: await self._lake.topic(name) for name in self._subscriptions}
        for name, topic in topics.items():
            offsets = await Reader(topic).resolve(self._subscriptions[name].start)
            progress = await open_progress(
                self._coordination.cells,
                self._lake.runtime,
                group=self.group,
                topic=name,
                member=self.member,
                life=topic.tail.state.created_entry,
                start=tuple(offsets[queue] for queue in range(topic.settings.queues)),
            )
            self._progress[name] = progress
            self._next |= {(name, queue): offset for queue, offset in enumerate(progress.progress.offsets)}
        if self._closing is not None:
            raise ClosedError("the consumer was closed while it was being opened", operation="broadcast", object=self.group)
        self._feeds = {name: Feed(topic) for name, topic in topics.items()}
        if not is_coroutine_function(self._listener):
            self._threads = ThreadPoolExecutor(max(1, len(self._next)), thread_name_prefix=f"penstock-{self.group}")
        self._loop = asyncio.ensure_future(self._run())

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Let the handlers that run come to their end, and save the progress. Raises why it ended by itself.

        What still runs after ``timeout`` is left alone, and comes again when the name is opened next.
        """
        self.check_outside()
        self._stopping.set()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        if timeout is not None:
            await asyncio.wait((self._closing,), timeout=timeout.total_seconds())
            if not self._closing.done():
                for task in self._queues:
                    task.cancel()
        await asyncio.shield(self._closing)

    def check_outside(self) -> None:
        """Raise `InvalidArgument` inside the listener, which would wait for itself."""
        if threading.get_ident() in self._handling or _current_task() in self._handling:
            raise InvalidArgument(
                "a listener cannot close its own consumer: that waits for the listener's end",
                operation="close",
                object=self.group,
                hint="tell another thread or task to close it",
            )

    async def ended(self) -> None:
        """Wait until it was closed, or ended by itself. Raises why."""
        assert self._loop is not None, "it was started"
        await asyncio.wait((self._loop,))
        if self.error is not None:
            raise self.error

    @property
    def closed(self) -> bool:
        """Whether somebody closes it, or did."""
        return self._closing is not None

    @property
    def done(self) -> bool:
        """Whether it was closed, to the end."""
        return self._closing is not None and self._closing.done()

    async def _close(self) -> None:
        if self._loop is not None:
            await asyncio.gather(self._loop, return_exceptions=True)
        if self.error is not None:
            raise self.error

    async def _run(self) -> None:
        self._queues = [asyncio.ensure_future(self._follow(topic, queue)) for topic, queue in self._next]
        tasks = [*self._queues, asyncio.ensure_future(self._save_often())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
            await self._save()
        except PenstockError as error:
            log.error("member %s of broadcasting group %s ends: %s", self.member, self.group, error)  # noqa: TRY400 - it says all
            self.error = error
        except Exception as error:
            log.exception("member %s of broadcasting group %s ends", self.member, self.group)
            self.error = unforeseen(error, operation="broadcast")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for feed in self._feeds.values():
                await feed.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    # --- Messages ---------------------------------------------------------------------------------------------------------------

    async def _follow(self, topic: str, queue: int) -> None:
        feed, keep = self._feeds[topic], TagFilter.parse(self._subscriptions[topic].filter)
        feed.attach(queue)
        pause = Backoff(_TROUBLE_S)
        while not self._stopping.is_set():
            start = self._next[topic, queue]
            try:
                rows = await feed.fetch(queue, start, rows_max=_FETCH_ROWS_MAX, bytes_max=_FETCH_BYTES_MAX)
            except OffsetOutOfRange:
                readable = await feed.readable_from(queue, start)
                gone = "member %s of broadcasting group %s: offsets %d to %d of %s queue %d are gone by retention"
                log.error(gone, self.member, self.group, start, readable - 1, topic, queue)  # noqa: TRY400 - it says all
                self._next[topic, queue] = readable
                continue
            except (RetryError, DataDamaged) as error:
                log.warning("member %s of broadcasting group %s cannot read: %s", self.member, self.group, error)
                await self._unless_stopping(asyncio.sleep(pause.next_s()))
                continue
            if rows is None:
                await self._unless_stopping(feed.arrived(queue, start))
                continue
            pause = Backoff(_TROUBLE_S)
            for message in views(topic, keep.apply(rows)):
                if self._stopping.is_set():
                    return
                await self._handle(message)
                self._next[topic, queue] = message.offset + 1
            self._next[topic, queue] = start + rows.num_rows

    async def _handle(self, message: MessageView) -> None:
        try:
            if self._threads is None:
                result = await self._listening(message)
            else:
                result = await asyncio.get_running_loop().run_in_executor(self._threads, self._listen, message)
            failure = judge(result, 1).failure
        except Exception as error:  # noqa: BLE001 - whatever a listener raises is its failure
            failure = raised(error, 1).failure
        if failure is not None:
            log.warning(
                "member %s of broadcasting group %s: %s queue %d, offset %d failed, and is not tried again: %s",
                self.member,
                self.group,
                message.topic,
                message.queue,
                message.offset,
                failure.reason,
            )

    async def _listening(self, message: MessageView) -> object:
        task = _current_task()
        self._handling.add(task)
        try:
            return await self._listener(message)
        finally:
            self._handling.discard(task)

    def _listen(self, message: MessageView) -> object:
        thread = threading.get_ident()
        self._handling.add(thread)
        try:
            return self._listener(message)
        finally:
            self._handling.discard(thread)

    async def _unless_stopping(self, work: Any) -> None:  # noqa: ANN401 - any awaitable
        waiting = [asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting[0].done():
                waiting[0].result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    # --- Progress ---------------------------------------------------------------------------------------------------------------

    async def _save_often(self) -> None:
        while not self._stopping.is_set():
            await self._unless_stopping(asyncio.sleep(self._save_s))
            try:
                await self._save()
            except (RetryError, UnknownOutcome) as error:
                log.warning("member %s of broadcasting group %s cannot save its progress: %s", self.member, self.group, error)

    async def _save(self) -> None:
        for topic, progress in self._progress.items():
            count = len(progress.progress.offsets)
            await progress.save(tuple(self._next[topic, queue] for queue in range(count)))

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        if self._loop is None:
            await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def check_member_name(member: object) -> None:
    """Raise `InvalidArgument` for what cannot be a member's name."""
    if not isinstance(member, str) or not _MEMBER.fullmatch(member):
        raise InvalidArgument(
            "bad member name",
            operation="broadcast",
            expected="1 to 64 letters, digits, '_', '-' and '.'",
            observed=repr(member),
        )


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None
