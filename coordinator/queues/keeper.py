"""The owner's hold on one queue's cell: changes gather while a write is under way, and go into the next one together.

Others only acknowledge. So a failed conditional write met another owner, which ends this hold; an acknowledgement, on which the changes are made
again; or its own write below an acknowledgement, shown by the count of writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
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


class CellRequest(Protocol):
    """A requested change, and who hears of its end."""

    @property
    def change(self) -> Change: ...

    @property
    def is_over(self) -> bool:
        """Whether nobody wants it any more."""
        ...

    def settle(self, result: QueueCell, /) -> None:
        """Hear that the change is durable in this cell."""
        ...

    def fail(self, error: PenstockError, /) -> None: ...


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
        self.merges = 0
        """The times that another's write was found below."""
        self.taken_from = ""
        """The former owner that did not release the queue."""
        self.ended = asyncio.Event()
        """Set by release or loss."""
        self.seen: Callable[[], LogWitness] | None = None
        """The owner's knowledge; None until it agrees with the cell."""
        self._stored = stored
        self._gathered: list[CellRequest] = []
        self._writing = False
        """Whether what gathers will be written."""

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
        if not self._writing:  # what is asked in the same turn goes into the same write
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write_gathered)
        return await request.done

    def carry_out(self, *requests: CellRequest) -> None:
        """Make changes by one write, begun at once unless one is under way. Each hears of its end, perhaps before this returns."""
        if self.ended.is_set():
            for one in requests:
                one.fail(self._lost("the hold on the queue is over"))
            return
        self._gathered += requests
        if not self._writing:
            self._writing = True
            self._write_gathered()

    async def look(self) -> QueueCell:
        """Read others' acknowledgements. Raises `OwnershipLost`, and what the table raises."""
        known = self._stored
        found = await self._cells.read(self.key)
        if (
            self._stored is known
            and not self._writing
            and not self.ended.is_set()
            and (found is None or found.version != known.version)
        ):
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

    def _write_gathered(self) -> None:
        """Write, by one call after the other, until nothing gathers."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._write(self.cell, gathered)
        else:
            self._writing = False

    def _write(self, base: QueueCell, gathered: list[CellRequest]) -> None:
        try:
            cell, made, data = self._changed(base, gathered)
            if made:
                self.writes += 1
                self._cells.begin_write(
                    self.key,
                    data,
                    on=self._stored,
                    deadline_s=self._holder.until_s,
                    ended=partial(self._written, cell, made, gathered),
                )
        except Exception as error:  # noqa: BLE001 - those who wait must hear of it
            self._lose(error, gathered)
            return
        if not made:
            self._write_gathered()

    def _changed(self, base: QueueCell, gathered: list[CellRequest]) -> tuple[QueueCell, list[CellRequest], bytes]:
        """The cell with all changes that are possible and fit, their requests, and its bytes."""
        cell, made = _apply(base, gathered)
        seen = self.seen() if self.seen is not None else None
        cell = _stamped(cell, base, seen)
        data = encode_cell(cell)
        if len(data) > ROOM_BYTES and len(data) > (room := max(ROOM_BYTES, len(encode_cell(_stamped(base, base, seen))))):
            cell, made = _apply_what_fits(base, gathered, room)
            cell = _stamped(cell, base, seen)
            data = encode_cell(cell)
        return cell, made, data

    def _written(
        self, cell: QueueCell, made: list[CellRequest], gathered: list[CellRequest], answer: StoredCell | BaseException
    ) -> None:
        if isinstance(answer, CellChanged):
            try:
                base, self._stored = self._merged(answer), answer.stored or self._stored
            except Exception as error:  # noqa: BLE001 - those who wait must hear of it
                self._lose(error, gathered)
                return
            if base.step != cell.step:
                self._write(base, gathered)
                return
            cell = base  # this write was carried out, and another's acknowledgement is on top of it
        elif isinstance(answer, BaseException):
            self._lose(answer, gathered)
            return
        else:
            self._stored = answer
        self.cell, self.size_bytes = cell, len(self._stored.data)
        for one in made:
            one.settle(cell)
        self._write_gathered()

    def _lose(self, error: BaseException, gathered: list[CellRequest]) -> None:
        self.ended.set()
        lost = error if isinstance(error, OwnershipLost) else self._lost("the cell could not be written", error)
        failed, self._gathered = [*gathered, *self._gathered], []
        for one in failed:
            one.fail(lost)
        self._writing = False

    def _merged(self, changed: CellChanged) -> QueueCell:
        self.merges += 1
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


def _apply(base: QueueCell, gathered: list[CellRequest]) -> tuple[QueueCell, list[CellRequest]]:
    """The cell with all possible changes, and their requests; a failed one's caller gets its error."""
    cell = base
    made: list[CellRequest] = []
    for one in gathered:
        if one.is_over:
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


def _apply_what_fits(base: QueueCell, gathered: list[CellRequest], room_bytes: int) -> tuple[QueueCell, list[CellRequest]]:
    cell = base
    made: list[CellRequest] = []
    for one in gathered:
        if one.is_over:
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
