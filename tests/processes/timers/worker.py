"""A machine that plays a topic's timers in one process after another, each of which is killed amid letting go.

``python -m tests.processes.timers.worker LAKE SEED LIVES``: each life is forked, lets some messages go, and ends by SIGKILL before or behind a
write that the seed chooses. It ends when all lives have, or when nothing is left to let go; its exit status is the number of lives that were killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import penstock.aio
from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.delivery import play
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.player import TimerStatistics
from penstock.log.stores import ObjectStore, open_store
from penstock.log.stores.wrapper import StoreCall, StoreWrapper

T = TypeVar("T")

TOPIC = "orders"
OPTIONS = TimerOptions(
    tick=timedelta(milliseconds=50), claim_rows=7, flush_rows=40, merge_runs=2, group_bytes=2_000, ahead=timedelta(seconds=1)
)
"""So that some hundred messages make many claims, and lie in runs."""
FIRED_MOST = 12
WRITES_MOST = 4
"""Of a step: a claim, the messages, what became of them, and a run."""


class Deadly(StoreWrapper):
    """A store whose user dies, once ``armed``, before or behind its ``nth`` write from then on."""

    def __init__(self, inner: ObjectStore, nth: int, *, behind: bool) -> None:
        super().__init__(inner)
        self._left = nth
        self._behind = behind
        self.armed = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        dies = False
        if self.armed and call.verb == "put":
            self._left -= 1
            dies = self._left == 0
        if dies and not self._behind:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await run()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def live(lake_url: str, rng: random.Random) -> None:
    """One life; it returns when all has gone that was sent."""
    stop = asyncio.Event()
    fired = rng.randint(0, FIRED_MOST)
    store = Deadly(open_store(lake_url), rng.randint(1, WRITES_MOST), behind=rng.random() < 0.5)

    async def step(statistics: TimerStatistics) -> None:
        if not statistics.waiting and not await lake.waiting(TOPIC, limit=1):  # what it has not read yet waits, too
            stop.set()
        elif statistics.fired >= fired:
            store.armed = True

    async with penstock.aio.connect(store=store, maintenance=False) as lake:
        await play(lake, timer_cells(lake), TOPIC, stop, OPTIONS, on_step=step)


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
