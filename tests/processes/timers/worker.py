"""A machine that plays a topic's timers in one process after another, each of which is killed amid letting go.

``python -m tests.processes.timers.worker LAKE SEED LIVES``: each life is forked, lets some messages go, and ends by SIGKILL at a moment drawn
by the seed. It ends when all lives have, or when nothing is left to let go; its exit status is the number of lives that were killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from datetime import timedelta

import penstock.aio
from penstock.coordinator.timers.cell import timer_cells
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.play import play
from penstock.coordinator.timers.player import TimerStatistics

TOPIC = "orders"
OPTIONS = TimerOptions(
    tick=timedelta(milliseconds=50), claim_rows=7, flush_rows=40, merge_runs=2, group_bytes=2_000, ahead=timedelta(seconds=1)
)
"""So that some hundred messages make many claims, and lie in runs."""
FIRED_MOST = 12
AMID_S = 0.1
"""A step takes about so long."""


async def live(lake_url: str, rng: random.Random) -> None:
    """One life; it returns when all has gone that was sent."""
    stop = asyncio.Event()
    fired, after_s = rng.randint(0, FIRED_MOST), AMID_S * rng.random()
    dying: list[threading.Timer] = []

    async def step(statistics: TimerStatistics) -> None:
        if not statistics.waiting and not await lake.waiting(TOPIC, limit=1):  # what it has not read yet waits, too
            stop.set()
        elif statistics.fired >= fired and not dying:
            dying.append(threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL)))
            dying[0].start()

    async with penstock.aio.connect(lake_url, maintenance=False) as lake:
        await play(lake, timer_cells(lake), TOPIC, stop, OPTIONS, on_step=step)
    for timer in dying:
        timer.cancel()


def main(lake_url: str, seed: str, lives: str) -> int:
    killed = 0
    for number in range(int(lives)):
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(live(lake_url, random.Random(f"{seed}/{number}")))
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            return killed if os.WEXITSTATUS(status) == 0 else 100
    return killed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
