"""The share of a process in what keeps a lake up, in the background."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.coordinator import LakeMaintenance, OfferedRole, Timers, run_roles
from penstock.coordinator.timers.young_topics import is_young
from penstock.coordinator.transactions.finisher import run_finisher
from penstock.log import ClosedError, PenstockError
from penstock.log.errors import is_never_allowed

if TYPE_CHECKING:
    from .lake import Lake

log = logging.getLogger("penstock.maintenance")

_ENDS_S = 5.0


class Maintenance:
    """Publishing, compaction, retention, trimming, collection, timers and transactions, as far as their roles fall to this process."""

    def __init__(self, lake: Lake, *, wanted: bool) -> None:
        self._lake = lake
        self._wanted = wanted
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stands_in: dict[str, int] = {}
        """The topics that this process stands in for, with the times when they were made."""
        self._beside: dict[asyncio.Task[None], asyncio.Event] = {}
        self.timers = Timers(lake)

    def sends_to(self, topic: str, made_ms: int) -> None:
        """Note a topic of type DELAY to which this process sends. Even without a part in maintenance it delivers that topic's first messages, until
        the maintaining processes know of the topic.
        """
        self.timers.notice(topic, made_ms)
        if not self._wanted and is_young(made_ms, self._lake.runtime.clock.wall_ms()) and self._stands_in.get(topic) != made_ms:
            self._stands_in[topic] = made_ms
            stop = asyncio.Event()
            task = asyncio.ensure_future(self._stand_in(topic, made_ms, stop))
            self._beside[task] = stop
            task.add_done_callback(self._beside.pop)

    async def _stand_in(self, topic: str, made_ms: int, stop: asyncio.Event) -> None:
        def report(name: str, error: PenstockError) -> None:
            self._log_step(name, "timers", error, stop)

        try:
            await self.timers.stand_in(self._lake.coordination, topic, made_ms, stop, on_error=report)
        except PenstockError as error:
            report(topic, error)

    def take_part(self) -> None:
        """Begin, if maintenance is wanted and has not begun."""
        if self._wanted and self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        """Play the roles that maintain a lake, as far as they fall to this process. Failures are logged."""
        coordination, stop = self._lake.coordination, self._stop
        upkeep = LakeMaintenance(
            self._lake, coordination.cells, coordination.groups, on_step=self._log_step, on_look=self.timers.see
        )
        maintained = run_roles(
            coordination.cells,
            coordination.worker,
            coordination.watch,
            self._lake.runtime,
            OfferedRole(topics=upkeep.topics, play=upkeep.play),
            stop,
            ready=coordination.claim,
            report=lambda topic, error: self._log_step(topic, "role", error),
        )
        timed = self.timers.run(coordination, stop, on_error=lambda topic, error: self._log_step(topic, "timers", error))
        finished = run_finisher(
            self._lake.transactions,
            coordination,
            stop,
            report=lambda what, error: self._log_step(what, "transactions", error),
            patience_s=10.0,
        )
        await asyncio.gather(maintained, timed, finished)

    def _log_step(self, topic: str, step: str, result: object, stop: asyncio.Event | None = None) -> None:
        """Log an error. Without the permission, the work of ``stop`` ends, or all."""
        if is_never_allowed(result):
            log.info("this process may not maintain topic %s, and leaves it to others: %s", topic, result)
            (stop or self._stop).set()
        elif isinstance(result, PenstockError) and not isinstance(result, ClosedError):  # a lake that closes ends its steps
            log.warning("maintenance of topic %s: %s failed, and is tried again: %s", topic, step, result)

    async def end(self) -> None:
        """Stop the roles. Every step of theirs may be broken off."""
        for stop in (self._stop, *self._beside.values()):
            stop.set()
        if running := [*self._beside, *([] if self._running is None else [self._running])]:
            await asyncio.wait(running, timeout=_ENDS_S)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
