"""The owner's hold on one queue's cell: changes gather while a write is under way, and go into the next one together.

Others only acknowledge. So a failed conditional write met another owner, which ends this hold; an acknowledgement, on which the changes are made
again; or its own write below an acknowledgement, shown by the count of writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from ...log.errors import InternalError, PenstockError, ReopenError, RetryError
from ...log.limits import KIB
from ..cells.cells import CellChanged, Cells, StoredCell
from ..cells.requests import Request
from ..limits import CELL_STORED_BYTES_MAX
from .cell import LogWitness, QueueCell
from .codec import decode_cell, encode_cell

Change: TypeAlias = Callable[[QueueCell], QueueCell]
"""A pure change of the cell, perhaps repeated on later cells."""
_Request: TypeAlias = Request[QueueCell, QueueCell]

ROOM_BYTES = CELL_STORED_BYTES_MAX - 8 * KIB
"""The size at which cells stop growing: a new owner needs room for suspects."""


class OwnershipLost(ReopenError):
    """The queue may have another owner. This one may start or settle nothing more."""

    kind = "ownership_lost"


class CellFull(RetryError):
    """The cell has no room, and is unchanged."""

    kind = "cell_full"


class Holder(Protocol):
    """A member of a group, while its worker's lease lasts."""

    @property
    def id(self) -> str: ...

    @property
    def until_s(self) -> float:
        """The end of the lease, by the monotonic clock."""
        ...


class QueueKeeper:
    """The owner's hold on the cell of one queue."""

    def __init__(self, cells: Cells, holder: Holder, key: str, cell: QueueCell, stored: StoredCell) -> None:
        self._cells = cells
        self._holder = holder
        self.key = key
        self.cell = cell
        self.size_bytes = len(stored.data)
        self.writes = 0
        self.taken_from = ""
        """The former owner that did not release the queue."""
        self.ended = asyncio.Event()
        """Set by release or loss."""
        self.seen: Callable[[], LogWitness] | None = None
        """The owner's knowledge; None until it agrees with the cell."""
        self._stored = stored
        self._gathered: list[_Request] = []
        self._writer: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        return self.cell.epoch

    async def change(self, change: Change) -> QueueCell:
        """Return the cell once the change is durable. Raises `OwnershipLost`, also when the outcome is unknown, `CellFull`, and what ``change``
        raises.
        """
        if self.ended.is_set():
            raise self._lost("the hold on the queue is over")
        request = _Request(change)
        self._gathered.append(request)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write_gathered())
        return await request.done

    async def look(self) -> QueueCell:
        """Read others' acknowledgements. Raises `OwnershipLost`, and what the table raises."""
        known = self._stored
        found = await self._cells.read(self.key)
        writing = self._writer is not None and not self._writer.done()
        if self._stored is known and not writing and not self.ended.is_set() and (found is None or found.version != known.version):
            try:
                self.cell = self._merged(CellChanged(self.key, found))
            except OwnershipLost:
                self.ended.set()
                raise
            self._stored = found or known
        return self.cell

    async def release(self) -> None:
        """Release the queue, with nothing in flight, for the next owner at once."""
        await self.change(QueueCell.released)
        self.ended.set()

    def lose(self) -> None:
        """End the hold without a write."""
        self.ended.set()

    async def _write_gathered(self) -> None:
        while self._gathered:
            gathered, self._gathered = self._gathered, []
            try:
                await self._write([one for one in gathered if not one.done.cancelled()])
            except PenstockError as error:
                self.ended.set()
                lost = error if isinstance(error, OwnershipLost) else self._lost("the cell could not be written", error)
                for one in [*gathered, *self._gathered]:
                    one.fail(lost)
                self._gathered.clear()

    async def _write(self, gathered: list[_Request]) -> None:
        base = self.cell
        while True:
            cell, made = _apply(base, gathered)
            seen = self.seen() if self.seen is not None else None
            data = encode_cell(_stamped(cell, base, seen))
            if len(data) > ROOM_BYTES and len(data) > (room := max(ROOM_BYTES, len(encode_cell(_stamped(base, base, seen))))):
                cell, made = _apply_what_fits(base, gathered, room)
                data = encode_cell(_stamped(cell, base, seen))
            if not made:
                return
            cell = _stamped(cell, base, seen)
            self.writes += 1
            try:
                self._stored = await self._cells.write(self.key, data, on=self._stored, deadline_s=self._holder.until_s)
                break
            except CellChanged as changed:
                base, self._stored = self._merged(changed), changed.stored or self._stored
                if base.step == cell.step:
                    cell = base  # this write was carried out, and another's acknowledgement is on top of it
                    break
        self.cell, self.size_bytes = cell, len(self._stored.data)
        for one in made:
            one.settle(cell)

    def _merged(self, changed: CellChanged) -> QueueCell:
        if changed.stored is None:
            raise self._lost("the cell was deleted", changed)
        stored = decode_cell(changed.stored.data, where=self.key)
        if (stored.owner, stored.epoch) != (self._holder.id, self.cell.epoch):
            raise self._lost(f"the queue was taken by {stored.owner or 'an operator'} in epoch {stored.epoch}", changed)
        if stored.step < self.cell.step:
            raise self._lost(f"the cell was put back to write {stored.step}, behind write {self.cell.step}", changed)
        return stored

    def _lost(self, message: str, cause: BaseException | None = None) -> OwnershipLost:
        error = OwnershipLost(
            message,
            operation="write a queue's cell",
            object=self.key,
            expected=f"{self._holder.id} in epoch {self.cell.epoch}",
            hint="what was in flight is run again by the next owner",
        )
        error.__cause__ = cause
        return error


