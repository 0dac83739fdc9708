"""Keeps in a queue's cell only the waiting messages due next, others in objects that it names.

An object is written before the cell names it, and deleted a while after. While a step fails nothing leaves, and at last the queue stops fetching.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from ...coordinator.limits import CELL_BYTES_MAX
from ...coordinator.queues.cell import QueueCell, Spill, Tries
from ...coordinator.queues.keeper import OwnershipLost, QueueKeeper
from ...coordinator.queues.spills import WaitingRows, nearest, to_merge, with_merged, with_returned, with_spilled
from ...coordinator.registry.spill_objects import NAMED_WITHIN_S, SpillObjects
from ...log.errors import DataDamaged, InternalError, PenstockError, PermissionDenied, RetryError
from ...log.runtime.backoff import Backoff
from ..limits import QueueLimits
from ..schedule.protocol import QueueSchedule

log = logging.getLogger("penstock.consumers")

AHEAD_MS = 60_000
"""Messages due within this time come back."""
NAMED_MAX = 64
"""The most objects that a cell names, at some 40 bytes each."""
ROWS_MAX = 64 * 1024
"""The rows in one object, which must fit into memory."""
_FULL_BYTES = CELL_BYTES_MAX * 3 // 4
"""The cell's size from which messages leave even if few wait."""
_PAUSE_S = 0.2
_UNREADABLE_S = 60.0
"""The time for which a damaged or missing object is left alone."""
UNNAMED_S = 900.0
"""The time for which an object stays that the cell names no more: a standby of the table's server may take over without the last commits."""


