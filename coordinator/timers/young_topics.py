"""Spreads the news of young topics.

Players list the topics once a minute. A process that uses a younger one names it in the players' record, which all read some three times a lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from ...log.errors import PenstockError
from ...log.runtime.backoff import wait_for
from ...log.runtime.runtime import Clock
from ..groups.record import GroupRecord, Position
from ..rebalance.roles import Players

YOUNG_S = 120.0
"""The age at which every player knows a topic."""
_TOLD_MAX = 64
"""The youngest topics that the record names, as hints."""
_AGAIN_S = 5.0


def is_young(made_ms: int, now_ms: int) -> bool:
    return seconds_until_known(made_ms, now_ms) > 0


def seconds_until_known(made_ms: int, now_ms: int) -> float:
    return YOUNG_S - (now_ms - made_ms) / 1000


def young_topics_of(record: GroupRecord, now_ms: int) -> dict[str, int]:
    """The record's young topics, with the times of their making."""
    return {topic: position.life for topic, position in record.positions.items() if is_young(position.life, now_ms)}


def with_young_topics(record: GroupRecord, made_ms: Mapping[str, int], now_ms: int) -> GroupRecord:
    """Topics are positions without queues, whose life is the time of their making."""
    if all(topic in record.positions and record.positions[topic].life >= made for topic, made in made_ms.items()):
        return record
    known = young_topics_of(record, now_ms)
    together = {**known, **{topic: max(made, known.get(topic, made)) for topic, made in made_ms.items()}}
    youngest = sorted(together.items(), key=lambda one: (-one[1], one[0]))[:_TOLD_MAX]
    return replace(record, positions={topic: Position((), (), made) for topic, made in youngest})


class YoungTopics:
    """The young topics that this process knows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._announced: dict[str, int] = {}
        """The topics that all players know now or soon."""
        self._unannounced: dict[str, int] = {}
        self._soon = asyncio.Event()

    def notice(self, topic: str, made_ms: int) -> None:
        if is_young(made_ms, self._clock.wall_ms()) and made_ms > self._announced.get(topic, -1):
            self._announced[topic] = self._unannounced[topic] = made_ms
            self._soon.set()

    def receive(self, record: GroupRecord) -> list[str]:
        """The topics in the record that were not known here."""
        news = {
            topic: made
            for topic, made in young_topics_of(record, self._clock.wall_ms()).items()
            if made > self._announced.get(topic, -1)
        }
        self._announced |= news
        return list(news)

    async def tell(
        self,
        players: Players,
        role: str,
        stop: asyncio.Event,
        *,
        ready: Callable[[], Awaitable[None]],
        report: Callable[[PenstockError], None],
    ) -> None:
        """Announce the noticed topics to a role's players until ``stop`` is set. ``ready`` is awaited before anything is written. Failures are
        reported, and repeated while the topic is young.
        """
        while not stop.is_set() or self._unannounced:
            await wait_for(None, stop, self._soon)
            self._soon.clear()
            now_ms = self._clock.wall_ms()
            young = {topic: made_ms for topic, made_ms in self._unannounced.items() if is_young(made_ms, now_ms)}
            self._unannounced = {}
            if not young:
                continue
            try:
                await ready()
                await players.update(role, partial(with_young_topics, made_ms=young, now_ms=now_ms))
            except PenstockError as error:
                report(error)
                if not stop.is_set():  # a process that ends leaves it to the players' own listings
                    self._unannounced = {**young, **self._unannounced}
                    self._soon.set()
                    await wait_for(_AGAIN_S, stop)
