"""PushConsumer: hands messages to a listener, and settles them by its results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..coordinator.coordination import Coordination
from ..coordinator.groups.record import DeliveryOrder
from ..coordinator.workers.lease import MemberWork
from ..log.errors import ClosedError
from ..log.lake import LogLake
from .consumer import GroupMember
from .failures.failure_log import FailureLog
from .handlers.executor import executor_of
from .limits import HUNG_MAX, ROUNDS_PER_TIMEOUT, QueueLimits
from .membership import Membership, Subscription
from .push_options import PushOptions
from .queues.assigned_queues import AssignedQueues
from .queues.dispatcher import Dispatcher
from .queues.push_processor import PushContext, PushProcessor
from .queues.work_meter import WorkMeter, WorkNow
from .statistics import ConsumerStatistics

_SLOW_S = 0.005
"""ORDERLY: the time after which other message groups wait no longer behind a message while a thread is idle."""
_LONG_S = 0.5
"""The same while all threads are busy."""


class PushConsumer(GroupMember):
    """A member of a consumer group that runs a listener for every message. ``lake.push_consumer`` makes it.

    ORDERLY: the messages of a message group run one after the other, in the order they were stored, each when the earlier one is
    settled. Different groups run side by side. CONCURRENT: all messages run side by side.

    A message is acknowledged once, by its queue's owner; after a crash it may be handed out again. Its `delivery_attempt` and
    `epoch` fence late effects of a paused process. Use the consumer in an ``async with`` block, or close it: that lets running
    handlers end, settles their results, and hands the queues over.
    """

    _CLOSE_HINT: ClassVar[str] = "let it drain, which does not wait, or tell another thread or task to close it"

    def __init__(
        self,
        lake: LogLake,
        coordination: Coordination,
        *,
        group: str,
        subscriptions: Mapping[str, Subscription],
        listener: Callable[[Any], Any],
        stated: Mapping[str, object],
        options: PushOptions,
    ) -> None:
        super().__init__(Membership(lake, coordination, group=group, subscriptions=subscriptions, stated=stated), group=group)
        self._runtime, self._store = lake.runtime, lake.store
        self._options = options
        self._listener = listener
        self._worker = coordination.worker
        self._cells = coordination.cells
        self._dispatcher: Dispatcher | None = None
        self._failures = FailureLog(group, listener)
        self._meter = WorkMeter(lake.runtime.clock, threads=options.threads)
        self._owner = AssignedQueues(
            PushProcessor,
            self._surroundings,
            _in_flight,
            lake=lake,
            group=group,
            membership=self._membership,
            metrics=options.metrics,
            cache_messages=options.cache_messages,
            cache_bytes=options.cache_bytes,
        )

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Begin to close without waiting for the end: messages that were not started go back."""
        await self._give_up()
        self._owner.drain()

    async def _begin(self) -> None:
        record = await self._membership.begin()
        options = self._options
        executor = executor_of(
            self._listener,
            batches=options.batch is not None,
            at_once=options.threads,
            clock=self._runtime.clock,
            group=self.group,
            idle=self._spread,
        )
        orderly = record.settings.delivery_order is DeliveryOrder.ORDERLY
        self._dispatcher = Dispatcher(executor, orderly=orderly)
        self._membership.tell(self._work_told)

    async def _work(self) -> None:
        assert self._dispatcher is not None, "it has begun"
        ticking = asyncio.ensure_future(self._time_out(self._dispatcher))
        try:
            await self._owner.run()
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)

    async def _end(self) -> None:
        if self._loop is None and self._dispatcher is not None:
            await self._dispatcher.executor.close()  # the consumer never began
        await self._owner.end()

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            if self._dispatcher is not None:
                await self._dispatcher.executor.close()

    def _handles_here(self) -> bool:
        return self._dispatcher is not None and self._dispatcher.executor.runs_here()

    # --- What queues ask ----------------------------------------------------------------------------------------------------------

    def _surroundings(self) -> PushContext:
        options = self._options
        assert self._dispatcher is not None, "it has begun"
        return PushContext(
            group=self.group,
            runtime=self._runtime,
            store=self._store,
            cells=self._cells,
            worker=self._worker,
            member=self._membership.member,
            dispatcher=self._dispatcher,
            room=self._owner.room,
            failures=self._failures,
            meter=self._meter,
            consume_timeout_s=options.consume_timeout.total_seconds(),
            freed=self._owner.freed,
            on_expired=options.on_expired,
            limits=QueueLimits(
                batch_of=options.batch,
                run_messages=options.batch_messages if options.batch else QueueLimits().run_messages,
                retained=max(QueueLimits().retained, options.cache_messages),
                window=options.window,
                waiting=options.waiting,
                threads=options.threads,
                shared_lanes=options.threads,
            ),
        )

    def _spread(self, slow_s: float = _SLOW_S) -> None:
        """Let others pass what runs for so long. CONCURRENT: however long it has run."""
        for processor in self._owner.queues.values():
            processor.spread(slow_s)

    async def _time_out(self, dispatcher: Dispatcher) -> None:
        timeout_s = self._options.consume_timeout.total_seconds()
        while True:
            await asyncio.sleep(min(1.0, timeout_s / ROUNDS_PER_TIMEOUT))
            if dispatcher.executor.is_idle:
                self._spread()
            elif dispatcher.orderly:
                self._spread(_LONG_S)
            before_s = self._runtime.clock.monotonic_s() - timeout_s
            reason = f"its handler ran longer than {timeout_s:g} s"
            dispatcher.time_out(list(self._owner.queues.values()), before_s, reason)
            if dispatcher.hung > HUNG_MAX:
                self._membership.fail(
                    ClosedError("too many handlers hang", operation="consume", object=self.group, observed=dispatcher.hung)
                )

    # --- What operators see -------------------------------------------------------------------------------------------------------

    def statistics(self) -> ConsumerStatistics:
        """The present state of the consumer's queues."""
        return self._owner.statistics()

    def _work_told(self, number: int) -> MemberWork:
        queues, now_s = dict(self._owner.queues), self._runtime.clock.monotonic_s()
        return self._meter.told(
            number,
            WorkNow(
                busy=0 if self._dispatcher is None else self._dispatcher.executor.busy,
                held=sum(one.schedule.held for one in queues.values()),
                done=sum(run.done for one in queues.values() for run in list(one.schedule.running)),
                times_s=tuple(took_s for one in queues.values() for took_s in one.times_s(now_s)),
                next_offsets={queue: one.next_offset for queue, one in queues.items()},
                full=any(one.starving for one in queues.values()),
                paused=any(one.schedule.room(one.keeper.cell) <= 0 for one in queues.values()),
            ),
        )


def _in_flight(processor: PushProcessor) -> int:
    return sum(run.size - run.done for run in list(processor.schedule.running))
