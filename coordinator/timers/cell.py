"""The cell of one topic's timers: read, and changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable

from ...log.errors import DataDamaged
from ...log.lake import Lake
from ...log.runtime import Clock
from ..cells import CellChanged, Cells, Stored
from ..keys import timer_key
from ..tables.objectstore import ObjectStoreTable
from .codec import decode_timers, encode_timers
from .state import TimerState

_WRITE_S = 30.0


def timer_cells(lake: Lake) -> Cells:
    """Where the cells are: in the lake itself, wherever its groups' cells lie.

    Two processes that are told different tables must not both let everything go.
    """
    return Cells(ObjectStoreTable(lake.store, runtime=lake.runtime), lake.runtime)


class TimerCell:
    """What the timers of a topic are, as this process knows them."""

    def __init__(self, cells: Cells, clock: Clock, topic: str, log_incarnation: str) -> None:
        self._cells = cells
        self._clock = clock
        self.key = timer_key(topic, log_incarnation)
        self._stored: Stored | None = None
        self.state = TimerState()
        """As it was read or written last."""
        self.was_missing: bool | None = None
        """Whether there was none when it was read first."""

    async def read(self) -> TimerState:
        """Look what it is now. Raises what the table raises, and `DataDamaged`."""
        self._take(await self._cells.read(self.key))
        if self.was_missing is None:
            self.was_missing = self._stored is None
        return self.state

    async def write(self, state: TimerState) -> None:
        """Put ``state`` in place of the one that was read last.

        Raises `CellChanged` when another's stands there, which is then the state here; and `UnknownOutcome`: read it before anything else.
        """
        deadline_s = self._clock.monotonic_s() + _WRITE_S
        try:
            self._take(await self._cells.write(self.key, encode_timers(state), on=self._stored, deadline_s=deadline_s))
        except CellChanged as changed:
            self._take(changed.stored)
            raise

    async def change(self, change: Callable[[TimerState], TimerState]) -> TimerState:
        """Write what ``change`` makes of the newest state; it may be asked more than once. Raises what it raises, and as `write` does."""
        await self.read()
        while (changed := change(self.state)) != self.state:
            try:
                await self.write(changed)
            except CellChanged:
                continue
            break
        return self.state

    async def touch(self) -> TimerState:
        """Write the cell anew as it is, if there is one: whoever is about to write on what it was before does not. Raises as `write` does."""
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
