"""Penstock for asynchronous callers: the same classes, natively on the running event loop.

    async with penstock.aio.connect("./lake") as lake:
        producer = await lake.producer("orders")
        receipt = await producer.send(penstock.Message(b"paid", message_group="user-7"))

``send`` is an ordinary call and returns a receipt at once; awaiting the receipt waits until the message is durable. On the loop's own thread
a full producer raises `BackPressureError`; ``await producer.wait_for_room()`` waits instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import EllipsisType
from typing import Any, Literal

from penstock.consumers import Metrics, PushConsumer, PushOptions
from penstock.consumers.subscribe import Topics, push_consumer
from penstock.coordinator import (
    ATTEMPTS_DEFAULT,
    Coordination,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupDescription,
    GroupSettings,
    Operators,
    ParkedGroup,
    Part,
    RetryPolicy,
    Upkeep,
    WorkerSeen,
    check_coordination,
    open_coordination,
    run_roles,
)
from penstock.log import (
    ClosedError,
    InvalidArgument,
    ObjectStore,
    PenstockError,
    Position,
    Producer,
    Reader,
    Runtime,
    TopicSettings,
    open_store,
)
from penstock.log import Lake as LogLake

__all__ = ["Lake", "Producer", "PushConsumer", "Reader", "TopicSettings", "connect"]

_PUSH = PushOptions()

log = logging.getLogger("penstock.maintenance")

_MAINTAINING_ENDS_S = 5.0
_SECRETS = ("access_key_id", "secret_access_key", "session_token")


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    maintenance: bool = True,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
) -> Lake:
    """Open a lake on the running event loop; the arguments are those of `penstock.connect`."""
    runtime = runtime or Runtime()
    if store is None:
        store = open_store(url or "", runtime=runtime, options=options)
    elif url is not None or options is not None:
        raise InvalidArgument(
            "a store is given, so there is nothing for a URL or for options to say",
            operation="connect",
            expected="either a URL or a store",
            observed=f"both, and the URL is {os.fspath(url)}" if url is not None else "options beside a store",
        )
    check_coordination(coordination, store)
    return Lake(store, runtime=runtime, read_only=read_only, coordination=coordination, maintenance=maintenance, options=options)


class Lake(LogLake):
    """Topics, producers, readers and consumer groups of one root, on the running event loop.

    ``coordination`` names the table of consumer groups (see `penstock.coordinator.open_table`); all workers of a lake must name the same.
    With ``maintenance`` it takes its share in publishing, compaction, retention, trimming and collection, from some seconds after its first
    write on.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        coordination: str | None = None,
        maintenance: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(store, runtime=runtime, read_only=read_only)
        self._maintains = maintenance
        self._stop_maintaining = asyncio.Event()
        self._maintaining: asyncio.Task[None] | None = None
        self._table_url = coordination
        # A table in the same cloud takes the same credentials; whatever else is in the options is about the store.
        self._table_options = {name: value for name, value in (options or {}).items() if name in _SECRETS}
        self._coordination: Coordination | None = None
        self._operators: Operators | None = None
        self._consumers: list[PushConsumer] = []
        self._closing_consumers: asyncio.Task[None] | None = None

    @property
    def coordination(self) -> Coordination:
        """The table of consumer groups, and what this process is in it; opened when it is first needed."""
        self._check_open()
        if self._coordination is None:
            self._coordination = open_coordination(
                self._table_url,
                store=self.store,
                runtime=self.runtime,
                options=self._table_options,
                label=f"{socket.gethostname()}/{os.getpid()}",
            )
        return self._coordination

    async def _writable(self, operation: str) -> None:
        await super()._writable(operation)
        if self._maintains and self._maintaining is None:
            self._maintaining = asyncio.ensure_future(self._maintain())

    async def _maintain(self) -> None:
        """Play the role of maintenance, as far as it falls to this process. Nobody waits for it: what fails is logged."""
        coordination = self.coordination
        upkeep = Upkeep(self, coordination.cells, coordination.groups, on_step=_log_step)
        part = Part(topics=upkeep.topics, play=upkeep.play)
        await run_roles(
            coordination.cells,
            coordination.worker,
            coordination.watch,
            self.runtime,
            part,
            self._stop_maintaining,
            report=lambda topic, error: _log_step(topic, "role", error),
        )

    async def _end_maintaining(self) -> None:
        self._stop_maintaining.set()
        if self._maintaining is not None:
            await asyncio.wait((self._maintaining,), timeout=_MAINTAINING_ENDS_S)
            self._maintaining.cancel()  # every step may be broken off
            await asyncio.gather(self._maintaining, return_exceptions=True)

    # --- Consumers --------------------------------------------------------------------------------------------------------------

    def push_consumer(
        self,
        topic: Topics,
        *,
        group: str,
        listener: Callable[..., Any],
        delivery_order: DeliveryOrder | str | None = None,
        filter: str | None = None,
        start: Position = "earliest",
        retry: RetryPolicy | None = None,
        max_attempts: int | EllipsisType | None = ...,
        dead_letter_policy: DeadLetterPolicy | str | None = None,
        threads: int = _PUSH.threads,
        cache_messages: int = _PUSH.cache_messages,
        cache_bytes: int = _PUSH.cache_bytes,
        consume_timeout: timedelta = _PUSH.consume_timeout,
        batch: Literal["group", "queue"] | None = None,
        batch_messages: int = _PUSH.batch_messages,
        metrics: Metrics | None = None,
    ) -> PushConsumer:
        """Run ``listener`` for every message of a consumer group: ``async with lake.push_consumer(…) as consumer``, or await it.

        The arguments are those of `penstock.Lake.push_consumer`. A coroutine function runs on this loop, ``threads`` at once; an ordinary
        function in threads. Raises at once what is wrong with the call, and when it is awaited what topic or group do not fit.
        """
        self._check_open()
        if self._closing_consumers is not None:
            raise ClosedError("the lake is being closed", object=self.url)
        consumer = push_consumer(
            self,
            lambda: self.coordination,
            topic,
            group=group,
            listener=listener,
            delivery_order=delivery_order,
            filter=filter,
            start=start,
            retry=retry,
            max_attempts=max_attempts,
            dead_letter_policy=dead_letter_policy,
            threads=threads,
            cache_messages=cache_messages,
            cache_bytes=cache_bytes,
            consume_timeout=consume_timeout,
            batch=batch,
            batch_messages=batch_messages,
            metrics=metrics,
        )
        self._consumers = [one for one in self._consumers if not one.done] + [consumer]
        return consumer

    # --- Consumer groups --------------------------------------------------------------------------------------------------------

    async def create_group(
        self,
        name: str,
        *,
        delivery_order: DeliveryOrder | str = DeliveryOrder.ORDERLY,
        retry: RetryPolicy | None = None,
        max_attempts: int | None = ATTEMPTS_DEFAULT,
        dead_letter_policy: DeadLetterPolicy | str = DeadLetterPolicy.CONTINUE,
        filters: Mapping[str, str] | None = None,
    ) -> GroupSettings:
        """Make a consumer group; fine when it exists with these settings. A consumer makes its group by itself, too.

        ``delivery_order`` is ORDERLY (a message group's messages one after the other) or CONCURRENT, for good. ``retry`` says when a failed
        message is run again (default: each second, CONCURRENT: by RocketMQ's table of 10 s to 2 h); after ``max_attempts`` deliveries (None:
        any number) it goes to the dead-letter queue, or with ``dead_letter_policy="park"`` its message group stands still until an operator
        releases or skips it. ``filters`` are tags by topic, as ``{"orders": "paid || refunded"}``.

        Raises `GroupExists`, showing both, when it has other settings, `InvalidArgument` or `LimitExceeded` for a bad name or value.
        """
        stated = {
            "delivery_order": delivery_order,
            "max_attempts": max_attempts,
            "dead_letter_policy": dead_letter_policy,
            "filters": {} if filters is None else filters,
        }
        settings = GroupSettings.stating(stated if retry is None else {**stated, "retry": retry})
        return await self._operating.create(name, settings)

    async def alter_group(self, name: str, **changes: object) -> GroupSettings:
        """Change ``retry``, ``max_attempts``, ``dead_letter_policy`` or ``filters``; members see it within seconds.

        Raises `GroupNotFound`, and `InvalidArgument` for anything else.
        """
        return await self._operating.alter(name, **changes)

    async def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a consumer group; one of its name that is made later begins anew.

        Raises `GroupInUse` when a member lives. To be sure of one that seems dead it is watched for its lease and a quarter more. With
        ``force`` nobody looks, and members that live end with an error. Raises `GroupNotFound`.
        """
        await self._operating.delete(name, force=force)

    async def groups(self) -> dict[str, GroupSettings]:
        """The settings of all consumer groups, by name."""
        return await self._operating.groups()

    async def describe_group(self, name: str) -> GroupDescription:
        """Settings, members, and for every queue who owns it, how far it is and what holds it up. Raises `GroupNotFound`."""
        return await self._operating.describe(name)

    async def workers(self, *, watch: timedelta | None = None) -> list[WorkerSeen]:
        """The processes that have consumers open, and whether each lives. They are watched until that is known, at most for ``watch``."""
        return await self._operating.workers(watch=watch)

    # --- Backtrack, parked message groups ---------------------------------------------------------------------------------------

    async def reset_offsets(self, topic: str, group: str, to: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic (backtrack), while its consumers run. Gives the offset of each queue.

        ``to`` is an offset, a store time with a zone, ``"earliest"`` or ``"latest"``, turned into offsets once, now; ``queues``: only these.
        Members carry it out within seconds: what is in flight is fenced, nothing before the new offsets is handed out again, and nothing
        after them is lost. Raises `GroupNotFound`, `TopicNotFound`, `InvalidArgument`, and `OffsetOutOfRange` for an offset that is not kept.
        """
        return await self._operating.reset(topic, group, to, queues)

    async def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The message groups that are parked, with the message that each stands at; only of a topic, of a queue, or of this name."""
        return await self._operating.parked(group, topic=topic, queue=queue, message_group=message_group)

    async def release(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Try parked messages again, with no strike against them. Chosen as by `parked`; gives those it was ordered for.

        The order is one write, and the owners of the queues carry it out within seconds. Raises `InvalidArgument` when a message group is
        named that is not parked.
        """
        return await self._operating.release(group, topic=topic, queue=queue, message_group=message_group)

    async def skip(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on behind it. Otherwise as `release`."""
        return await self._operating.skip(group, topic=topic, queue=queue, message_group=message_group)

    @property
    def _operating(self) -> Operators:
        if self._operators is None:
            self._operators = Operators(self, self.coordination)
        self._check_open()
        return self._operators

    async def close(self) -> None:
        """Close all consumers, which lets their handlers end, then readers and producers (writing what was sent), then the rest.

        Raises the first error of a consumer or producer that nobody was told. Whoever closes it meanwhile waits for the same end; closing again
        does nothing. Giving up waiting does not stop it.
        """
        if self._closing_consumers is None:
            self._closing_consumers = asyncio.ensure_future(self._close_consumers())
        try:
            await asyncio.shield(self._closing_consumers)
        finally:
            await super().close()

    async def _close_consumers(self) -> None:
        untold = [one for one in self._consumers if not one.closed]
        ends = await asyncio.gather(*(one.close() for one in self._consumers), return_exceptions=True)
        for consumer, end in zip(self._consumers, ends, strict=True):
            if consumer in untold and end is not None:
                raise end

    async def _close(self) -> None:
        try:
            await self._end_maintaining()
            if self._coordination is not None:
                await self._coordination.close()
        finally:
            await super()._close()


def _log_step(topic: str, step: str, result: object) -> None:
    if isinstance(result, PenstockError):
        log.warning("maintenance of topic %s: %s failed, and is tried again: %s", topic, step, result)
