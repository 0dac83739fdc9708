"""Work beyond a page's time, with its outcome for all viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ....log.errors import BackPressureError
from ....log.message.message import from_ms
from ....log.runtime.runtime import Clock

KEPT = 20
"""The number of kept outcomes."""


@dataclass(slots=True)
class BackgroundJob:
    """One job."""

    began: datetime
    began_s: float
    task: asyncio.Task[Any]
    took_s: float | None = None

    @property
    def runs(self) -> bool:
        return not self.task.done()


class BackgroundJobs:
    """The jobs of one lake, one at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: dict[str, BackgroundJob] = {}

    def get(self, key: str) -> BackgroundJob | None:
        return self._jobs.get(key)

    def took(self, job: BackgroundJob) -> timedelta:
        return timedelta(seconds=job.took_s if job.took_s is not None else self._clock.monotonic_s() - job.began_s)

    def start(self, key: str, work: Callable[[], Awaitable[Any]]) -> BackgroundJob:
        """The job of this key, begun now unless it runs. Raises `BackPressureError` while another one runs."""
        known = self._jobs.get(key)
        if known is not None and known.runs:
            return known
        if other := next((name for name, one in self._jobs.items() if one.runs), None):
            raise BackPressureError(
                "another check of this lake runs", operation="start", object=key, observed=other, hint="wait until it has ended"
            )
        self._jobs.pop(key, None)
        while len(self._jobs) >= KEPT:
            del self._jobs[next(iter(self._jobs))]
        task = asyncio.ensure_future(work())
        job = self._jobs[key] = BackgroundJob(from_ms(self._clock.wall_ms()), self._clock.monotonic_s(), task)
        task.add_done_callback(lambda done: self._ended(job, done))
        return job

    async def close(self) -> None:
        running = [one.task for one in self._jobs.values() if one.runs]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, job: BackgroundJob, task: asyncio.Task[Any]) -> None:
        job.took_s = self._clock.monotonic_s() - job.began_s
        if not task.cancelled():
            task.exception()  # looked at, as perhaps no viewer comes back
