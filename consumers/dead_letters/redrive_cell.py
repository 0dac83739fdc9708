"""The record of which letters of a dead-letter queue have gone back: a cell in the lake itself, of the form of a queue's cell.

*Settled* dead letters were given a sequence to go back with. *Assigned* ones are not known to be there yet. So letters may be chosen in any
order, and a later redrive finishes what another began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...coordinator.cells.cells import Cells
from ...coordinator.cells.document import Document
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import QUEUE_CELL, decode_cell, encode_cell
from ...coordinator.queues.keeper import ROOM_BYTES
from ...coordinator.tables.objectstore import ObjectStoreTable
from ...log import DataDamaged, Lake, LimitExceeded
from .copy_writer import SequencesTaken
from .writer import renumbered

REDRIVES = "redrives/"
_WRITE_S = 60.0
"""How long the lake may take to answer: a redrive that is given up is begun again by hand."""


class RedriveCell:
    """The cell of one life of a group's dead-letter queue, and changes of it.

    It lies in the lake, wherever the group's other cells are: two redrives that are told different tables must not send everything twice.
    """

    def __init__(self, lake: Lake, group: str, life: int) -> None:
        self._table = ObjectStoreTable(lake.store, runtime=lake.runtime)
        cells, key = Cells(self._table, lake.runtime), f"{REDRIVES}{group}/{life}"
        self._document = Document(cells, lake.runtime.clock, key, QUEUE_CELL, absent=QueueCell(), write_s=_WRITE_S)

    @property
    def cell(self) -> QueueCell:
        """The cell as it was read or written last."""
        return self._document.value

    async def read(self) -> None:
        """Read the cell as it is now."""
        await self._document.read()

    async def give(self, offsets: Sequence[int], *, earliest: int) -> list[int]:
        """Give each of these a sequence, except those that have one by now. Returns the offsets that were given one, in order.

        Letters before ``earliest`` are not kept any more, so their places need not be remembered. Raises `LimitExceeded`.
        """
        given: list[int] = []

        def change(cell: QueueCell) -> QueueCell:
            given[:] = [offset for offset in offsets if offset not in cell.settled]
            after = replace(cell, settled=cell.settled.with_range(0, earliest)).with_dead_letters(given)
            _check_room(after, self._document.key)
            return after

        await self._change(change)
        return given

    async def bury(self, sequence: int) -> None:
        """Note that all letters up to this sequence are known to be durable, or never will be."""
        await self._change(lambda cell: cell.with_buried(sequence))

    async def renumber(self, taken: SequencesTaken, seen: Sequence[tuple[int, int]]) -> None:
        """Put the assigned letters under other sequences, as something else stands under these (offset, sequence) pairs."""
        await self._change(lambda cell: renumbered(cell, taken, seen))

    async def close(self) -> None:
        """Release the table."""
        await self._table.close()

    async def _change(self, change: Callable[[QueueCell], QueueCell]) -> None:
        await self._document.change_known(change)


def _check_room(cell: QueueCell, key: str) -> None:
    """Raise `LimitExceeded` unless the cell can be read again, and written once more when these letters have gone back."""
    data = encode_cell(cell)
    observed = f"{len(data)} bytes"
    if len(data) <= ROOM_BYTES:
        try:
            decode_cell(data, where=key)
            return
        except DataDamaged as error:
            observed = str(error)
    raise LimitExceeded(
        "the dead letters that were chosen are too scattered, or too far behind others that were not",
        operation="redrive",
        object=key,
        expected=f"a cell that can be read again, of at most {ROOM_BYTES} bytes",
        observed=observed,
        hint="send the oldest back too, or wait until retention has taken them",
    )
