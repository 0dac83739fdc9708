"""The queues that one consumer owns, and what each may hold in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...coordinator.groups.record import GroupDeleted, GroupRecord
from ...coordinator.queues.keeper import QueueKeeper
from ...coordinator.rebalance.balance import Queue
from ...log.lake import LogLake
from ...log.metrics import Metrics, Sample
from ..dead_letters.writer import DeadLetterWriter
from ..membership import Membership
from ..statistics import REFUSED, ConsumerStatistics, QueueStatistics, TopicCounters, consumer_samples
from .lag import queue_lag
from .processor import ProcessorContext, QueueProcessor

LifeT = TypeVar("LifeT", bound=QueueProcessor[Any])


class AssignedQueues(Generic[LifeT]):
    """The queues that one consumer owns, each run in a life of its own."""

    def __init__(
        self,
        life: type[LifeT],
        surroundings: Callable[[], ProcessorContext],
        in_flight: Callable[[LifeT], int],
        *,
        lake: LogLake,
        group: str,
        membership: Membership,
        metrics: Metrics,
        cache_messages: int,
        cache_bytes: int,
    ) -> None:
        self._life = life
        self._surroundings = surroundings
        self._in_flight = in_flight
        self._lake = lake
        self._group = group
        self._membership = membership
        self._metrics = metrics
        self._cache_messages = cache_messages
        self._cache_bytes = cache_bytes
        self.queues: dict[Queue, LifeT] = {}
        self._counters: dict[str, TopicCounters] = {}
        self._lives: dict[asyncio.Task[None], Queue] = {}

    async def run(self) -> None:
        """Take and give back queues until the member has left. Raises permanent errors."""
        unwatch = self._metrics.watch(self._samples)
        try:
            await self._rounds()
        finally:
            unwatch()

    async def _rounds(self) -> None:
        while True:
            try:
                change = await self._membership.round()
            except GroupDeleted:
                for life in self.queues.values():
                    life.part()
                raise
            if change is None:
                continue
            for queue, keeper in change.taken.items():
                self._own(queue, keeper, change.record)
            for queue in change.drain:
                if queue in self.queues:
                    self.queues[queue].drain()
            for life in self.queues.values():
                life.notice(change.record)
            self._look_after_lives()
            if self._membership.leaving and not self._lives and change.may_leave:
                return
            await self._membership.rest(self._lives)

    async def end(self) -> None:
        for task in self._lives:
            task.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        self.queues.clear()
        await self._membership.end()

    def drain(self) -> None:
        for life in self.queues.values():
            life.drain()

    def _own(self, queue: Queue, keeper: QueueKeeper, record: GroupRecord) -> None:
        topic, number = queue
        counters = self._counters.get(topic)
        if counters is None:
            counters = self._counters[topic] = TopicCounters.of(self._metrics, topic=topic, group=self._group)
        if keeper.taken_from:
            counters.take_overs.add()
        writer = DeadLetterWriter(self._lake, self._group, topic, number, may_write=lambda: not keeper.ended.is_set())
        around, feed = self._surroundings(), self._membership.feed(topic)
        life = self._life(around, keeper, feed, writer, counters, topic=topic, queue=number, record=record)
        self.queues[queue] = life
        if self._membership.leaving:
            life.drain()
        self._lives[asyncio.ensure_future(life.run())] = queue

    def _look_after_lives(self) -> None:
        for task in [task for task in self._lives if task.done()]:
            queue = self._lives.pop(task)
            life = self.queues.get(queue)
            if life is not None and life.ended.is_set():
                del self.queues[queue]
            task.result()

    # --- What queues ask ----------------------------------------------------------------------------------------------------------

    def room(self, life: QueueProcessor[Any]) -> tuple[int, int]:
        """(messages, bytes) that a queue may fetch: its part of the caches, and half of the rest."""
        count = max(1, len(self.queues))
        messages, size = 0, 0.0
        for one in self.queues.values():
            held = one.schedule.held
            messages += held
            size += held * one.bytes_per_message
        own = life.schedule.held
        room = max(self._cache_messages // count - own, (self._cache_messages - messages) // 2, 1 if own == 0 else 0)
        room_bytes = max(self._cache_bytes / count - own * life.bytes_per_message, (self._cache_bytes - size) / 2)
        if room_bytes < life.bytes_per_message and own:
            return 0, 0
        return room, max(1, int(room_bytes))

    def freed(self) -> None:
        for life in self.queues.values():
            if life.starving:
                life.feed()

    # --- What operators see -------------------------------------------------------------------------------------------------------

    def statistics(self) -> ConsumerStatistics:
        return ConsumerStatistics(
            group=self._group,
            queues=tuple(_statistics(life, self._in_flight(life)) for life in list(self.queues.values())),
            topic_queues=tuple(self._membership.queues.items()),
        )

    def _samples(self) -> list[Sample]:
        samples = consumer_samples(self.statistics(), now_ms=self._lake.runtime.clock.wall_ms())
        return [Sample(REFUSED, (), self._membership.refused_s), *samples]


def _statistics(life: QueueProcessor[Any], in_flight: int) -> QueueStatistics:
    cell, schedule = life.keeper.cell, life.schedule
    following, stands = life.next_offset, queue_lag(cell, schedule.blocked.elsewhere)
    listed = len(cell.tries) + cell.count_spilled + len(cell.markers)
    unsettled, ready = stands.first_unsettled < following, schedule.next_fresh < following
    return QueueStatistics(
        topic=life.topic,
        queue=life.queue,
        lag_messages=max(0, following - cell.settled.floor - cell.settled.count_above) + listed,
        inflight_messages=in_flight,
        ready_messages=max(0, following - schedule.next_fresh),
        oldest_unsettled_ms=life.ages.time_ms(stands.first_unsettled) if unsettled else None,
        oldest_ready_ms=life.ages.time_ms(schedule.next_fresh) if ready else None,
        cached_messages=schedule.in_memory,
        cached_bytes=round(schedule.in_memory * life.bytes_per_message),
        waiting_messages=stands.waiting_messages,
        blocked_groups=stands.blocked_groups,
        parked_groups=stands.parked_groups,
        cell_bytes=life.keeper.size_bytes,
        fetching_paused=schedule.room(cell) <= 0,
    )
