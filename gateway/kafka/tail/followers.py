"""Follows the topics that clients wait at: one task a topic, whatever number of clients."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ....log import PenstockError
from ....log.runtime.runtime import Clock
from ....log.topic.topics import Topic
from .signal import Signal

log = logging.getLogger("penstock.gateway")

IDLE_S: Final = 60.0
"""A topic is followed for so long after the last fetch. One that began anew with each fetch would probe the log quickly each time."""
_AGAIN_S: Final = 1.0


class TopicFollower:
    """Follows one topic as long as it is asked for."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic, self._clock = topic, clock
        self._asked_s = clock.monotonic_s()
        self._moved = Signal()
        self._task = asyncio.ensure_future(self._follow())

    @property
    def is_over(self) -> bool:
        return self._task.done()

    def moved(self) -> Signal:
        """A signal that each entry gives."""
        self._asked_s = self._clock.monotonic_s()
        return self._moved

    async def _follow(self) -> None:
        tail = self._topic.tail
        while (left_s := self._asked_s + IDLE_S - self._clock.monotonic_s()) > 0:
            entry = tail.state.entry
            try:
                async with asyncio.timeout(left_s):
                    await tail.wait_past(entry)
            except TimeoutError:
                continue
            except PenstockError as error:
                log.warning("the log of topic %s cannot be followed, and is tried again: %s", self._topic.paths.topic, error)
                await asyncio.sleep(_AGAIN_S)
            self._moved.give()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class TopicFollowers:
    """The followers of all topics that clients fetch from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._followers: dict[Topic, TopicFollower] = {}
        """A lake opens a topic anew after a deletion that failed, and then it is that one's tail which is looked at."""

    def of(self, topic: Topic) -> TopicFollower:
        known = self._followers.get(topic)
        if known is None or known.is_over:
            known = self._followers[topic] = TopicFollower(topic, self._clock)
        return known

    def forget_idle(self) -> None:
        for topic, follower in list(self._followers.items()):
            if follower.is_over:
                del self._followers[topic]

    async def close(self) -> None:
        for follower in self._followers.values():
            await follower.close()
