"""The cell of one topic's timers."""

from __future__ import annotations

from ....log.errors import DataDamaged
from ....log.lake import LogLake
from ....log.runtime.runtime import Clock
from ...cells.cells import Cells, StoredCell
from ...cells.document import LONG_WRITE_S, Codec, Document
from ...cells.keys import timer_key
from ...tables.objectstore import ObjectStoreTable
from .codec import decode_timers, encode_timers
from .state import TimerState


def timer_cells(lake: LogLake) -> Cells:
    """The cells of timers, always in the lake: two processes with different tables must not both deliver."""
    return Cells(ObjectStoreTable(lake.store, runtime=lake.runtime), lake.runtime)


class TimerCell(Document[TimerState]):
    """The state of a topic's timers, as this process knows it. A cell that disappears is damage."""

    def __init__(self, cells: Cells, clock: Clock, topic: str, log_incarnation: str) -> None:
        key = timer_key(topic, log_incarnation)
        super().__init__(cells, clock, key, Codec(encode_timers, decode_timers), absent=TimerState(), write_s=LONG_WRITE_S)
        self.was_missing: bool | None = None

    @property
    def state(self) -> TimerState:
        return self.value

    async def read(self) -> TimerState:
        """Raises what the table raises, and `DataDamaged`."""
        state = await super().read()
        if self.was_missing is None:
            self.was_missing = self.stored is None
        return state

    async def touch(self) -> TimerState:
        """Write the cell again unchanged, if it exists, so that writes on the former version are refused. Raises as `write`."""
        state = await self.read()
        return state if self.stored is None else await self.change_known(lambda state: state, anew=True)

    def _take(self, stored: StoredCell | None) -> None:
        if stored is None and self.stored is not None:
            raise DataDamaged(
                "the cell that says which messages were let go is gone",
                operation="play timers",
                object=self.key,
                hint="put it back from a backup or the store's versions; unless the topic was deleted",
            )
        super()._take(stored)
