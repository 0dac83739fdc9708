"""Keeps the last failures of one queue's messages beside its cell, for operators.

They are written soon after the cell, seldom, and by the owner only. Nothing waits for them, and what fails here costs nothing but a reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ...coordinator.cells.document import Document
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.invisibility import ExpiredDelivery
from ...coordinator.registry.failures import (
    ERROR_CHARS_MAX,
    FAILURES_MAX,
    WORKER_CHARS_MAX,
    NotedFailure,
    QueueFailures,
    cut,
    deaths_in,
    failed_in,
    first_line,
)
from ...log.errors import PenstockError
from ...log.escapes import escaped
from ...log.runtime.runtime import Clock
from ..schedule.step import Step

log = logging.getLogger("penstock.consumers")

DIED = "WorkerDied"
LAPSED = "NotAcknowledged"
_DIED = "it was in flight when its worker was taken for dead"
_DEATHS_MAX = 16
"""The messages of a dead worker that are noted, as any number may have been in flight."""
_PAUSE_S = 3.0
"""The least time between two writes."""
_TROUBLE_S = 60.0
"""The same after one that failed."""


class FailureNotes:
    """The last failures of one queue in its owner."""

    def __init__(self, stored: Document[QueueFailures], clock: Clock, *, worker: str, process: str) -> None:
        self._stored = stored
        self._clock = clock
        self._worker = cut(worker, WORKER_CHARS_MAX)
        self._process = cut(escaped(process), WORKER_CHARS_MAX)
        self._new: dict[int, NotedFailure] = {}
        self._generation = 0
        self._read = False
        self._alone = asyncio.Lock()
        self._woken = asyncio.Event()

    def note(self, step: Step, generation: int) -> None:
        """Take the failures of a step that is durable."""
        if not step.failed:
            return
        attempts = failed_in(step.tries, step.markers.values())
        attempts |= {one.message.offset: one.attempts for one in step.letters}
        failed = [one for one in step.failed[-FAILURES_MAX:] if one.batch == 1 and one.message.offset in attempts]
        self._take(generation, [(one.message.offset, attempts[one.message.offset], one.error, one.reason) for one in failed])

    def note_lapses(self, lapses: Sequence[ExpiredDelivery], generation: int, *, error: str, text: str) -> None:
        """Take deliveries that failed without a handler, once that is durable."""
        self._take(generation, [(one.offset, one.attempts, error, text) for one in lapses[-FAILURES_MAX:]])

    async def reason(self, generation: int, offset: int) -> str | None:
        """Why a message that is given up failed last, as far as that is known."""
        async with self._alone:
            if not self._read:
                try:
                    await self._stored.read()
                except PenstockError as error:
                    log.warning("why offset %d failed is not known: %s", offset, error)
                else:
                    self._read = True
            known = QueueFailures(self._generation, tuple(self._new.values()))
            found = known.last_known(generation, offset) or self._stored.value.last_known(generation, offset)
        return None if found is None else found.text

    async def run(self, cell: Callable[[], QueueCell], *, died: str) -> None:
        """Write what was noted, as long as the queue is owned. ``died`` is the former owner that did not release it, or empty."""
        if died:
            deaths = deaths_in(cell(), _DEATHS_MAX)
            self._take(cell().generation, [(*one, DIED, _DIED) for one in deaths.items()], worker=died, process="")
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(_PAUSE_S if await self._write(cell()) else _TROUBLE_S)

    async def finish(self, cell: QueueCell, timeout_s: float) -> None:
        """Write what is left, before the queue is released."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._write(cell)

    async def _write(self, cell: QueueCell) -> bool:
        async with self._alone:
            new, self._new = self._new, {}
            if not new or self._generation != cell.generation:
                return True
            try:
                await self._stored.change_known(lambda before: before.with_all(cell, new.values()))
            except PenstockError as error:
                log.warning("the reasons of failures cannot be kept for operators: %s", error)
                return False
            self._read = True
            return True

    def _take(
        self,
        generation: int,
        found: Iterable[tuple[int, int, str, str]],
        *,
        worker: str | None = None,
        process: str | None = None,
    ) -> None:
        if generation != self._generation:
            self._generation, self._new = generation, {}
        now_ms = self._clock.wall_ms()
        for offset, attempt, error, reason in found:
            self._new.pop(offset, None)  # it becomes the newest
            self._new[offset] = NotedFailure(
                offset,
                attempt,
                cut(escaped(error), ERROR_CHARS_MAX),
                first_line(reason),
                self._worker if worker is None else cut(worker, WORKER_CHARS_MAX),
                self._process if process is None else process,
                now_ms,
            )
        while len(self._new) > 2 * FAILURES_MAX:
            del self._new[next(iter(self._new))]
        if self._new:
            self._woken.set()
