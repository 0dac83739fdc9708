"""The cell of one topic's timers: read, and changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable

from ....log.errors import DataDamaged
from ....log.lake import Lake
from ....log.runtime.runtime import Clock
from ...cells.cells import CellChanged, Cells, Stored
from ...cells.keys import timer_key
from ...tables.objectstore import ObjectStoreTable
from .codec import decode_timers, encode_timers
from .state import TimerState

_WRITE_S = 30.0


def timer_cells(lake: Lake) -> Cells:
    """The cells of timers, which are in the lake itself, wherever its groups' cells lie.

    Two processes that are given different tables must not both deliver everything.
    """
    return Cells(ObjectStoreTable(lake.store, runtime=lake.runtime), lake.runtime)


class TimerCell:
    """The state of a topic's timers, as this process knows it."""

    def __init__(self, cells: Cells, clock: Clock, topic: str, log_incarnation: str) -> None:
        self._cells = cells
        self._clock = clock
        self.key = timer_key(topic, log_incarnation)
        self._stored: Stored | None = None
        self.state = TimerState()
        """The state as it was last read or written."""
        self.was_missing: bool | None = None
        """Whether there was no cell when it was first read."""

    async def read(self) -> TimerState:
        """Read the present state. Raises what the table raises, and `DataDamaged`."""
        self._take(await self._cells.read(self.key))
        if self.was_missing is None:
            self.was_missing = self._stored is None
        return self.state

    async def write(self, state: TimerState) -> None:
        """Replace the state that was last read with ``state``.

        Raises `CellChanged` when the cell has another process's state, which is then the state here. Raises `UnknownOutcome`: then read
        the cell before anything else.
        """
        deadline_s = self._clock.monotonic_s() + _WRITE_S
        try:
            self._take(await self._cells.write(self.key, encode_timers(state), on=self._stored, deadline_s=deadline_s))
        except CellChanged as changed:
            self._take(changed.stored)
            raise

    async def change(self, change: Callable[[TimerState], TimerState]) -> TimerState:
        """Write the result of ``change`` on the newest state. ``change`` may be called more than once. Raises what it raises, and as
        `write` does.
        """
        await self.read()
        while (changed := change(self.state)) != self.state:
            try:
                await self.write(changed)
            except CellChanged:
                continue
            break
        return self.state

    async def touch(self) -> TimerState:
        """Write the cell again unchanged, if there is one. So a write that is based on the former version is refused. Raises as `write`
        does.
        """
        await self.read()
        while self._stored is not None:
            try:
                await self.write(self.state)
            except CellChanged:
                continue
            break
        return self.state

    def _take(self, stored: Stored | None) -> None:
        if stored is None and self._stored is not None:
            raise DataDamaged(
                "the cell that says which messages were let go is gone",
                operation="play timers",
                object=self.key,
                hint="put it back from a backup or the store's versions; unless the topic was deleted",
            )
        self._stored = stored
        self.state = TimerState() if stored is None else decode_timers(stored.data, where=self.key)
