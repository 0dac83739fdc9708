"""Plays a topic's timers: due messages go from the timer log into the topic, each once, in order and never early (docs/0013).

Any number of processes may play at once; one is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...log.lake import LogLake
from ..cells.cells import Cells
from .options import TimerOptions
from .player import OnStep, TimerPlayer, TimerStatistics

_DEFAULTS = TimerOptions()


async def _unwatched(statistics: TimerStatistics) -> None: ...


async def play(
    lake: LogLake,
    cells: Cells,
    topic: str,
    stop: asyncio.Event,
    options: TimerOptions = _DEFAULTS,
    *,
    on_step: OnStep = _unwatched,
) -> None:
    """Deliver due messages of a topic of type DELAY until ``stop`` is set, then finish the step under way. ``on_step`` is awaited after every step.

    Raises `TopicNotFound`, `TopicDeleted`, and `DataDamaged` for an unreadable waiting message. Raises the store's errors if they repeat; then call
    again.
    """
    async with _player(lake, cells, topic, options) as player:
        await player.run(stop, on_step)


async def play_once(lake: LogLake, cells: Cells, topic: str, options: TimerOptions = _DEFAULTS) -> TimerStatistics:
    """Deliver what is due now. Raises what `play` raises, and the store's errors at once."""
    async with _player(lake, cells, topic, options) as player:
        await player.run_out()
        return player.statistics


@asynccontextmanager
async def _player(lake: LogLake, cells: Cells, topic: str, options: TimerOptions) -> AsyncIterator[TimerPlayer]:
    await lake.keep_time()
    served, log = await LogLake.timer_log(lake, topic, writable=True)  # as a player, not as a sender, who may stand in for players
    player = TimerPlayer(lake, cells, served, log, options)
    try:
        await player.begin()
        yield player
    finally:
        await player.close()
