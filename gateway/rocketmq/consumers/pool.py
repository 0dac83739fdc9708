"""One consumer for each consumer group and topic, opened on demand."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

from ....aio import Lake, SimpleConsumer
from ....coordinator import DeliveryOrder, GroupSettings
from ....log import MessageType, PenstockError
from ....log.metrics import Metrics
from ....log.runtime.runtime import Clock
from ...topics.directory import TopicDirectory
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError
from .filters import check_agreement

log = logging.getLogger("penstock.gateway")

IDLE_S: Final = 30.0
"""An unused consumer is closed, and its queues go to others."""
_SETTINGS_S: Final = 10.0
"""The age at which a group's settings are read again; after a disagreement with a client they are read at once."""


@dataclass(slots=True)
class PooledConsumer:
    """An open consumer of a group on a topic."""

    group: str
    topic: str
    topic_type: MessageType
    consumer: SimpleConsumer
    settings: GroupSettings
    read_s: float
    users: int = 0
    used_s: float = 0.0

    @property
    def place(self) -> tuple[str, str]:
        return self.group, self.topic

    @property
    def in_order(self) -> bool:
        return self.settings.delivery_order is DeliveryOrder.ORDERLY


@dataclass(slots=True)
class _Place:
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    pooled: PooledConsumer | None = None


class ConsumerPool:
    """Opens needed consumers, and closes unused ones."""

    def __init__(self, lake: Lake, names: TopicDirectory, metrics: Metrics | None = None) -> None:
        self._lake = lake
        self._metrics = metrics
        self._names = names
        self._clock: Clock = lake.runtime.clock
        self._places: dict[tuple[str, str], _Place] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(place.pooled is not None for place in self._places.values())

    def of(self, group: str, topic: str, filter: str | None = None) -> AbstractAsyncContextManager[PooledConsumer]:
        """The consumer of a group on a topic, open as long as the block.

        ``filter``: the client's, which must be the group's, or becomes it on a new topic. None: not stated. Raises `StatusError` for an unknown or
        unfit group or topic, and what joining the group raises.
        """
        return _Use(self, group, topic, filter)

    async def begin(self, group: str, topic: str, filter: str | None) -> PooledConsumer:
        """`of`, to be ended by `end`."""
        pooled = await self._opened(group, topic, filter)
        pooled.users += 1
        try:
            if filter is not None:
                await self._check_filter(pooled, filter)
        except BaseException:
            self.end(pooled)
            raise
        return pooled

    def end(self, pooled: PooledConsumer) -> None:
        pooled.users -= 1
        pooled.used_s = self._clock.monotonic_s()

    async def _opened(self, group: str, topic: str, filter: str | None) -> PooledConsumer:
        key = group, topic
        place = self._places.get(key)
        if place is not None and (pooled := place.pooled) is not None and not pooled.consumer.has_ended:
            return pooled
        while True:
            place = self._places.setdefault(key, _Place())
            async with place.opening:
                if self._places.get(key) is not place:
                    continue  # it was swept away while this call waited, and nobody would ever close what is opened in it
                if place.pooled is None or place.pooled.consumer.has_ended:
                    place.pooled = None
                    place.pooled = await self._open(group, topic, filter)
                return place.pooled

    async def _open(self, group: str, topic: str, filter: str | None) -> PooledConsumer:
        found = await self._names.topic(topic)
        settings = await self._settings(group)
        if filter is not None and topic in settings.filters:
            check_agreement(filter, settings.filter_of(topic), group=group, topic=topic)
        stated = None if topic in settings.filters else filter
        consumer = self._lake.simple_consumer(topic, group=group, filter=stated, metrics=self._metrics)
        await consumer
        try:
            settings = await self._settings(group)
        except BaseException:
            self._close(consumer)  # else it has queues for as long as this process lives, and nobody asks it for their messages
            raise
        now_s = self._clock.monotonic_s()
        return PooledConsumer(group, topic, found.settings.message_type, consumer, settings, now_s, used_s=now_s)

    async def _settings(self, group: str) -> GroupSettings:
        settings = await self._names.group(group)
        if settings is None:
            raise StatusError(
                pb.CONSUMER_GROUP_NOT_FOUND,
                f"The consumer group {group} does not exist. Create it first: its delivery order is in its record.",
            )
        return settings

    async def _check_filter(self, pooled: PooledConsumer, filter: str) -> None:
        try:
            check_agreement(filter, pooled.settings.filter_of(pooled.topic), group=pooled.group, topic=pooled.topic)
            if self._clock.monotonic_s() - pooled.read_s < _SETTINGS_S:
                return
        except StatusError:
            if self._clock.monotonic_s() - pooled.read_s < 1.0:
                raise
        pooled.settings, pooled.read_s = await self._settings(pooled.group), self._clock.monotonic_s()
        check_agreement(filter, pooled.settings.filter_of(pooled.topic), group=pooled.group, topic=pooled.topic)

    def sweep(self) -> None:
        before_s = self._clock.monotonic_s() - IDLE_S
        for key, place in list(self._places.items()):
            pooled = place.pooled
            if place.opening.locked() or (pooled is not None and (pooled.users or pooled.used_s > before_s)):
                continue
            del self._places[key]
            if pooled is not None:
                self._close(pooled.consumer)

    def _close(self, consumer: SimpleConsumer) -> None:
        closing = asyncio.ensure_future(_closed(consumer))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all consumers: their queues go to other members at once."""
        places, self._places = list(self._places.values()), {}
        await asyncio.gather(*(_closed(place.pooled.consumer) for place in places if place.pooled is not None), *self._closing)


class _Use(AbstractAsyncContextManager[PooledConsumer]):
    """A class, as a generator takes three times as long."""

    __slots__ = ("_asked", "_pool", "_pooled")

    def __init__(self, pool: ConsumerPool, group: str, topic: str, filter: str | None) -> None:
        self._pool, self._asked = pool, (group, topic, filter)

    async def __aenter__(self) -> PooledConsumer:
        self._pooled = await self._pool.begin(*self._asked)
        return self._pooled

    async def __aexit__(self, *_: object) -> None:
        self._pool.end(self._pooled)


async def _closed(consumer: SimpleConsumer) -> None:
    with suppress(PenstockError):  # why it ended by itself was logged, and whoever used it was told
        await consumer.close()
