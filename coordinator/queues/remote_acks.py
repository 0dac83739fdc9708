"""Acknowledgements beside the queue's owner, who merges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from ...log.errors import UnknownOutcome
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.document import Document
from ..cells.requests import Request, SharedWrites
from .cell import QueueCell
from .codec import QUEUE_CELL
from .receipt_handle import DeadLettersWait, ForeignReceipt, ReceiptOutdated, ReceiptRefused


class UncertainWrite(Struct, frozen=True):
    """A write whose outcome is unknown."""

    write: int
    """The id, as in `QueueCell.acks`."""
    since: int
    """The least number of earlier acknowledging writes."""


@dataclass(slots=True, kw_only=True)
class _Waiting(Request[QueueCell, None]):
    tried: list[UncertainWrite]
    """The tried writes, of which at most one was carried out."""
    made: bool = False
    in_doubt: bool = False
    """Whether the cell has forgotten one of the writes."""
    changes: bool = False

    def recall(self, cell: QueueCell) -> None:
        """Learn the outcome from the cell: earlier writes can no longer be carried out."""
        found = [cell.has_ack(one.write, one.since) for one in self.tried]
        self.made = self.made or True in found
        self.in_doubt = self.in_doubt or None in found
        self.tried = [UncertainWrite(one.write, cell.ack_writes) for one in self.tried]

    def apply(self, cell: QueueCell) -> QueueCell:
        """The cell, unchanged when the change is refused or was made before."""
        self.refusal, after = None, cell
        try:
            after = cell if self.made else self.change(cell)
        except (ReceiptOutdated, DeadLettersWait) as refusal:
            self.refusal = refusal
        except ReceiptRefused as refusal:
            self.refusal = _unknown(refusal) if self.in_doubt else refusal
        self.changes = after is not cell
        return after


class RemoteAcks:
    """Changes cells that others own, by receipt handle. Owner and epoch stay. Changes requested during a write go into the next one together."""

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock
        self._random = runtime.random
        self._writes = SharedWrites(self._write, operation="acknowledge")

    def change(
        self, key: str, change: Callable[[QueueCell], QueueCell], *, tried: UncertainWrite | None = None
    ) -> asyncio.Future[None]:
        """A future that is done once the change is durable. One cell's changes keep the order of calls. ``tried`` may have made the change already.

        Raises the `ReceiptRefused` errors of ``change``, what the table raises, and `UnknownOutcome`.
        """
        waiting = _Waiting(change, tried=[tried] if tried else [])
        self._writes.add(key, waiting)
        self._writes.begin(key)
        return waiting.done

    async def _write(self, key: str, waiting: list[_Waiting]) -> None:
        document = Document(self._cells, self._clock, key, QUEUE_CELL, absent=QueueCell())
        trying: UncertainWrite | None = None

        def acknowledged(before: QueueCell) -> QueueCell:
            nonlocal trying
            if document.stored is None:
                return before
            after = before
            for one in waiting:
                one.tried += [trying] if trying is not None and one.changes else []
                one.recall(before)
                after = one.apply(after)
            if after is before:
                return before
            trying = UncertainWrite(self._random.getrandbits(64), before.ack_writes)
            return after.with_ack(trying.write)

        await document.change(acknowledged)
        if document.stored is None:
            raise ForeignReceipt("nothing was ever handed out of this queue", operation="acknowledge", object=key)
        for one in waiting:
            one.settle(None)


def _unknown(refusal: ReceiptRefused) -> UnknownOutcome:
    unknown = UnknownOutcome(
        "the acknowledgement may have been carried out, and so many followed it that the cell does not tell",
        operation="acknowledge",
        observed=refusal,
        hint="the message is not out any more: either this was done, or the message expired before",
    )
    unknown.__cause__ = refusal
    return unknown
