"""One process's play of one topic's timers: claim what is due, append it, gather what waits long."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...log.errors import (
    ClosedError,
    DataDamaged,
    ForkedError,
    ReopenError,
    RetryError,
)
from ...log.lake import LogLake
from ...log.produce.delays import QUEUE
from ...log.read.reader import Reader
from ...log.runtime.backoff import Backoff, wait_for
from ...log.stores.protocol import ObjectMissing
from ...log.topic.topics import Topic
from ..cells.cells import CellChanged, Cells
from .cell import preconditions
from .cell.cell import TimerCell
from .cell.selection import FOREVER, WaitingIndex, next_bounds, within
from .cell.state import Claim, DeliveredBounds, DuePosition, TimerState
from .claim_appender import ClaimAppender
from .options import TimerOptions
from .runs.memtable import CombinedRows, ready_ms
from .runs.recalls import RecallObjects, RecallSpill
from .runs.run_files import OpenRun, next_unloaded
from .runs.run_merges import Gatherer, UnnamedRun, may_name, named, to_merge
from .store_time import StoreTime
from .timer_log_follower import TimerLogFollower

T = TypeVar("T")

_AGAIN_S = 0.1
_ATTEMPTS_MAX = 5
_READ_S = 60.0
"""The interval between reads of recalled messages, to make room in a full cell."""


@dataclass(frozen=True, slots=True)
class TimerStatistics:
    """The work of one player."""

    fired: int = 0
    """The messages appended, or found appended."""
    claims: int = 0
    flushed: int = 0
    """The runs written of rows in memory."""
    merged: int = 0
    """The runs written in place of smaller ones."""
    late_ms: int = 0
    """The greatest delay in the last claim, from a message's time, or later sending, to the topic."""
    waiting: int = 0
    """The waiting messages, recalled ones included; approximate."""
    idle_s: float = 0.0
    """The time until the next message is due, or fetched; infinite without any."""


OnStep = Callable[[TimerStatistics], Awaitable[None]]


