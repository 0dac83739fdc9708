"""Acknowledgements by who does not own the queue: written into its cell beside the owner, who merges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..log.errors import PenstockError, unforeseen
from ..log.runtime import Runtime
from .cell import QueueCell
from .cell_codec import decode_cell, encode_cell
from .cells import CellChanged, Cells
from .handles import AlreadySettled, ForeignReceipt, ReceiptRefused

WRITE_S = 10.0
"""After so long without an answer the table is given up."""


@dataclass(slots=True)
class _Waiting:
    change: Callable[[QueueCell], QueueCell]
    done: asyncio.Future[None]
    tried: bool
    """It may have been carried out before: then the message is settled by it, and not by another."""
    refusal: ReceiptRefused | None = None

    def apply(self, cell: QueueCell) -> QueueCell:
        """The cell with the change, or as it was when that is refused."""
        self.refusal = None
        try:
            return self.change(cell)
        except AlreadySettled as refusal:
            self.refusal = None if self.tried else refusal
        except ReceiptRefused as refusal:
            self.refusal = refusal
        return cell


class Receipts:
    """Changes of cells that others own, by receipt handle. Owner and epoch stay, so that the owner finds its own cell, with one more write.

    What is asked for while a write is under way goes into the next one together.
    """

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock
        self._waiting: dict[str, list[_Waiting]] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    def change(self, key: str, change: Callable[[QueueCell], QueueCell], *, tried: bool = False) -> asyncio.Future[None]:
        """Done once the change is durable; changes of one cell are made in the order of calls. ``tried`` says that it may be made already.

        Raises what ``change`` raises of `ReceiptRefused`, what the table raises, and `UnknownOutcome` when that does not tell.
        """
        waiting = _Waiting(change, asyncio.get_running_loop().create_future(), tried)
        self._waiting.setdefault(key, []).append(waiting)
        if key not in self._writing:
            self._writing[key] = asyncio.ensure_future(self._write_all(key))
        return waiting.done

    async def _write_all(self, key: str) -> None:
        try:
            while waiting := self._waiting.pop(key, []):
                try:
                    await self._write(key, waiting)
                except PenstockError as error:
                    _fail(waiting, error)
                except Exception as error:  # noqa: BLE001 - it belongs to those who wait
                    _fail(waiting, unforeseen(error, operation="acknowledge"))
        finally:
            del self._writing[key]

    async def _write(self, key: str, waiting: list[_Waiting]) -> None:
        deadline_s = self._clock.monotonic_s() + WRITE_S
        stored = await self._cells.read(key)
        while stored is not None:
            before = decode_cell(stored.data, where=key)
            after = before
            for one in waiting:
                after = one.apply(after)
            try:
                if after is not before:
                    await self._cells.write(key, encode_cell(after), on=stored, deadline_s=deadline_s)
                break
            except CellChanged as changed:
                stored = changed.stored
                for one in waiting:
                    one.tried = one.tried or one.refusal is None
        if stored is None:
            raise ForeignReceipt("nothing was ever handed out of this queue", operation="acknowledge", object=key)
        for one in waiting:
            if one.done.done():
                continue
            if one.refusal is not None:
                one.done.set_exception(one.refusal)
            else:
                one.done.set_result(None)


def _fail(waiting: list[_Waiting], error: PenstockError) -> None:
    for one in waiting:
        if not one.done.done():
            one.done.set_exception(error)
