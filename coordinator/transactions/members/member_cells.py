"""Reads and writes the cells of members."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....log.errors import LimitExceeded, NotWritten, PenstockError
from ....log.runtime.runtime import Runtime
from ....log.runtime.shared_work import shared
from ...cells.cells import CellChanged, Cells
from ...cells.document import Codec, Document
from ...cells.keys import transactions_key
from ...cells.requests import Request, SharedWrites
from ...limits import CELL_BYTES_MAX, CELL_STORED_BYTES_MAX
from ..errors import TransactionNotFound
from .codec import decode_member, encode_member
from .state import MemberCell

NOTE_S = 1.0

Change = Callable[[MemberCell], MemberCell]
"""A change of a cell, perhaps repeated on its own result. Raises the error that forbids it."""

OnWrite = Callable[[MemberCell | None, MemberCell], None]
"""A callback for this process's durable writes: the cell before, and after."""


@dataclass(slots=True, kw_only=True)
class _MemberChange(Request[MemberCell, MemberCell]):
    until_s: float
    group: str | None
    grows: bool

    def apply(self, cell: MemberCell | None, *, member: str, now_s: float) -> MemberCell | None:
        """The cell, unchanged when the change is refused."""
        self.refusal = None
        try:
            if cell is None and self.group is None:
                raise TransactionNotFound("nothing is known of this member of a producer group", object=member)
            before = MemberCell(group=self.group or "") if cell is None else cell
            after = self.change(before)
            if after is not before:
                check_in_time(now_s, self.until_s)
            return after
        except PenstockError as refusal:
            self.refusal = refusal
            return cell


class MemberCells:
    """The cells by member."""

    def __init__(self, cells: Cells, runtime: Runtime, *, on_write: OnWrite = lambda before, after: None) -> None:
        self._cells = cells
        self._clock = runtime.clock
        self._on_write = on_write
        self._known: dict[str, Document[MemberCell | None]] = {}
        self._writes = SharedWrites(self._write, operation="write a transaction")
        self._later: dict[str, asyncio.TimerHandle] = {}

    async def read(self, member: str) -> MemberCell | None:
        return (await self._fetch(member)).value

    def size_bytes(self, member: str) -> int:
        """The size of the last known cell; 0 without one."""
        known = self._known.get(member)
        return 0 if known is None or known.stored is None else len(known.stored.data)

    def change(
        self, member: str, change: Change, *, group: str | None = None, until_s: float = math.inf, grows: bool = False
    ) -> asyncio.Future[MemberCell]:
        """The cell with the change, once durable, in the order of calls.

        A full cell refuses a change that ``grows``. ``group`` makes a missing cell. No first write is later than ``until_s``, by the monotonic clock.

        Raises what ``change`` raises, `TransactionNotFound` for a missing cell, `LimitExceeded` for a full one, `NotWritten` when too late, what the
        table raises, and `UnknownOutcome`.
        """
        asked = self._ask(member, change, group, until_s, grows=grows)
        self._begin(member)
        return asyncio.shield(asked.done)

    def note(self, member: str, change: Change) -> None:
        """Make a change with the next write, or alone after a while."""
        self._ask(member, change, None, math.inf, grows=False)
        if member not in self._later and not self._writes.is_writing(member):
            self._later[member] = asyncio.get_running_loop().call_later(NOTE_S, self._begin, member)

    async def drop(self, member: str) -> None:
        """Remove a cell marked as left, if it has not changed."""
        known = self._known.pop(member, None)
        if known is not None and known.stored is not None and known.value is not None and known.value.left:
            await self._cells.drop(transactions_key(member), on=known.stored)

    async def close(self) -> None:
        for member in list(self._later):
            self._begin(member)
        await self._writes.ended()

    def _ask(self, member: str, change: Change, group: str | None, until_s: float, *, grows: bool) -> _MemberChange:
        asked = _MemberChange(change, until_s=until_s, group=group, grows=grows)
        shared(asked.done)
        self._writes.add(member, asked)
        return asked

    def _begin(self, member: str) -> None:
        if (timer := self._later.pop(member, None)) is not None:
            timer.cancel()
        self._writes.begin(member)

    async def _write(self, member: str, asked: Sequence[_MemberChange]) -> None:
        try:
            after = await self._changed(member, asked)
        except Exception:
            self._known.pop(member, None)  # it may be old
            raise
        for one in asked:
            if after is None:
                assert one.refusal is not None, "a change that was not refused made a cell, or found one"
                one.fail(one.refusal)
            else:
                one.settle(after)

    async def _changed(self, member: str, asked: Sequence[_MemberChange]) -> MemberCell | None:
        known = self._known.get(member)
        is_fresh = known is None
        document = known or self._document(member)
        deadline_s = document.deadline_s()
        if is_fresh:
            await self._remember(member, document)
        while True:
            before = document.value
            after = self._applied(before, asked, member)
            if not is_fresh and (after is before or any(one.refusal for one in asked)):
                # This process's memory may be old; only the present cell may refuse.
                await self._remember(member, document)
                is_fresh = True
                continue
            if after is None or after is before:
                return after
            try:
                await document.write(after, deadline_s=deadline_s)
            except CellChanged:
                is_fresh = True
            else:
                self._known[member] = document
                self._on_write(before, after)
                return after

    def _applied(self, cell: MemberCell | None, asked: Sequence[_MemberChange], member: str) -> MemberCell | None:
        now_s = self._clock.monotonic_s()
        after = cell
        for one in asked:
            after = one.apply(after, member=member, now_s=now_s)
        if after is None or after is cell or len(encode_member(after)) <= CELL_BYTES_MAX:
            return after
        after = cell  # one by one: a change that comes when the cell is full is refused
        for one in asked:
            changed = one.apply(after, member=member, now_s=now_s)
            room = CELL_BYTES_MAX if one.grows else CELL_STORED_BYTES_MAX
            if changed is not None and changed is not after and len(encode_member(changed)) > room:
                one.refusal = _too_large(member)
            else:
                after = changed
        return after

    async def _fetch(self, member: str) -> Document[MemberCell | None]:
        return await self._remember(member, self._known.get(member) or self._document(member))

    async def _remember(self, member: str, document: Document[MemberCell | None]) -> Document[MemberCell | None]:
        await document.read()
        self._known[member] = document
        return document

    def _document(self, member: str) -> Document[MemberCell | None]:
        return Document(self._cells, self._clock, transactions_key(member), _CELL, absent=None)


def _encode(cell: MemberCell | None) -> bytes:
    assert cell is not None, "a change never takes a cell away"
    return encode_member(cell)


_CELL = Codec[MemberCell | None](_encode, decode_member)


def check_in_time(now_s: float, until_s: float) -> None:
    """Raise `NotWritten` when it is too late: so old an upload may have been given up."""
    if now_s > until_s:
        raise NotWritten("the transaction's messages were not staged in time", operation="send", hint="begin another transaction")


def _too_large(member: str) -> LimitExceeded:
    return LimitExceeded(
        "the transactions of one process are too many or too large for their cell",
        operation="send in a transaction",
        object=transactions_key(member),
        expected=f"at most {CELL_BYTES_MAX} bytes",
        hint="end some of them first, or send more messages at a time",
    )
