"""The timers of a lake as a role: whoever plays it lets go what waits for the topics of type DELAY."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from ...log.errors import PenstockError, TopicDeleted, TopicNotFound
from ...log.lake import Lake
from ...log.paths import TOPICS, is_timer_log, topic_name, topic_of
from ..cells import Cells
from .cell import timer_cells
from .options import TimerOptions
from .play import TimerStatistics, play

TIMERS = "timers"
"""The role's name."""
_LOOK_S = 5.0
"""Between looks whether a topic that is gone was made anew."""


class Timers:
    """Plays the timers of one lake. Any number of processes may do so at once; one is enough."""

    def __init__(self, lake: Lake, *, cells: Cells | None = None, options: TimerOptions | None = None) -> None:
        self._lake = lake
        self._cells = cells or timer_cells(lake)
        self._options = options or TimerOptions()
        self.statistics: dict[str, TimerStatistics] = {}
        """By topic, of what this process has done."""

    async def topics(self) -> Collection[str]:
        """The topics with a timer log, as the folders say: those of deleted ones too."""
        found = []
        for folder in await self._lake.store.list_folders(TOPICS):
            with suppress(PenstockError):
                if is_timer_log(name := topic_name(folder)):
                    found.append(topic_of(name))
        return found

    async def play(self, topic: str, stop: asyncio.Event) -> None:
        """Let go what is due until ``stop`` is set. Waits where there is no such topic."""
        try:
            await play(
                self._lake,
                self._cells,
                topic,
                stop,
                self._options,
                on_statistics=lambda statistics: self.statistics.update({topic: statistics}),
            )
        except (TopicNotFound, TopicDeleted):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await stop.wait()
