"""What a queue's cell says with the objects that it names, as one cell; and what is wrong with them."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.coordinator.queues.cell import QueueCell, Spill, Tries
from penstock.coordinator.queues.spills import WaitingRows
from penstock.coordinator.registry.retention import first_needed
from penstock.coordinator.registry.spill_objects import SpillObjects
from penstock.log.errors import DataDamaged
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.memory import MemoryStore
from tests.simulation.consumers.records import Line


class Spilled:
    """Of one lake. Objects never change, so each is read once, but it must be there whenever a cell names it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[str, WaitingRows] = {}
        self.taken_away: set[str] = set()
        """Keys of objects that somebody else deleted, and will restore."""

    def whole(self, line: Line, cell: QueueCell) -> tuple[QueueCell, list[str]]:
        """The cell as if it had room for all that waits, and what is wrong."""
        if not cell.spills:
            return cell, []
        wrong: list[str] = []
        tries: dict[int, Tries] = dict(cell.tries)
        for spill in cell.spills:
            try:
                rows = self._read(line, spill)
            except DataDamaged as error:
                wrong.append(f"names an object that is not there: {error}")
                continue
            waiting = rows.part(spill.taken).tries()
            if spill != rows.spill(spill.id, spill.taken):
                wrong.append(
                    f"says {spill} of an object with {len(rows)} rows, of which {rows.spill(spill.id, spill.taken)} is true"
                )
            if twice := sorted(waiting.keys() & tries.keys()):
                wrong.append(f"has these in two places: {twice[:5]}")
            tries |= waiting
        needed = first_needed(cell)
        if needed is None or needed > min(tries):
            wrong.append(f"lets retention take {min(tries)}, which waits: it is to spare what is from {needed} on")
        return replace(cell, tries=tries, spills=()), wrong

    def _read(self, line: Line, spill: Spill) -> WaitingRows:
        objects = SpillObjects(self._store, Runtime(), *line)
        if (key := objects.key(spill.id)) not in self._store._objects and key not in self.taken_away:
            self._rows.pop(spill.id, None)
        if spill.id not in self._rows:
            reading = objects.read(spill)  # in memory: it never waits
            try:
                reading.send(None)
            except StopIteration as done:
                self._rows[spill.id] = done.value
            else:
                raise AssertionError("a store in memory answers at once")
        return self._rows[spill.id]
