"""One queue of a PushConsumer: plan, write the cell, run."""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...coordinator.cells.requests import Request
from ...coordinator.queues.cell import QueueCell
from ..failures.failure_log import FailureLog
from ..limits import QueueMode
from ..schedule.lanes import LaneRun
from ..schedule.push import PushSchedule
from ..schedule.step import Step
from .dispatcher import Dispatcher
from .processor import ProcessorContext, QueueProcessor
from .work_meter import WorkMeter

log = logging.getLogger("penstock.consumers")

_ALONE_S = 5.0
"""The time for messages in flight to end when a suspect is to run alone; doubled each time."""
_ALONE_MAX_S = 900.0
"""The default bound of a handler's time."""
_ALONE_AGAIN_S = 30.0
"""The least time for others between tries."""
_ACKS_GATHER_S = 0.02
_TOLD_OF_RUN = 8
"""The handlers of a run under way whose times are told."""
_ABOUT_S = 0.001
"""The time by which an alarm may go off too early, as timers round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushContext(ProcessorContext):
    """The common part of one PushConsumer's queues."""

    dispatcher: Dispatcher
    failures: FailureLog
    meter: WorkMeter
    consume_timeout_s: float


class PushProcessor(QueueProcessor[PushSchedule]):
    """Runs the messages of one queue: plan, write the cell, run."""

    _around: PushContext
    _solo_s = -math.inf
    _patience_s = _ALONE_S
    _gathers_until_s: float | None = None

    def _new_schedule(self, cell: QueueCell) -> PushSchedule:
        return PushSchedule(
            self._record.settings,
            cell,
            limits=self._around.limits,
            chance=self._around.runtime.random.random(),
            secret=self._record.secret,
        )

    def _abandon(self) -> None:
        self._stop()
        self._around.dispatcher.abandon(self, [run for run in self.schedule.running if not run.ended])

    def _stop(self) -> None:
        """Take back waiting runs, and end the others behind the message under way."""
        for run in list(self.schedule.running):
            run.cancelled = True
            if run.claim():
                run.ended = True
                self.moved(run)

    # --- From outside -----------------------------------------------------------------------------------------------------------

    @property
    def until_s(self) -> float:
        return -math.inf if self.keeper.ended.is_set() else self._around.member.until_s

    def moved(self, *runs: LaneRun) -> None:
        ended = [run for run in runs if run.ended]
        if ended:
            self._around.worker.finished(sum([run.size for run in ended if run.timed_out_at is None]))
            self._around.dispatcher.ended(ended)
            self._observe(ended)
        self.schedule.report(*runs)
        if ended and self._may_start() and not self.keeper.ended.is_set():
            self._begin(self.schedule.go_on(ended))
        self.wake()

    def _may_start(self) -> bool:
        return not self._draining and not self._around.worker.quiet and self._around.member.may_start()

    def _observe(self, ended: Sequence[LaneRun]) -> None:
        """Count handlers' times, and those from arrival to handler, unless the message waited for another attempt."""
        succeeded_s, failed_s = array("d"), array("d")
        began: list[tuple[int, float]] = []
        """First offsets, and how long ago their handlers began."""
        pace = self.schedule.pace
        for run in ended:
            if took_s := run.took_s:
                pace.note(run.done or 1, sum(took_s))
                self._around.meter.handled(took_s, run.done)
                # A batch is one call. Of single messages, those that are done were called first.
                good = (len(took_s) - (run.failure is not None)) if run.is_batch else run.done
                succeeded_s.extend(took_s[:good])
                failed_s.extend(took_s[good:])
                first = run.messages[0]
                if first.delivery_attempt == 1:
                    began.append((first.offset, 1000 * sum(took_s)))
        for histogram, times_s in ((self._counters.succeeded_ms, succeeded_s), (self._counters.failed_ms, failed_s)):
            if times_s:
                histogram.observe_all((1000 * np.frombuffer(times_s)).tolist())
        now_ms, came_ms = 1000 * self._clock.monotonic_s(), self.arrivals.times_ms([offset for offset, _ in began])
        self._counters.await_ms.observe_all(
            [max(0.0, now_ms - ago_ms - came) for (_, ago_ms), came in zip(began, came_ms, strict=False)]
        )

    def times_s(self, now_s: float) -> list[float]:
        """The times of the last handlers in its runs under way, and of running ones so far."""
        runs = list(self.schedule.running)
        since = [run.since_s for run in runs]
        return [*(one for run in runs for one in run.took_s[-_TOLD_OF_RUN:]), *(now_s - one for one in since if one is not None)]

    def spread(self, slow_s: float) -> None:
        if not (self._draining or self._around.worker.quiet):
            runs, taken_back = self.schedule.spread(self._clock.monotonic_s() - slow_s)
            if runs or taken_back:
                self._around.worker.finished(taken_back)
                self._begin(runs)  # at once: the messages are granted, and a write may take long
            if self.schedule.is_held:
                self.wake()

    def drain(self) -> None:
        super().drain()
        self._stop()
        self._around.worker.finished(0)  # if the processor waits to run alone, it stops waiting

    def time_out(self, before_s: float, reason: str) -> list[LaneRun]:
        late = [run for run in self.schedule.running if run.is_late(before_s)]
        for run in late:
            self.give_up(run, reason)
            self.schedule.report(run)
        if late:
            self.wake()
        return late

    def give_up(self, run: LaneRun, reason: str) -> None:
        """Stop waiting for a handler that may never return."""
        run.time_out(reason)
        self._around.worker.finished(run.size)

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        while True:
            self._woken.clear()
            if self._obeyed is not self._record:
                await self._obey()
            now_ms = self._clock.wall_ms()
            await self._look(now_ms)
            await self._expire(now_ms)
            if self._draining:
                drained = await self._step(QueueMode.DRAIN)
                if not self.schedule.running:
                    if drained:
                        await self._release()
                        return
                    self._woken.set()  # the step was written, and no report of a run will wake the loop
            elif self._around.worker.quiet or self.schedule.closed:
                self._stop()
                await self._step(QueueMode.QUIET)
            elif self.schedule.wants_solo(now_ms) and self._may_run_alone():
                await self._run_alone()
            elif self._gathers(now_ms):
                pass
            else:
                suspects_waited = self.schedule.suspects_wait
                await self._step(QueueMode.USUAL)
                if suspects_waited and self.schedule.wants_solo(now_ms) and self._may_run_alone():
                    self._woken.set()  # there was room in this step, and no report of a run will wake the loop
            self._around.freed()
            await self._rest()

    def _gathers(self, now_ms: int) -> bool:
        """Whether successes alone wait for more of them, or for a fetch in the room that they leave, to be written with its grant."""
        waits = self.schedule.has_reports and not (self.starving and self.cramped)
        if not waits or self.schedule.is_urgent(now_ms, self.keeper.cell):
            self._gathers_until_s = None
            return False
        now_s = asyncio.get_running_loop().time()
        if self._gathers_until_s is None:
            self._gathers_until_s = now_s + _ACKS_GATHER_S
        if now_s > self._gathers_until_s - _ABOUT_S:
            self._gathers_until_s = None
            return False
        self._wake_at(self._gathers_until_s)
        return True

    async def _step(self, mode: QueueMode) -> bool:
        """Plan, write and run. Returns whether there was nothing to write."""
        worker = self._around.worker
        if mode is QueueMode.USUAL:
            await worker.awake()
            if not self._may_start():
                mode = QueueMode.QUIET  # a run that cannot be started any more would come back at once, again and again
        self.schedule.apart = self._around.dispatcher.is_waiting
        step = self.schedule.plan(self._clock.wall_ms(), self.keeper.cell, mode)
        worker.finished(step.taken_back)
        self._begin(step.runs_now)
        await self._write(step)
        return step.is_empty

    async def _write(self, step: Step) -> None:
        self._around.worker.started(sum(run.size for run in step.runs))
        schedule = self.schedule
        self._dead_letters.give_up(step.letters)
        try:
            if not step.is_empty:
                write = Request[QueueCell, QueueCell](step.apply)
                sent_s = self._clock.monotonic_s()
                self.keeper.carry_out(write)
                self._failures.note(step, (await write.done).generation)
                self._around.meter.wrote(self._clock.monotonic_s() - sent_s)
                self._counters.cell_writes.add()
        except BaseException:
            for run in step.runs:
                if run.claim():  # it was never handed out, nor taken back meanwhile, which would have ended it too
                    run.ended = True
                    self._around.worker.finished(run.size)
                    self._around.dispatcher.ended((run,))
            raise
        if step.failed:
            self._counters.count_failures([failed.error for failed in step.failed])
        for failed in step.failed:
            self._around.failures.note(self.topic, self.queue, failed)
        if step.letters:
            self._dead_letters.wake()
        for head in step.parked:
            self._log_parked(head.offset, head)
        if schedule is self.schedule:
            self._hand_out(step.runs)

    def _begin(self, runs: Sequence[LaneRun]) -> None:
        self._around.worker.started(sum(run.size for run in runs))
        self._hand_out(runs)

    def _hand_out(self, runs: Sequence[LaneRun]) -> None:
        if runs:
            self._counters.messages_out.add(sum(run.size for run in runs))
            self._counters.bytes_out.add(sum(run.messages.body_bytes for run in runs))
        self._around.dispatcher.start(self, runs)

    def _may_run_alone(self) -> bool:
        """Whether a suspect may run alone: not soon after a failed try, nor after the lease."""
        return self._clock.monotonic_s() >= self._solo_s and self._around.member.may_start()

    async def _run_alone(self) -> None:
        """Run one suspect alone, so that a death shows its cause."""
        self._stop()
        async with self._around.worker.alone(
            self._around.member,
            patience_s=self._patience_s,
            unless=lambda: self._draining,
            left_s=self._around.consume_timeout_s,
        ) as alone:
            if not alone:
                pause_s = max(_ALONE_AGAIN_S, self._patience_s)  # a handler takes long: let the others go on meanwhile
                self._solo_s = self._clock.monotonic_s() + pause_s
                self._patience_s = min(2 * self._patience_s, _ALONE_MAX_S)
                asyncio.get_running_loop().call_later(pause_s, self.wake)
                return
            self._patience_s = _ALONE_S
            await self._around.worker.awake()
            if self._draining:
                return
            step = self.schedule.plan(self._clock.wall_ms(), self.keeper.cell, QueueMode.SOLO)
            await self._write(step)
            while any(not run.ended and run.timed_out_at is None for run in step.runs):
                await self._woken.wait()
                self._woken.clear()
            self._woken.set()
