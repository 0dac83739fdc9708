"""A table that knows for certain which workers are over."""

from __future__ import annotations

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import WORKERS, worker_key, worker_of
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.tables.memory import MemoryTable
from penstock.coordinator.workers.lease import Heartbeat, decode_heartbeat

"""What stands before a cell's own content: the id of its write."""


class WorkersTable(MemoryTable):
    """The table, which notes every worker's cell that is deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._removed: set[str] = set()
        """Keys of workers' cells that were deleted: a late repetition of a worker's first write brings no worker back."""

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        await super().delete(key, expected=expected)
        if key.startswith(WORKERS):
            self._removed.add(key)

    def heartbeat(self, worker: str) -> Heartbeat | None:
        """The heartbeat that stands, if any does."""
        key = worker_key(worker)
        found = self._cells.get(key)
        return decode_heartbeat(found.data[WRITE_ID_BYTES:], where=key) if found is not None else None

    def is_over(self, member: str) -> bool:
        """For certain: nothing can bring it back."""
        worker = worker_of(member)
        found = self.heartbeat(worker)
        if found is None or worker_key(worker) in self._removed:
            return True
        return found.fenced or not any(f"{found.worker}/{one.number}" == member for one in found.members)
