"""Playing a topic's timers: messages whose time has come go from the timer log into the topic, each once, in order and never early.

Any number of processes may do so at once; one is enough. What one has claimed in the cell, whoever comes next finishes (docs/0013).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...log.lake import Lake
from ..cells import Cells
from .options import TimerOptions
from .player import OnStep, Player, TimerStatistics

_DEFAULTS = TimerOptions()


async def _unwatched(statistics: TimerStatistics) -> None:
    """Nobody asked."""


async def play(
    lake: Lake,
    cells: Cells,
    topic: str,
    stop: asyncio.Event,
    options: TimerOptions = _DEFAULTS,
    *,
    on_step: OnStep = _unwatched,
) -> None:
    """Let messages of a topic of type DELAY go when their time has come, until ``stop`` is set; the step under way is ended first.

    Raises `TopicNotFound` or `TopicDeleted` when there is no such topic, `DataDamaged` when something of what waits cannot be read, and what the
    store raises again and again: then it may be played again. ``on_step`` is awaited after every step.
    """
    async with _player(lake, cells, topic, options) as player:
        await player.run(stop, on_step)


async def play_once(lake: Lake, cells: Cells, topic: str, options: TimerOptions = _DEFAULTS) -> TimerStatistics:
    """Let go what is due now. Raises what `play` raises, and what the store raises at once."""
    async with _player(lake, cells, topic, options) as player:
        await player.run_out()
        return player.statistics


@asynccontextmanager
async def _player(lake: Lake, cells: Cells, topic: str, options: TimerOptions) -> AsyncIterator[Player]:
    await lake.keep_time()
    served, log = await lake.timer_log(topic, writable=True)
    player = Player(lake, cells, served, log, options)
    try:
        await player.begin()
        yield player
    finally:
        await player.close()
