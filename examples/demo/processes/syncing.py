"""The demo's Spark driver, as its parent sees it: started, killed between two of its commits, started again, and told when all is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from tempfile import TemporaryFile
from typing import IO

from penstock.log.runtime.runtime import Clock

from ..outcome import DemoFailed, DriverCrash
from .child import Child
from .reports import DriverTask, Halted, Report, Synced, Syncing

_SAID_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Turns:
    """The events that the driver and the producers wait for."""

    syncing: asyncio.Event
    """Set when the driver follows the topic."""
    all_sent: asyncio.Event


async def run_driver(
    task: DriverTask,
    turns: Turns,
    *,
    clock: Clock,
    following: Callable[[], None],
    killed: Callable[[DriverCrash], None],
    returned: Callable[[DriverCrash], None],
) -> DriverCrash | None:
    """Sync until all events are sent and applied; the driver is killed by SIGKILL where the task halts. Raises `DemoFailed` with Spark's
    message.
    """
    crash: DriverCrash | None = None
    with TemporaryFile() as said:
        driver = _Driver(said)
        try:
            await driver.start(task)
            following()
            turns.syncing.set()
            end = await driver.followed(turns.all_sent)
            if isinstance(end, Halted):
                await driver.kill()
                crash = DriverCrash(end.target, end.batches, killed_ms=clock.wall_ms())
                killed(crash)
                await driver.start(replace(task, halt_at=None, warm_up=False))
                crash = replace(crash, returned_ms=clock.wall_ms())
                returned(crash)
                end = await driver.followed(turns.all_sent)
            if not isinstance(end, Synced) or end.stopped:
                raise DemoFailed("the sync did not apply everything", observed=end)
        except DemoFailed as error:
            if error.observed:  # the driver ended before it could say what happened
                said.seek(0)
                error.observed = f"{error.observed}; {said.read()[-_SAID_BYTES:].decode(errors='replace').strip()}"
            raise
        finally:
            await driver.kill()
    return crash


class _Driver:
    """The driver's processes, one after another."""

    def __init__(self, said: IO[bytes]) -> None:
        self._said = said
        self._child: Child | None = None

    async def start(self, task: DriverTask) -> None:
        """Return once the driver syncs."""
        self._child = await Child.start("driver", asdict(task), name="the Spark driver", stderr=self._said)
        report = await self._child.hear()
        if not isinstance(report, Syncing):
            raise DemoFailed("the Spark driver spoke out of turn", observed=report)

    async def followed(self, all_sent: asyncio.Event) -> Report:
        """The driver's report at its end. It is told to end when all events are sent."""
        assert self._child is not None
        hearing, sent = asyncio.ensure_future(self._child.hear()), asyncio.ensure_future(all_sent.wait())
        try:
            await asyncio.wait({hearing, sent}, return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                self._child.say("finish")
            report = await hearing
        finally:
            hearing.cancel()
            sent.cancel()
        if isinstance(report, Synced):
            await self._child.ended()
        return report

    async def kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()
