"""A table of cells that judges every write which it carries out: who may take a queue, and from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import QUEUES, WORKERS
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.workers.lease import Heartbeat, decode_heartbeat
from tests.simulation.workers_table import WorkersTable

if TYPE_CHECKING:
    from tests.simulation.leases.world import Fleet


class Take(NamedTuple):
    """A change of owner, as the table carried it out."""

    at_s: float
    key: str
    epoch: int
    owner: str
    before: str


class Ledger(WorkersTable):
    """The table, which looks at every write that it carries out."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__("ledger")
        self._fleet = fleet
        self.takes: list[Take] = []
        self.released_s: dict[str, float] = {}

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        before = self._cells.get(key)
        version = await super().put(key, data, expected=expected)
        old = before.data[WRITE_ID_BYTES:] if before is not None else None
        if key.startswith(QUEUES):
            self._judge_queue(
                key, decode_cell(old, where=key) if old else QueueCell(), decode_cell(data[WRITE_ID_BYTES:], where=key)
            )
        elif key.startswith(WORKERS):
            new = decode_heartbeat(data[WRITE_ID_BYTES:], where=key)
            self._judge_heartbeat(key, decode_heartbeat(old, where=key) if old else None, new)
        return version

    def cell(self, key: str) -> QueueCell:
        found = self._cells.get(key)
        return decode_cell(found.data[WRITE_ID_BYTES:], where=key) if found is not None else QueueCell()

    def _judge_queue(self, key: str, old: QueueCell, new: QueueCell) -> None:
        if new.epoch < old.epoch:
            self._fleet.blame(f"{key}: epoch {old.epoch} went back to {new.epoch}")
        elif new.epoch == old.epoch:
            if new.owner != old.owner and new.owner:
                self._fleet.blame(f"{key}: epoch {new.epoch} has two owners, {old.owner or 'nobody'} and {new.owner}")
            if old.owner and not new.owner:
                self.released_s[key] = self._fleet.now_s
            if not old.owner:
                self._fleet.blame(f"{key}: written in epoch {new.epoch} after it was released")
        else:
            if new.epoch != old.epoch + 1 or not new.owner:
                self._fleet.blame(f"{key}: taken from epoch {old.epoch} to {new.epoch} by {new.owner!r}")
            if old.owner not in {"", new.owner} and not self.is_over(old.owner):
                self._fleet.blame(f"{key}: taken by {new.owner} while {old.owner} was not over")
            if self.is_over(new.owner):
                self._fleet.counts["a take landed after its taker was over"] += 1
            self.takes.append(Take(self._fleet.now_s, key, new.epoch, new.owner, old.owner))

    def _judge_heartbeat(self, key: str, old: Heartbeat | None, new: Heartbeat) -> None:
        if old is not None and old.fenced and not new.fenced:
            self._fleet.blame(f"{key}: revived after it was fenced")
        if old is not None and not {one.number for one in new.members} <= {one.number for one in old.members}:
            known = max((one.number for one in old.members), default=0)
            if any(one.number <= known and one not in old.members for one in new.members):
                self._fleet.blame(f"{key}: lists a member again that was over")
        if new.fenced:
            self._fleet.counts["left" if not new.members else "fenced"] += 1
            self._fleet.fenced_s[new.worker] = self._fleet.now_s
