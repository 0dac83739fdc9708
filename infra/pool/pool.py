"""The parent of a pool: it starts workers, watches and replaces them, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from signal import SIGTERM
from typing import Final

from ...log.runtime.runtime import Runtime
from .replacement import FIRST_PAUSE_S, Finished, PlaceHistory, PoolFailed, Replaced, WorkerEnd, after_end, end_shown
from .worker_process import WorkerProcess

log = logging.getLogger("penstock.pool")

_ENDS_IN_ORDER: Final = (0, 128 + SIGTERM, -SIGTERM)
"""The last one is of a worker that was only starting."""
_METRICS_PATIENCE_S: Final = 5.0
"""The time for a worker's metrics; a scrape gets ten by default."""


@dataclass(frozen=True, slots=True)
class _Generation:
    """The workers of one state of the program: those since the pool's start, or since a reload."""

    served: asyncio.Event = field(default_factory=asyncio.Event)
    """A worker works."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """All are told to end."""


class Pool:
    """Keeps ``count`` processes of one command at work, from `run` until `end`.

    The first one starts alone, and the others once it works: what is wrong with the call or the program is told once, before any work begins.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        patience: timedelta | None = None,
        outlives_failure: bool = False,
        first_pause: timedelta = timedelta(seconds=FIRST_PAUSE_S),
        runtime: Runtime | None = None,
    ) -> None:
        """``patience``: when a worker that drains is killed; None: it ends when its handlers do.

        ``outlives_failure``: a program that cannot start waits for the next reload instead of ending the pool.
        """
        self._command = tuple(command)
        self._patience_s = None if patience is None else patience.total_seconds()
        self._outlives_failure = outlives_failure
        self._first_pause_s = first_pause.total_seconds()
        self._runtime = runtime or Runtime()
        self._generation = _Generation()
        self._ended = False
        self._failed: PoolFailed | None = None
        self._workers: dict[int, WorkerProcess | None] = dict.fromkeys(range(1, count + 1))
        self.starts = 0
        """The workers that were started so far."""

    @property
    def count(self) -> int:
        return len(self._workers)

    @property
    def ready(self) -> int:
        """The workers that work now."""
        return sum(worker is not None and worker.ready for worker in self._workers.values())

    async def run(self) -> int:
        """Keep the workers at work. Returns 0 after `end`, and when all have finished; else the exit code with which workers failed.

        A cancellation does not wait for what workers run.
        """
        async with asyncio.TaskGroup() as keeping:
            for number in self._workers:
                keeping.create_task(self._keep(number))
        return 0 if self._failed is None else self._failed.code

    def end(self) -> None:
        """Let all workers drain and end. Again: nothing happens."""
        self._ended = True
        self._generation.over.set()

    def reload(self) -> None:
        """Let all workers drain, and start new ones: the first, and the others once it works."""
        former, self._generation = self._generation, _Generation()
        former.over.set()

    async def metrics(self) -> dict[int, str]:
        """The metrics of each worker that answers, by its number."""
        answers = {
            number: asyncio.ensure_future(one.metrics()) for number, one in self._workers.items() if one is not None and one.ready
        }
        if answers:
            await asyncio.wait(answers.values(), timeout=_METRICS_PATIENCE_S)
        found: dict[int, str] = {}
        for number, answer in answers.items():
            if not answer.done():
                answer.cancel()
                log.warning("worker %d does not tell its metrics", number)
            elif not isinstance(answer.exception(), ConnectionError):
                found[number] = answer.result()
        return found

    async def _keep(self, number: int) -> None:
        history, generation = PlaceHistory(), self._generation
        while (current := await self._turn(number)) is not None:
            if current is not generation:
                history, generation = PlaceHistory(), current
            end = await self._work(number, generation)
            if end is None:
                continue
            history, verdict = after_end(
                history,
                end,
                served=generation.served.is_set(),
                spread=self._runtime.random.random(),
                first_pause_s=self._first_pause_s,
            )
            match verdict:
                case Finished():
                    log.info("worker %d has finished", number)
                    generation.served.set()
                    return
                case Replaced(after_s):
                    state = "" if end.ready else " before it worked"
                    log.error("worker %d %s%s; another takes its place in %.1f s", number, end_shown(end.code), state, after_s)
                    await self._pause(generation, after_s)
                case PoolFailed(_, failed_starts):
                    await self._give_up(number, generation, verdict, f"{end_shown(end.code)} at {_starts(failed_starts)}")

    async def _turn(self, number: int) -> _Generation | None:
        """The generation that a worker of this place may join now; None: the pool ends."""
        while not self._ended:
            generation = self._generation
            if number > 1 and not generation.served.is_set():
                await _first(generation.served.wait(), generation.over.wait())
            if not generation.over.is_set():
                return generation
        return None

    async def _work(self, number: int, generation: _Generation) -> WorkerEnd | None:
        """Run a worker until its end. None: it was told to end."""

        def serves() -> None:
            log.info("worker %d works", number)
            generation.served.set()

        began_s = self._runtime.clock.monotonic_s()
        self.starts += 1
        try:
            worker = await WorkerProcess.start(self._command, number, serves)
        except OSError as error:
            log.warning("worker %d cannot be started: %s", number, error)
            return WorkerEnd(code=1, ready=False, lived_s=0.0)
        self._workers[number] = worker
        log.info("worker %d has started as process %d", number, worker.pid)
        ended = asyncio.ensure_future(worker.ended())
        try:
            over = asyncio.ensure_future(generation.over.wait())
            try:
                await asyncio.wait((ended, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if not ended.done():
                await self._drain(number, worker, ended)
                return None
            lived_s = self._runtime.clock.monotonic_s() - began_s
            return WorkerEnd(code=ended.result(), ready=worker.ready, lived_s=lived_s, finished=worker.finished)
        finally:
            self._workers[number] = None
            if not ended.done():  # cancelled
                await worker.end_now()
                await ended

    async def _drain(self, number: int, worker: WorkerProcess, ended: asyncio.Future[int]) -> None:
        worker.drain()
        done, _ = await asyncio.wait((ended,), timeout=self._patience_s)
        if not done:
            log.error("worker %d did not end in time, and is killed", number)
            worker.kill()
            await asyncio.wait((ended,))
        if ended.result() not in _ENDS_IN_ORDER:
            log.error("worker %d %s as it drained", number, end_shown(ended.result()))

    async def _pause(self, generation: _Generation, seconds: float) -> None:
        await _first(generation.over.wait(), asyncio.sleep(seconds))

    async def _give_up(self, number: int, generation: _Generation, verdict: PoolFailed, how: str) -> None:
        if self._outlives_failure:
            log.error("worker %d %s; the next change of a file starts it again", number, how)
            await generation.over.wait()
            return
        if self.count > 1 or verdict.failed_starts > 1:
            log.error("worker %d %s, so the pool ends", number, how)
        self._failed = self._failed or verdict
        self.end()


async def _first(*waits: Awaitable[object]) -> None:
    """Wait for the first of several; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _starts(count: int) -> str:
    return "its start" if count == 1 else f"each of {count} starts"
