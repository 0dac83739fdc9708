"""The record of which letters of a dead-letter queue have gone back: a cell in the lake itself, of the form of a queue's cell.

*Settled* dead letters were given a sequence to go back with. *Assigned* ones are not known to be there yet. So letters may be chosen in any
order, and a later redrive finishes what another began. *Kept* ones were passed over, as they could not be read or were refused: they have
their sequences until they are compared with what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...coordinator.cells.cells import Cells
from ...coordinator.cells.document import Document
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import QUEUE_CELL, decode_cell, encode_cell
from ...coordinator.queues.keeper import ROOM_BYTES
from ...coordinator.tables.objectstore import ObjectStoreTable
from ...log import DataDamaged, LimitExceeded, LogLake
from .copy_writer import SequencesTaken

REDRIVES = "redrives/"
_WRITE_S = 60.0
"""How long the lake may take to answer: a redrive that is given up is begun again by hand."""


class RedriveCell:
    """The cell of one life of a group's dead-letter queue, and changes of it.

    It lies in the lake, wherever the group's other cells are: two redrives that are told different tables must not send everything twice.
    """

    def __init__(self, lake: LogLake, group: str, life: int) -> None:
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

    async def bury(self, done: Collection[tuple[int, int]]) -> None:
        """Note that these (offset, sequence) are known to be durable, or that retention took the letters. All others stay as they are."""

        def change(cell: QueueCell) -> QueueCell:
            letters = cell.dead_letters
            left = [pair for pair in letters.sequences() if pair not in done]
            return replace(cell, dead_letters=letters.only(left, next_sequence=letters.next_sequence))

        await self._change(change)

    async def renumber(self, taken: SequencesTaken, compared: Collection[tuple[int, int]]) -> None:
        """Put those of the ``compared`` letters that do not stand there under sequences behind all others.

        Letters that were not compared keep their sequences: whether they stand there is not known.
        """

        def change(cell: QueueCell) -> QueueCell:
            letters = cell.dead_letters
            pairs = letters.sequences()
            first = max(letters.next_sequence, taken.last_sequence + 1)
            moved = [offset for offset, sequence in pairs if (offset, sequence) in compared and sequence not in taken.written]
            left = [pair for pair in pairs if pair not in compared]
            numbered = [(offset, first + place) for place, offset in enumerate(moved)]
            following = first + len(moved) if moved else letters.next_sequence
            return replace(cell, dead_letters=letters.only([*left, *numbered], next_sequence=following))

        await self._change(change)

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
