"""Gathers messages that wait long into runs, and runs into larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....log.runtime.runtime import Runtime
from ....log.stores.protocol import ObjectStore
from ..cell.selection import FOREVER, WaitingIndex, within
from ..cell.state import DeliveredBounds, DuePosition, TimerRun, TimerState
from ..options import TimerOptions
from .memtable import CombinedRows, TimedRows
from .recalls import RecallSpill
from .run_files import OpenRun, RunWriter, next_unloaded, run_key

_RUNS_MANY = 64
"""The runs from which larger ones are allowed: the cell has room for some 200."""
_NAMED_WITHIN_S = 3600.0
"""The time after which an unnamed run is given up."""


@dataclass(frozen=True, slots=True)
class UnnamedRun:
    """A written run that the cell does not name."""

    run: TimerRun | None
    merged: tuple[TimerRun, ...]
    """The runs that it replaces."""
    start: int
    """The first gathered offset of the timer log."""
    limit: int
    """The offset after the last gathered one."""
    begun_s: float
    """The beginning of the writing, by the monotonic clock."""


def may_name(state: TimerState, gathered: UnnamedRun | RecallSpill, *, now_s: float) -> bool:
    """Whether the cell may name a run, not gathered or merged yet and no orphan."""
    if now_s - gathered.begun_s > _NAMED_WITHIN_S:
        return False
    if isinstance(gathered, RecallSpill):
        return all(run in state.recalls or run.last <= state.settled.due for run in gathered.absorbed)
    if gathered.merged:
        return all(run in state.runs or run.last <= state.settled.due for run in gathered.merged)
    return state.gathered == gathered.start


def named(state: TimerState, gathered: UnnamedRun | RecallSpill) -> TimerState:
    if isinstance(gathered, RecallSpill):
        return state.with_spilled(gathered.recalled, frozenset(run.name for run in gathered.absorbed), gathered.run)
    run = None if gathered.run is None or gathered.run.last <= state.settled.due else gathered.run
    if gathered.merged:
        return state.with_merged(frozenset(one.name for one in gathered.merged), run)
    return state.with_run(run, gathered.limit)


def to_merge(runs: Sequence[TimerRun], options: TimerOptions) -> tuple[TimerRun, ...]:
    """The runs of about one size to merge, the smallest first."""
    count = options.merge_runs
    bytes_max = options.run_bytes * max(1, len(runs) // _RUNS_MANY)
    by_size = sorted(runs, key=lambda run: run.size_bytes)
    for first in range(len(by_size) - count + 1):
        chosen = by_size[first : first + count]
        if chosen[-1].size_bytes <= count * chosen[0].size_bytes and sum(run.size_bytes for run in chosen) <= bytes_max:
            return tuple(chosen)
    return ()


class Gatherer:
    """Writes the runs of one life of a topic's timers."""

    def __init__(self, store: ObjectStore, runtime: Runtime, topic: str, log_incarnation: str, options: TimerOptions) -> None:
        self._store = store
        self._runtime = runtime
        self._topic = topic
        self._life = log_incarnation
        self._options = options

    async def open(self, run: TimerRun) -> OpenRun:
        """Raises `ObjectMissing` and `DataDamaged`."""
        key = run_key(self._topic, self._life, run.name)
        return await OpenRun.open(self._store, self._runtime, key, run, whole_bytes_max=self._options.group_bytes)

    async def flush(self, rows: TimedRows, *, start: int, limit: int, settled: DeliveredBounds) -> UnnamedRun:
        """Write a run of rows in memory, whose offsets are from ``start`` to ``limit``."""
        begun_s = self._runtime.clock.monotonic_s()
        waiting = rows.waiting
        below = waiting.only((waiting.offset >= start) & (waiting.offset < limit))
        ordered = below.within(DeliveredBounds(limit, FOREVER))
        table = rows.take(_outside(ordered, settled))

        def build() -> tuple[TimerRun, bytes] | None:
            writer = RunWriter(group_bytes=self._options.group_bytes)
            writer.write(table)
            return writer.close(name)

        name = self._runtime.new_id()
        return UnnamedRun(await self._put(await self._runtime.offload(build)), (), start, limit, begun_s)

    async def merge(self, runs: tuple[TimerRun, ...], *, settled: DeliveredBounds) -> UnnamedRun:
        """Write one run of the messages that still wait in these, with bounded memory."""
        begun_s = self._runtime.clock.monotonic_s()
        opened = [await self.open(run) for run in runs]
        writer = RunWriter(group_bytes=self._options.group_bytes)
        for one in opened:
            one.pass_over(settled.due)
        done = settled.due
        while (following := next_unloaded(opened)) is not None:
            await following.load()
            horizon = next_unloaded(opened)
            limit = FOREVER if horizon is None or horizon.next is None else horizon.next
            together = CombinedRows([one.rows for one in opened])
            bounds = DeliveredBounds(FOREVER.offset, DuePosition(limit.time_us, limit.offset - 1))
            chosen = _outside(together.waiting.within(bounds), DeliveredBounds(FOREVER.offset, done))
            if len(chosen):
                table = together.take(chosen)
                await self._runtime.offload(lambda: writer.write(table))  # noqa: B023 - it ends before the next round
                done = bounds.due
                for one in opened:
                    one.rows.drop(bounds)
        name = self._runtime.new_id()
        return UnnamedRun(await self._put(await self._runtime.offload(lambda: writer.close(name))), runs, 0, 0, begun_s)

    async def _put(self, written: tuple[TimerRun, bytes] | None) -> TimerRun | None:
        if written is None:
            return None
        run, data = written
        await self._store.put_large(run_key(self._topic, self._life, run.name), data)
        return run


def _outside(waiting: WaitingIndex, bounds: DeliveredBounds) -> WaitingIndex:
    return waiting.only(~within(waiting, bounds))
