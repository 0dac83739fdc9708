"""The record of redriven dead letters: a cell in the form of a queue's cell.

*Settled* dead letters have a sequence. *Assigned* ones are not known to be durable; of these *granted* ones go back to their group alone. *Kept*
ones could not be read or were refused: they keep their sequences for a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ...coordinator.cells.cells import Cells
from ...coordinator.cells.document import Document
from ...coordinator.cells.keys import REDRIVES
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import QUEUE_CELL, decode_cell, encode_cell
from ...coordinator.queues.keeper import ROOM_BYTES
from ...coordinator.queues.offsets import OffsetSet, SettledOffsets
from ...coordinator.tables.objectstore import ObjectStoreTable
from ...log import DataDamaged, LimitExceeded, LogLake
from ...log.paths import group_folder
from .copy_writer import SequencesTaken

_WRITE_S = 60.0
"""The time for the lake's answer."""


class RedriveCell:
    """The cell of one life of a group's dead-letter queue, always in the lake: redrives with different tables must not send twice."""

    def __init__(self, lake: LogLake, group: str, life: int) -> None:
        self._table = ObjectStoreTable(lake.store, runtime=lake.runtime)
        cells, key = Cells(self._table, lake.runtime), f"{REDRIVES}{group_folder(group)}/{life}"
        self._document = Document(cells, lake.runtime.clock, key, QUEUE_CELL, absent=QueueCell(), write_s=_WRITE_S)

    @property
    def cell(self) -> QueueCell:
        return self._document.value

    async def read(self) -> None:
        await self._document.read()

    async def give(self, offsets: Sequence[int], *, earliest: int, alone: bool = False) -> list[int]:
        """Give sequences to those without one; ``alone``: they go back to their group alone. Returns their offsets. Raises `LimitExceeded`."""
        given: list[int] = []

        def change(cell: QueueCell) -> QueueCell:
            given[:] = [offset for offset in offsets if offset not in cell.settled]
            after = replace(cell, settled=cell.settled.with_range(0, earliest)).with_dead_letters(given)
            if alone:
                after = replace(after, granted=after.granted.union(OffsetSet.of_offsets(sorted(given))))
            _check_room(after, self._document.key)
            return after

        await self._change(change)
        return given

    async def bury(self, done: Collection[tuple[int, int]]) -> None:
        """Note that these (offset, sequence) are durable or expired."""

        def change(cell: QueueCell) -> QueueCell:
            letters = cell.dead_letters
            left = [pair for pair in letters.sequences() if pair not in done]
            alone = cell.granted.without(OffsetSet.of_offsets(sorted(offset for offset, _ in done)))
            return replace(cell, granted=alone, dead_letters=letters.only(left, next_sequence=letters.next_sequence))

        await self._change(change)

    async def renumber(self, taken: SequencesTaken, compared: Collection[tuple[int, int]]) -> None:
        """Move the ``compared`` letters that do not stand there behind all others."""

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
        await self._table.close()

    async def _change(self, change: Callable[[QueueCell], QueueCell]) -> None:
        await self._document.change_known(change)


@dataclass(frozen=True, slots=True)
class RedriveStates:
    """The outcome of the redrives for each dead letter of a queue."""

    settled: SettledOffsets = field(default_factory=SettledOffsets)
    on_their_way: frozenset[int] = frozenset()

    @classmethod
    async def read(cls, lake: LogLake, group: str, life: int) -> RedriveStates:
        """Raises `DataDamaged` for an unreadable record, and what the store raises."""
        redriven = RedriveCell(lake, group, life)
        try:
            await redriven.read()
        finally:
            await redriven.close()
        return cls(redriven.cell.settled, frozenset(offset for offset, _ in redriven.cell.dead_letters.sequences()))

    def of(self, offset: int) -> str:
        """``no``; ``on its way``: it was given its place among those that go back; ``sent``."""
        return "on its way" if offset in self.on_their_way else "sent" if offset in self.settled else "no"


def _check_room(cell: QueueCell, key: str) -> None:
    """Raise `LimitExceeded` unless the cell has room for reading and one more write."""
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
