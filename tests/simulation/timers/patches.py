"""Ways to remove a guard of the timers for a while: `mutants` says which guard is which."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.coordinator.cells.document import Document
from penstock.coordinator.timers.cell.cell import TimerCell
from penstock.coordinator.timers.cell.selection import WaitingIndex
from penstock.coordinator.timers.cell.state import Claim, DuePosition, TimerState
from penstock.coordinator.timers.claim_appender import ClaimAppender
from penstock.coordinator.timers.player import TimerPlayer
from penstock.coordinator.timers.runs.recalls import RecallSpill
from penstock.coordinator.timers.runs.run_files import run_key
from penstock.coordinator.timers.runs.run_merges import Gatherer, UnnamedRun
from penstock.log.errors import PenstockError
from penstock.log.lake import LogLake
from penstock.log.paths import timer_log_name
from penstock.log.topic.settings import TopicRecord
from penstock.log.topic.timer_log import make_timer_log
from penstock.log.topic.topics import Topic


def appended_first(original: Any) -> Any:
    async def claim(self: TimerPlayer, state: TimerState, now_us: int) -> bool:
        """Appends, and then says so in the cell."""
        write = self._cell.write

        async def late(claimed: TimerState, *, deadline_s: float | None = None) -> None:
            if claimed.claim is not None and claimed.claim != state.claim:
                before, self._cell.value = self._cell.value, claimed
                try:
                    await self._finish(claimed, claimed.claim)
                finally:
                    self._cell.value = before
            await write(claimed, deadline_s=deadline_s)

        self._cell.write = late  # type: ignore[method-assign, assignment]
        try:
            return bool(await original(self, state, now_us))
        finally:
            del self._cell.write

    return claim


def believing(original: Any) -> Any:
    async def append(self: ClaimAppender, claim: Claim, rows: pa.Table) -> bool:
        """Takes an append that failed, or whose outcome is unknown, for done."""
        try:
            return bool(await original(self, claim, rows))
        except PenstockError:
            return True

    return append


def recalled_anyway(_: Any) -> Any:
    def with_recalled(self: TimerState, due: DuePosition) -> TimerState:
        return replace(self, recalled=self.recalled | {due})

    return with_recalled


def forgetting_recalls(original: Any) -> Any:
    def with_arrived(self: TimerState) -> TimerState:
        return replace(original(self), recalled=frozenset())

    return with_arrived


def without_sequences(original: Any) -> Any:
    def numbered(rows: pa.Table, claim: Claim) -> pa.Table:
        """As if nobody had sent them before."""
        return rows.append_column("sequence", pa.nulls(rows.num_rows, pa.int64()))

    return numbered


def by_this_machine(_: Any) -> Any:
    def due_until_us(store_us: int, clock: Any) -> int:
        return 1000 * int(clock.wall_ms())

    return due_until_us


def sound_asleep(original: Any) -> Any:
    async def pause(self: TimerPlayer, seconds: float, stop: asyncio.Event) -> None:
        """Pauses until what it knows is due, however long that is."""
        await original(self, max(seconds, self.statistics.idle_s) if math.isfinite(self.statistics.idle_s) else seconds, stop)

    return pause


def any_log(_: Any) -> Any:
    async def timer_log(self: LogLake, name: str, *, writable: bool = False) -> tuple[Topic, Topic]:
        """Whatever stands there, of whichever life."""
        topic = await (self._writable_topic(name) if writable else self.topic(name))
        try:
            return topic, await self.topic(timer_log_name(name), writable=writable)
        except PenstockError:
            if not writable:
                raise
        await make_timer_log(self.store, self.runtime, name)
        return topic, await self.topic(timer_log_name(name), writable=writable)

    return timer_log


def any_life(original: Any) -> Any:
    async def open_(self: ClaimAppender, claim: Claim) -> None:
        """Appends to whatever topic there is of the name."""
        self._topic.record = (await self._lake.topic(self._topic.paths.topic)).record
        await original(self, claim)

    return open_


def named_first(_: Any) -> Any:
    async def put(self: Gatherer, written: Any) -> Any:
        """Names a run while it is still on its way."""
        if written is None:
            return None
        run, data = written
        _told(asyncio.ensure_future(self._store.put_large(run_key(self._topic, self._life, run.name), data)))
        return run

    return put


def gathered_again(original: Any) -> Any:
    def may_name(state: TimerState, gathered: UnnamedRun | RecallSpill, *, now_s: float) -> bool:
        """What another has gathered meanwhile, too, as far as the cell can say it."""
        if isinstance(gathered, RecallSpill) or gathered.merged:
            return bool(original(state, gathered, now_s=now_s))
        return state.gathered <= gathered.limit

    return may_name


def merged_again(original: Any) -> Any:
    def may_name(state: TimerState, gathered: UnnamedRun | RecallSpill, *, now_s: float) -> bool:
        is_merge = isinstance(gathered, UnnamedRun) and bool(gathered.merged)
        return is_merge or bool(original(state, gathered, now_s=now_s))

    return may_name


def never_reached(_: Any) -> Any:
    async def reach(self: Any, offset: int) -> None:
        """Goes by what was read so far."""

    return reach


def blind(original: Any) -> Any:
    async def write(self: Document[Any], value: Any, *, deadline_s: float | None = None) -> None:
        """Puts its own in place of whatever stands there, where that is the state of timers."""
        if isinstance(self, TimerCell):
            self.stored = await self._cells.read(self.key)
        await original(self, value, deadline_s=deadline_s)

    return write


def untouched(_: Any) -> Any:
    async def touch(self: TimerCell) -> TimerState:
        return await self.read()

    return touch


def as_sent(_: Any) -> Any:
    def within(self: WaitingIndex, bounds: Any) -> WaitingIndex:
        """In the order of the timer log."""
        from penstock.coordinator.timers.cell.selection import within as inside

        chosen = np.flatnonzero(inside(self, bounds))
        return WaitingIndex(self.time_us[chosen], self.offset[chosen])

    return within


def all_of_it(_: Any) -> Any:
    async def still_needed(lake: LogLake, timer_log: str, record: TopicRecord) -> Mapping[int, int]:
        return {}

    return still_needed


def _told(task: asyncio.Future[Any]) -> None:
    task.add_done_callback(lambda one: one.cancelled() or one.exception())