async def take(cells: Cells, holder: Holder, key: str, *, begin: QueueCell, found: StoredCell | None) -> QueueKeeper | None:
    """Take a queue whose owner is gone, as its cell was ``found``; ``begin`` is the cell before the first take.

    None: another was quicker. Raises `UnknownOutcome`: read the cell again. An unanswered earlier write of the same holder is built upon.
    """
    while True:
        before = decode_cell(found.data, where=key) if found is not None else begin
        cell = before.taken_by(holder.id)
        try:
            stored = await cells.write(key, encode_cell(cell), on=found, deadline_s=holder.until_s)
        except CellChanged as changed:
            if changed.stored is None:
                return None
            stored, standing = changed.stored, decode_cell(changed.stored.data, where=key)
            if standing.owner != holder.id:
                return None
            if standing.epoch != cell.epoch:
                found = stored
                continue
            cell = standing
        keeper = QueueKeeper(cells, holder, key, cell, stored)
        keeper.taken_from = before.owner
        return keeper


def _stamped(cell: QueueCell, base: QueueCell, seen: LogWitness | None) -> QueueCell:
    return replace(cell, step=base.step + 1, seen=cell.seen if seen is None else seen)


def _apply(base: QueueCell, gathered: list[_Request]) -> tuple[QueueCell, list[_Request]]:
    """The cell with all possible changes, and their requests; a failed one's caller gets its error."""
    cell, made = base, []
    for one in gathered:
        if one.done.done():
            continue
        try:
            cell = one.change(cell)
        except PenstockError as error:
            one.fail(error)
        except Exception as error:  # noqa: BLE001 - a bug in one change must not stop those of others
            one.fail(InternalError("a change of a cell failed", observed=repr(error)))
        else:
            made.append(one)
    return cell, made


def _apply_what_fits(base: QueueCell, gathered: list[_Request], room_bytes: int) -> tuple[QueueCell, list[_Request]]:
    cell, made = base, []
    for one in gathered:
        if one.done.done():
            continue
        grown = one.change(cell)
        if (size := len(encode_cell(grown))) <= room_bytes:
            cell = grown
            made.append(one)
        else:
            one.fail(
                CellFull(
                    "the queue's cell has no room for more waiting messages and blocked groups",
                    operation="write a queue's cell",
                    expected=f"at most {room_bytes} bytes",
                    observed=f"{size} bytes",
                    hint="it has room again as messages settle; release or skip parked groups",
                )
            )
    return cell, made