class TimerPlayer:
    """Plays one topic's timers: claim due messages, append them, gather those that wait long."""

    def __init__(self, lake: LogLake, cells: Cells, topic: Topic, log: Topic, options: TimerOptions) -> None:
        name, life = topic.paths.topic, log.record.incarnation
        assert preconditions.belongs(log.record, topic.record), "they are of one life"
        self._topic, self._log_topic = topic, log
        self._runtime = lake.runtime
        self._options = options
        self._time = StoreTime(lake.store, lake.runtime.clock)
        self._cell = TimerCell(cells, lake.runtime.clock, name, life)
        self._appending = ClaimAppender(lake, topic, self._cell)
        self._recalls = RecallObjects(lake.store, lake.runtime, name, life)
        self._gatherer = Gatherer(lake.store, lake.runtime, name, life, options)
        log.tail.poll_quiet_s = options.probe.total_seconds()
        log.tail.poll_patience_s = min(options.tick, options.probe).total_seconds()
        self._reader = Reader(log)
        self._log: TimerLogFollower | None = None
        self._runs: dict[str, OpenRun] = {}
        self._work: asyncio.Task[UnnamedRun | RecallSpill] | None = None
        self._work_of: TimerState | None = None
        self._arrived: Claim | None = None
        self._claimed_s = 0.0
        self._read_s = lake.runtime.clock.monotonic_s()
        self._paced = False
        """Whether the last step delivered all that was due."""
        self._flushed_s = lake.runtime.clock.monotonic_s()
        self.statistics = TimerStatistics()

    # --- Its life ---------------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        state = await self._cell.read()
        self._log = TimerLogFollower(
            self._reader, state.gathered, rows_max=2 * self._options.flush_rows, bytes_max=2 * self._options.flush_bytes
        )

    async def run(self, stop: asyncio.Event, on_step: OnStep) -> None:
        failures, backoff, is_stale = 0, Backoff(_AGAIN_S), False
        while not stop.is_set():
            try:
                now_s = self._runtime.clock.monotonic_s()
                if is_stale or (now_s - self._read_s >= _READ_S and self._waiting()):
                    await self._cell.read()
                    self._read_s = now_s
                is_stale = False
                pause_s = await self.step()
            except CellChanged:
                continue  # the state is now the cell's
            except (RetryError, ReopenError) as error:
                failures += 1
                if failures == _ATTEMPTS_MAX or isinstance(error, ClosedError | ForkedError):
                    raise
                is_stale = True
                await wait_for(backoff.next_s(), stop)
                continue
            failures, backoff = 0, Backoff(_AGAIN_S)
            self.statistics = replace(self.statistics, waiting=self._waiting(), idle_s=pause_s)
            await on_step(self.statistics)
            if pause_s == 0 and self._paced:
                await self._pause(0.0, stop)
            elif pause_s > 0:  # never for long: a machine may sleep meanwhile, and its clock of sleeps with it
                await self._pause(min(pause_s, self._options.probe.total_seconds()), stop)
        with suppress(CellChanged, RetryError, ReopenError):  # the next player finds it out
            await self._settle()

    async def run_out(self) -> None:
        log = self._following
        await self._log_topic.tail.catch_up()
        await log.reach(self._log_topic.tail.state.next_offset(QUEUE))
        while True:
            with suppress(CellChanged):
                if await self.step() > 0:
                    break
        with suppress(CellChanged):
            await self._settle()

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self._appending.close()
        if self._log is not None:
            await self._log.close()

    async def step(self) -> float:
        """Run one step. Returns the seconds without work unless something is sent; 0: more is due. Raises `CellChanged`: the next step goes on from
        another process's change.
        """
        log = self._following
        log.wakeup.clear()
        log.check()
        state = self._cell.state
        self._paced = False
        await log.reach(state.bounds.known)
        await self._keep_to(state)
        now_us = preconditions.due_until_us(await self._time.now_us(), self._runtime.clock)
        if state.claim is not None and state.claim != self._arrived:
            if soon_us := preconditions.too_soon_us(state.claim, now_us):
                return soon_us / 1e6
            await self._finish(state, state.claim)
            return 0.0
        if await self._claim(state, now_us):
            return 0.0
        if await self._gather(state):
            return 0.0
        now_s = self._runtime.clock.monotonic_s()
        settle_s = self._options.settle.total_seconds()
        if state.claim is not None and now_s - self._claimed_s >= settle_s:
            await self._settle()
        return self._idle_s(self._cell.state, now_us)

    @property
    def _following(self) -> TimerLogFollower:
        assert self._log is not None, "it has begun"
        return self._log

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Wait until a message is due or sent; after a delivery, a tick at least."""
        tick_s = self._options.tick.total_seconds() - (self._runtime.clock.monotonic_s() - self._claimed_s)
        if tick_s > 0:
            await wait_for(tick_s, stop)
            seconds -= tick_s
        if seconds > 0:
            await wait_for(seconds, stop, self._following.wakeup)

    # --- What is here -----------------------------------------------------------------------------------------------------------

    async def _keep_to(self, state: TimerState) -> None:
        log = self._following
        log.rows.drop(state.settled)
        log.rows.drop_below(state.gathered)
        log.make_room()
        names = {run.name for run in state.runs}
        for name in [name for name in self._runs if name not in names]:
            del self._runs[name]
        for run in state.runs:
            if run.name not in self._runs:
                self._runs[run.name] = await self._there(self._gatherer.open(run))
        await self._there(self._recalls.keep_to(state.recalls))
        for one in self._runs.values():
            one.pass_over(state.settled.due)
            one.rows.drop(state.settled)

    async def _load(self, until: DuePosition, *, rows_most: int, bytes_most: int) -> None:
        while (following := next_unloaded(self._runs.values())) is not None and following.next is not None:
            if following.next > until:
                return
            here = CombinedRows([one.rows for one in self._runs.values()])
            sooner = here.waiting.within(DeliveredBounds(self._following.known, following.next))
            sooner = sooner.only(~within(sooner, self._cell.state.bounds))  # messages that went before are no reason to wait
            if len(sooner) >= rows_most or int(here.sizes_of(sooner).sum()) >= bytes_most:
                return
            await self._there(following.load())

    async def _there(self, reading: Awaitable[T], known: TimerState | None = None) -> T:
        known = known or self._cell.state
        try:
            return await reading
        except ObjectMissing as error:
            if await self._cell.read() != known:  # merged and removed while this process slept
                raise CellChanged(self._cell.key, None) from error
            raise DataDamaged("a run of timers is missing", operation="play timers", object=error.object) from error

    def _together(self) -> CombinedRows:
        return CombinedRows([self._following.rows, *(one.rows for one in self._runs.values())])

    def _waiting(self) -> int:
        state = self._cell.state
        here = self._following.rows.waiting
        return len(here) - int(within(here, state.bounds).sum()) + sum(one.left for one in self._runs.values())

    def _idle_s(self, state: TimerState, now_us: int) -> float:
        here = self._together().waiting
        left = here.only(~within(here, state.bounds))
        soon = [int(left.time_us.min())] if len(left) else []
        following = next_unloaded(self._runs.values())
        if following is not None and following.next is not None:
            fetched_us = following.next.time_us - int(1e6 * self._options.ahead.total_seconds())
            soon.append(fetched_us if fetched_us > now_us else following.next.time_us)
        return max(0.01, (min(soon) - now_us) / 1e6) if soon else math.inf

    # --- Letting go -------------------------------------------------------------------------------------------------------------

    async def _claim(self, state: TimerState, now_us: int) -> bool:
        """Returns whether anything was due."""
        options = self._options
        ahead = DuePosition(now_us + int(1e6 * options.ahead.total_seconds()), 0)
        await self._load(ahead, rows_most=options.claim_rows, bytes_most=options.claim_bytes)
        together = self._together()
        bounds, chosen, full = self._choose(together, state, now_us)
        if not len(chosen):
            return False
        count = len(self._recalls.without(chosen, state))
        claimed = self._forgetful(state).with_claim(bounds, count)
        await self._cell.write(claimed if count else claimed.with_arrived())
        self._claimed_s = self._runtime.clock.monotonic_s()
        self.statistics = replace(self.statistics, claims=self.statistics.claims + 1)
        if count and (claim := self._cell.state.claim) is not None:
            await self._finish(self._cell.state, claim)
        self._paced = not full
        return True

    def _forgetful(self, state: TimerState) -> TimerState:
        """The state with all gathered that was delivered before the first message in memory."""
        if self._work is not None:
            return state
        rows, arrived = self._following.rows.waiting, state.with_arrived()
        waiting = rows.offset[~within(rows, arrived.settled)]
        first = min(int(waiting.min()) if len(waiting) else arrived.settled.known, arrived.settled.known)
        return arrived.with_run(None, first) if first > arrived.gathered else state

    def _choose(self, together: CombinedRows, state: TimerState, now_us: int) -> tuple[DeliveredBounds, WaitingIndex, bool]:
        """The next bounds, the new messages within, and whether more may be due."""
        candidates = together.waiting.only(~within(together.waiting, state.bounds))
        following = next_unloaded(self._runs.values())
        horizon = FOREVER if following is None or following.next is None else following.next
        most = self._options.claim_rows
        while True:
            bounds = next_bounds(candidates, state.bounds, now_us=now_us, known=self._following.known, most=most, horizon=horizon)
            chosen = candidates.within(bounds)
            if len(chosen) <= 1 or int(together.sizes_of(chosen).sum()) <= self._options.claim_bytes:
                return bounds, chosen, len(chosen) >= most or horizon.time_us <= now_us
            most = len(chosen) // 2

    async def _finish(self, state: TimerState, claim: Claim) -> None:
        await self._load(claim.bounds.due, rows_most=2**62, bytes_most=2**62)
        together = self._together()
        within_claim = together.waiting.within(claim.bounds)
        chosen = self._recalls.without(within_claim.only(~within(within_claim, state.settled)), state)
        if len(chosen) != claim.count:
            raise DataDamaged(
                "messages that were on their way are not in the timer log any more",
                operation="play timers",
                object=self._cell.key,
                expected=f"{claim.count} messages",
                observed=f"{len(chosen)} messages",
                hint="put the timer log's objects and the runs back",
            )
        rows = together.take(chosen)
        if await self._appending.append(claim, rows):
            self._arrived = claim
            self._claimed_s = self._runtime.clock.monotonic_s()
            late_ms = self._runtime.clock.wall_ms() - ready_ms(rows)
            self.statistics = replace(self.statistics, fired=self.statistics.fired + claim.count, late_ms=max(0, late_ms))

    async def _settle(self) -> None:
        state = self._cell.state
        if state.claim is not None and state.claim == self._arrived:
            await self._cell.write(state.with_arrived())

    # --- Gathering --------------------------------------------------------------------------------------------------------------

    async def _gather(self, state: TimerState) -> bool:
        """Name a written run, or begin to write one. Returns whether the cell changed."""
        if self._work is not None:
            if not self._work.done():
                return False
            work, self._work = self._work, None
            gathered = await self._there(work, self._work_of)
            if not may_name(state, gathered, now_s=self._runtime.clock.monotonic_s()):
                return False
            await self._cell.write(named(state if state.claim is None else state.with_arrived(), gathered))
            if isinstance(gathered, UnnamedRun) and gathered.merged:
                self.statistics = replace(self.statistics, merged=self.statistics.merged + 1)
            elif isinstance(gathered, UnnamedRun):
                self.statistics = replace(self.statistics, flushed=self.statistics.flushed + 1)
            return True
        if len(state.recalled) >= self._options.recalled_rows:
            if state.bounds.known < self._following.known and await self._note_known(state):
                return True
            if (spilling := self._recalls.spill(state)) is not None:
                self._begin(spilling)
                return False
        if self._is_flush_due():
            return await self._begin_flush(state)
        if runs := to_merge(state.runs, self._options):
            self._begin(self._gatherer.merge(runs, settled=state.settled))
        return False

    def _is_flush_due(self) -> bool:
        rows, options = self._following.rows, self._options
        if len(rows) >= options.flush_rows or rows.size_bytes >= options.flush_bytes:
            return True
        age_s = self._runtime.clock.monotonic_s() - self._flushed_s
        return self._following.known > self._cell.state.gathered and age_s >= options.flush_age.total_seconds()

    async def _note_known(self, state: TimerState) -> bool:
        """Mark all read messages as known. False while some are late."""
        raised = state.with_claim(DeliveredBounds(self._following.known, state.bounds.due), 0).with_arrived()
        here = self._following.rows.waiting
        if (within(here, raised.settled) & ~within(here, state.bounds)).any():
            return False
        await self._cell.write(raised)
        return True

    async def _begin_flush(self, state: TimerState) -> bool:
        """Begin to write the rows in memory as a run. None may be late."""
        if state.bounds.known < self._following.known:
            if not await self._note_known(state):
                return False
            state = self._cell.state
        self._flushed_s = self._runtime.clock.monotonic_s()
        rows, settled = self._following.rows, state.bounds
        self._begin(self._gatherer.flush(rows, start=state.gathered, limit=settled.known, settled=settled))
        return False

    def _begin(self, work: Coroutine[Any, Any, UnnamedRun | RecallSpill]) -> None:
        self._work, self._work_of = asyncio.ensure_future(work), self._cell.state
        self._work.add_done_callback(lambda _: self._following.wakeup.set())