class SpillTask:
    """The spilling of one queue in its owner."""

    def __init__(
        self, objects: SpillObjects, limits: QueueLimits, *, schedule: Callable[[], QueueSchedule], moved: Callable[[], None]
    ) -> None:
        """``moved`` is called when the schedule got messages, or room."""
        self._objects = objects
        self._clock = objects.runtime.clock
        self._limits = limits
        self._schedule = schedule
        self._moved = moved
        self._rows: dict[str, WaitingRows] = {}
        self._unreadable_s: dict[str, float] = {}
        self._unnamed_s: dict[str, float] = {}
        """When to delete the objects that the cell names no more."""
        self._nearest = limits.waiting or QueueLimits().tracked // 2
        self._crowded = False
        self._woken = asyncio.Event()

    def wake(self, cell: QueueCell) -> None:
        if cell.spills or (self._limits.waiting is not None and self._schedule().tracked.count_waiting):
            self._woken.set()

    async def run(self, keeper: QueueKeeper) -> None:
        """Keep the cell small as long as the queue is owned. Raises `OwnershipLost`."""
        pause = Backoff(_PAUSE_S)
        while True:
            self._woken.clear()
            try:
                if (
                    await self._return(keeper)
                    or await self._spill(keeper)
                    or await self._merge(keeper)
                    or await self._delete(keeper)
                ):
                    pause = Backoff(_PAUSE_S)
                    continue
            except (OwnershipLost, InternalError):
                raise
            except PenstockError as error:
                where = (self._objects.group, self._objects.topic, self._objects.queue)
                log.warning(
                    "group %s, %s queue %d: messages that wait cannot leave the cell, or come back to it: %s", *where, error
                )
                await asyncio.sleep(pause.next_s())
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s(keeper.cell)):
                    await self._woken.wait()

    def _rest_s(self, cell: QueueCell) -> float | None:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        waits = [(spill.next_due_ms - AHEAD_MS - now_ms) / 1000 for spill in cell.spills if spill.id not in self._unreadable_s]
        waits += [at_s - now_s for at_s in (*self._unreadable_s.values(), *self._unnamed_s.values())]
        return min((wait_s for wait_s in waits if wait_s > 0), default=None)

    # --- Back into the cell

    async def _return(self, keeper: QueueKeeper) -> bool:
        """Let due messages come back. Returns whether any did."""
        cell, until_ms = keeper.cell, self._clock.wall_ms() + AHEAD_MS
        soon = [spill for spill in cell.spills if spill.next_due_ms <= until_ms]
        room = self._room(min((spill.next_due_ms for spill in soon if self._may_read(spill)), default=None))
        if room <= 0:
            return False
        found = [(spill, rows) for spill in soon if (rows := await self._read(keeper, spill)) is not None]
        returning = nearest(found, room, until_ms)
        if not returning:
            return False
        await keeper.change(partial(with_returned, returning=returning, generation=cell.generation))
        if keeper.cell.generation == cell.generation:
            for one in returning:
                self._schedule().tracked.returned(one.waiting)
            self._forget(one.before for one in returning if one.after is None)
            self._moved()
        return True

    def _room(self, next_due_ms: int | None) -> int:
        """The room for messages coming back: 0 while enough of those in the cell are due first."""
        tracked = self._schedule().tracked
        wanted = 0 if next_due_ms is None else self._nearest - tracked.count_due(next_due_ms)
        room = self._limits.tracked * 3 // 4 - len(tracked)
        self._crowded = wanted > 0 and room < wanted
        return min(wanted, room) if wanted > self._nearest // 4 else 0

    # --- Out of the cell

    async def _spill(self, keeper: QueueKeeper) -> bool:
        """Let the messages due last leave. Returns whether any did."""
        cell, tracked, limits = keeper.cell, self._schedule().tracked, self._limits
        if limits.waiting is None or len(cell.spills) >= NAMED_MAX:
            return False
        crowded = self._crowded or keeper.size_bytes >= _FULL_BYTES
        keep = max(1, self._nearest // 2) if crowded else self._nearest
        if tracked.count_waiting <= keep * 3 // 2:  # they leave together, not one by one
            return False
        waiting = tracked.spill(keep)
        if not waiting:
            return False
        left = False
        try:
            left = await self._leave(keeper, waiting, cell.generation)
        finally:
            (tracked.spilled if left else tracked.returned)(waiting)
            self._moved()
        return True

    async def _leave(self, keeper: QueueKeeper, waiting: Mapping[int, Tries], generation: int) -> bool:
        rows = WaitingRows.of(waiting)
        spill = await self._written(rows)
        if spill is None:
            return False
        cell = await keeper.change(partial(with_spilled, spill=spill, waiting=waiting, generation=generation))
        return cell.generation == generation

    async def _written(self, rows: WaitingRows) -> Spill | None:
        """The spill of an object just written; None after too long."""
        began_s = self._clock.monotonic_s()
        spill = rows.spill(await self._objects.write(rows))
        self._keep(spill.id, rows)
        return spill if self._clock.monotonic_s() - began_s < NAMED_WITHIN_S else None

    # --- Objects

    async def _merge(self, keeper: QueueKeeper) -> bool:
        """Merge small objects. Returns whether that was done."""
        cell = keeper.cell
        if len(cell.spills) <= self._limits.objects:
            return False
        together = self._limits.objects // 2 + 1
        chosen = to_merge([spill for spill in cell.spills if self._may_read(spill)], together, ROWS_MAX)
        found = [(spill, rows) for spill in chosen if (rows := await self._read(keeper, spill)) is not None]
        if len(found) < 2:
            return False
        merged = await self._written(WaitingRows.merged(rows.part(spill.taken) for spill, rows in found))
        if merged is None:
            return False
        before = [spill for spill, _ in found]
        await keeper.change(partial(with_merged, before=before, after=merged, generation=cell.generation))
        self._forget(before)
        return True

    async def _delete(self, keeper: QueueKeeper) -> bool:
        named, now_s = {spill.id for spill in keeper.cell.spills}, self._clock.monotonic_s()
        self._unnamed_s = {one: at_s for one, at_s in self._unnamed_s.items() if one not in named}
        due = [one for one, at_s in self._unnamed_s.items() if at_s <= now_s]
        for one in due:
            del self._unnamed_s[one]
        if due:
            with suppress(RetryError, PermissionDenied):
                await self._objects.delete(due)
        return bool(due)

    def _may_read(self, spill: Spill) -> bool:
        return self._unreadable_s.get(spill.id, -math.inf) <= self._clock.monotonic_s()

    async def _read(self, keeper: QueueKeeper, spill: Spill) -> WaitingRows | None:
        """All rows of an object; None: unreadable. Raises the store's errors."""
        if not self._may_read(spill):
            return None
        rows = self._rows.pop(spill.id, None)
        if rows is None:
            try:
                rows = await self._objects.read(spill)
            except DataDamaged as error:
                await keeper.look()  # another owner may have taken its rows, and deleted it
                self._unreadable_s[spill.id] = self._clock.monotonic_s() + _UNREADABLE_S
                log.error("group %s: %s", self._objects.group, error)  # noqa: TRY400 - it says all
                return None
            self._unreadable_s.pop(spill.id, None)
        self._keep(spill.id, rows)
        return rows

    def _keep(self, name: str, rows: WaitingRows) -> None:
        self._rows[name] = rows
        while sum(map(len, self._rows.values())) > ROWS_MAX and len(self._rows) > 1:
            del self._rows[next(iter(self._rows))]

    def _forget(self, spills: Iterable[Spill]) -> None:
        for spill in spills:
            self._rows.pop(spill.id, None)
            self._unreadable_s.pop(spill.id, None)
            self._unnamed_s[spill.id] = self._clock.monotonic_s() + UNNAMED_S
