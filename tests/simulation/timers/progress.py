"""T12: whether a player pauses beside a message that is due. Looked at whenever nothing is ready and time is about to pass.

A message is due when its time has come by all that the player knows of the store's clock, and so has that of the claim that is open. A player
that is not stopped and knows the message may pause for a tick and a probe, and no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.coordinator.timers.cell import preconditions
from penstock.coordinator.timers.cell.selection import within
from penstock.coordinator.timers.player import TimerPlayer
from penstock.coordinator.timers.store_time import least_us
from tests.simulation.process import SimProcess

if TYPE_CHECKING:
    from tests.simulation.timers.machine import Machine

SLACK_S = 1.0


class Watched:
    """A player whose pauses are seen."""

    def __init__(self, player: TimerPlayer, process: SimProcess) -> None:
        self.player = player
        self._process = process
        self._pause = player._pause
        self._since_s: float | None = None
        """By the process's own time, from when on it pauses beside something that is due."""
        self._pausing = False
        self._began_s = 0.0
        player._pause = self._seen  # type: ignore[method-assign]

    async def _seen(self, seconds: float, stop: asyncio.Event) -> None:
        self._pausing, self._since_s, self._began_s = True, None, asyncio.get_running_loop().time()
        try:
            await self._pause(seconds, stop)
        finally:
            self._pausing = False

    def waits_s(self, *, now_s: float) -> float:
        """For how long it has paused beside something that is due."""
        if not self._pausing or not self._is_due():
            self._since_s = None
            return 0.0
        awake_s = (now_s - self._process.asleep_s) * self._process.rate
        # Machines that are suspended while they are suspended have timers that sleep for both.
        self._since_s = max(awake_s, self._began_s) if self._since_s is None else self._since_s
        return awake_s - self._since_s

    def _is_due(self) -> bool:
        player, clock = self.player, self.player._runtime.clock
        store_us = least_us(player._time._answers, clock.monotonic_s())
        if store_us is None:
            return False
        now_us, state = preconditions.due_until_us(store_us, clock), player._cell.state
        if state.claim is not None and state.claim != player._arrived:
            return not preconditions.too_soon_us(state.claim, now_us)
        here = player._together().waiting
        left = here.time_us[~within(here, state.bounds)]
        return bool(len(left)) and int(left.min()) <= now_us


def standing_still(machines: Iterable[Machine], *, now_s: float) -> Iterator[str]:
    """The machines of which that is so, in words."""
    for machine in machines:
        process, watched = machine.process, machine.watched
        if process is None or process.crashed or process.stopped or watched is None:
            continue
        options = machine.world.plot.options
        waits_s = watched.waits_s(now_s=now_s)
        if waits_s > options.tick.total_seconds() + options.probe.total_seconds() + SLACK_S:
            yield f"T12 {process.name} has paused for {waits_s:.1f} s beside what is due: {watched.player._cell.state}"
