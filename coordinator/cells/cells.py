"""Writes cells with a certain outcome.

A table may lose an answer, or refuse the second try of a write that it carried out. So every write has a fresh id, and is tried with the same bytes
on the same version, until a read shows this write or another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ...log.errors import (
    AccessRefused,
    DataDamaged,
    InternalError,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
    UnknownOutcome,
)
from ...log.limits import MIB
from ...log.runtime.backoff import Backoff
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import Conflict
from ..tables import Cell, CellTable, CellVersion
from ..tables.protocol import CoordinationMismatch, begin_put_of
from .moved import read_moved

T = TypeVar("T")

WRITE_ID_BYTES = 16
"""The size of the write id before a stored cell's content."""
_PAUSE_S = 0.02
_READS_AT_ONCE = 8
_LIST_IN_GETS = 12
"""The price of a LIST in GETs, at S3's prices."""
_KNOWN_BYTES_MAX = 64 * MIB
"""The bytes of remembered cells."""
_ATTEMPT_S = 3.0
"""The timeout of one try."""
_UNCLEAR = (PermissionDenied, Conflict, StoreUnavailable, StorageFull)
"""Answers to a write that only a read explains."""


class StoredCell(Struct, frozen=True):
    """A cell as it was read."""

    data: bytes
    version: CellVersion
    write_id: str
    move: str = ""
    """The move between tables that has copied the cell."""


class AgreesOnTable(Protocol):
    """Says whether the table is the lake's: `TableAgreement`."""

    agreed: bool
    claimed: bool

    async def check(self, *, found: bool) -> None: ...
    async def claim(self) -> None: ...
    async def confirm(self) -> None: ...
    async def thaw(self, move: str) -> None: ...
    async def stay(self, move: str) -> None: ...


class CellChanged(PenstockError):
    """Another's write is in the cell; ours may have been carried out before."""

    kind = "cell_changed"

    def __init__(self, key: str, stored: StoredCell | None) -> None:
        super().__init__("the cell was changed by another", operation="write a cell", object=key)
        self.stored = stored


Ended: TypeAlias = Callable[["StoredCell | BaseException"], None]
"""Hears of a write's end: the cell, or what `Cells.write` raises."""


class _CellWrite(Struct, frozen=True, eq=False):
    key: str
    data: bytes
    id: str
    stored: bytes
    expected: CellVersion | None
    deadline_s: float


class Cells:
    """The cells of one table, for one process. Reads and writes raise what the ``agreement`` raises, too."""

    def __init__(self, table: CellTable, runtime: Runtime, *, agreement: AgreesOnTable | None = None) -> None:
        self._table = table
        self._runtime = runtime
        self._agreement = agreement
        self._unconfirmed: set[str] = set()
        """Cells made here that a move to another table may have missed."""
        self._known: dict[str, StoredCell] = {}
        self._begin_put = begin_put_of(table)
        self._on_their_way: dict[_CellWrite, tuple[float, Ended]] = {}
        """Writes that no task waits for, with the ends of their times."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[StoredCell]] = set()

    @property
    def url(self) -> str:
        return self._table.url

    async def read(self, key: str) -> StoredCell | None:
        """Sees every write that ended before. Raises what the table raises, and `DataDamaged`."""
        cell = await _answer("get", key, lambda: self._table.get(key))
        stored = None if cell is None else _stored(key, cell)
        if self._agreement is not None:
            await self._check(self._agreement, {} if stored is None else {key: stored})
        return stored

    async def _check(self, agreement: AgreesOnTable, found: Mapping[str, StoredCell | PenstockError]) -> None:
        if not agreement.agreed:
            await agreement.check(found=bool(found))
        for move in {one.move for one in found.values() if isinstance(one, StoredCell) and one.move}:
            await agreement.thaw(move)
        if self._unconfirmed and not self._unconfirmed.isdisjoint(found):
            await agreement.confirm()
            self._unconfirmed.difference_update(found)

    async def keys(self, prefix: str) -> list[str]:
        """The sorted keys. May read the whole table."""
        keys = await self._table.keys(prefix)
        if self._agreement is not None and not self._agreement.agreed:
            await self._agreement.check(found=bool(keys))
        return keys

    async def read_all(
        self, prefixes: Sequence[str], before: Mapping[str, StoredCell | PenstockError] | None = None
    ) -> dict[str, StoredCell | PenstockError]:
        """All cells with one of these prefixes; for an unreadable cell, its error.

        Unchanged cells are the objects of ``before`` (default: the last result). Raises what the table raises.
        """
        before = dict(self._known) if before is None else before
        known = {key: stored.version for key, stored in before.items() if isinstance(stored, StoredCell)}
        found = await self._table.read_all(prefixes, known=known)
        read = {key: _stored_again(key, cell, before.get(key)) for key, cell in found.items()}
        if self._agreement is not None:
            await self._check(self._agreement, read)
        self._remember(tuple(prefixes), read)
        return read

    async def read_these(self, keys: Sequence[str], *, under: str) -> dict[str, StoredCell]:
        """The existing cells of these. With a prefix ``under`` of few other keys, only changed cells are read. Raises what the table raises, and
        `DataDamaged`.
        """
        if len(keys) > _LIST_IN_GETS and self._table.lists_cheaply:
            found = await self.read_all([under])
            return {key: _raised(found[key]) for key in keys if key in found}
        limit = asyncio.Semaphore(_READS_AT_ONCE)

        async def read(key: str) -> StoredCell | None:
            async with limit:
                return await self.read(key)

        answers = await asyncio.gather(*map(read, keys))
        return {key: stored for key, stored in zip(keys, answers, strict=True) if stored is not None}

    def _remember(self, prefixes: tuple[str, ...], read: Mapping[str, StoredCell | PenstockError]) -> None:
        kept = {key: stored for key, stored in self._known.items() if not key.startswith(prefixes)}
        kept |= {key: stored for key, stored in read.items() if isinstance(stored, StoredCell)}
        if sum(len(stored.data) for stored in kept.values()) <= _KNOWN_BYTES_MAX:
            self._known = kept

    async def write(self, key: str, data: bytes, *, on: StoredCell | None, deadline_s: float) -> StoredCell:
        """Replace the cell as it was read (None: no cell) by ``data``.

        Raises `CellChanged` for another's write, and `UnknownOutcome` after ``deadline_s`` (monotonic clock): the write may still be carried out,
        until another follows. A refusal is raised only if nothing can have been carried out.
        """
        if self._agreement is not None:
            await self._prepare(self._agreement, key, on)
        write = self._new_write(key, data, on, deadline_s)
        try:
            stored = await self._put(write)
        except _UNCLEAR as error:
            return await self._cleared(write, error)
        if self._agreement is not None and on is None:
            try:
                await self._check(self._agreement, {key: stored})
            except CoordinationMismatch:
                await self.drop(key, on=stored)
                raise
        return stored

    async def _prepare(self, agreement: AgreesOnTable, key: str, on: StoredCell | None) -> None:
        if not agreement.claimed:
            await agreement.claim()
        if on is None:
            self._unconfirmed.add(key)
        elif on.move:
            await agreement.stay(on.move)

    def begin_write(self, key: str, data: bytes, *, on: StoredCell | None, deadline_s: float, ended: Ended) -> None:
        """`write`, whose end is told: without a task and its turns of the event loop where the table can do that, and all goes well."""
        agreement = self._agreement
        if self._begin_put is None or (agreement is not None and (not agreement.claimed or on is None or on.move)):
            self._spawn(self.write(key, data, on=on, deadline_s=deadline_s), ended)
            return
        write = self._new_write(key, data, on, deadline_s)
        loop = asyncio.get_running_loop()
        self._on_their_way[write] = (loop.time() + _ATTEMPT_S, ended)
        if self._timer is None:
            self._timer = loop.call_later(_ATTEMPT_S, self._look_for_answers)
        try:
            self._begin_put(key, write.stored, write.expected, partial(self._told, write))
        except PenstockError as error:
            self._told(write, error)

    def _told(self, write: _CellWrite, answer: CellVersion | PenstockError) -> None:
        _, ended = self._on_their_way.pop(write, (0.0, None))
        if ended is None:
            return  # nobody waited that long
        if isinstance(answer, CellVersion):
            ended(StoredCell(write.data, answer, write.id))
        elif isinstance(answer, _UNCLEAR):
            self._spawn(self._cleared(write, answer), ended)
        else:
            ended(answer)

    def _look_for_answers(self) -> None:
        """One timer for all writes: one for each would cost as much as half of what becomes of it."""
        loop = asyncio.get_running_loop()
        for write, (until_s, _) in list(self._on_their_way.items()):
            if until_s <= loop.time():
                self._told(write, _no_answer("put", write.key))
        untils = [until_s for until_s, _ in self._on_their_way.values()]
        self._timer = loop.call_at(min(untils), self._look_for_answers) if untils else None

    def _spawn(self, work: Coroutine[Any, Any, StoredCell], ended: Ended) -> None:
        def tell(task: asyncio.Task[StoredCell]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                error = task.exception()
                ended(task.result() if error is None else error)

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(tell)

    def _new_write(self, key: str, data: bytes, on: StoredCell | None, deadline_s: float) -> _CellWrite:
        write_id = self._runtime.random.getrandbits(8 * WRITE_ID_BYTES).to_bytes(WRITE_ID_BYTES, "big")
        return _CellWrite(key, data, write_id.hex(), write_id + data, on.version if on else None, deadline_s)

    async def _put(self, write: _CellWrite) -> StoredCell:
        version = await _answer("put", write.key, lambda: self._table.put(write.key, write.stored, expected=write.expected))
        return StoredCell(write.data, version, write.id)

    async def _cleared(self, write: _CellWrite, cause: PenstockError) -> StoredCell:
        """What became of a write that had this answer; it is tried again."""
        backoff, in_doubt = Backoff(_PAUSE_S), False
        while True:
            if not isinstance(cause, PermissionDenied):
                in_doubt = in_doubt or not isinstance(cause, StorageFull | AccessRefused)
            elif not in_doubt:
                raise cause  # nothing can arrive later
            try:
                found = await self.read(write.key)
            except (StoreUnavailable, PermissionDenied) as error:
                cause = error
            else:
                if found is not None and found.write_id == write.id:
                    return found
                if (found.version if found else None) != write.expected:
                    raise CellChanged(write.key, found)
            pause_s = backoff.next_s()
            if self._runtime.clock.monotonic_s() + pause_s >= write.deadline_s:
                if not in_doubt:
                    raise cause
                raise UnknownOutcome(
                    "the cell may have been written, and the table does not tell",
                    operation="write a cell",
                    object=write.key,
                    observed=cause,
                ) from cause
            await asyncio.sleep(pause_s * (0.5 + self._runtime.random.random() / 2))
            try:
                return await self._put(write)
            except _UNCLEAR as error:
                cause = error

    async def drop(self, key: str, *, on: StoredCell) -> None:
        """Remove an unneeded, unchanged cell. Tried once: nothing may depend on the removal."""
        with suppress(Conflict, StoreUnavailable):
            await _answer("delete", key, lambda: self._table.delete(key, expected=on.version))


def _stored(key: str, cell: Cell) -> StoredCell:
    if len(cell.data) < WRITE_ID_BYTES:
        raise DataDamaged("the cell is cut off, or not Penstock's", object=key, observed=f"{len(cell.data)} bytes")
    moved = read_moved(cell.data[WRITE_ID_BYTES:], where=key)
    move, data = moved or ("", cell.data)
    return StoredCell(data[WRITE_ID_BYTES:], cell.version, data[:WRITE_ID_BYTES].hex(), move)


def _raised(stored: StoredCell | PenstockError) -> StoredCell:
    if isinstance(stored, PenstockError):
        raise stored
    return stored


def _stored_again(
    key: str, cell: Cell | CellVersion | PenstockError, before: StoredCell | PenstockError | None
) -> StoredCell | PenstockError:
    if isinstance(cell, PenstockError):
        return cell
    if isinstance(before, StoredCell) and before.version == (cell.version if isinstance(cell, Cell) else cell):
        return before
    if isinstance(cell, CellVersion):
        return InternalError("a table gave a version that nobody knows", object=key, observed=cell.token)
    try:
        return _stored(key, cell)
    except DataDamaged as error:
        return error


async def _answer(operation: str, key: str, ask: Callable[[], Awaitable[T]]) -> T:
    try:
        async with asyncio.timeout(_ATTEMPT_S):
            return await ask()
    except TimeoutError as error:
        raise _no_answer(operation, key) from error


def _no_answer(operation: str, key: str) -> StoreUnavailable:
    return StoreUnavailable("no answer", operation=operation, object=key, expected=f"within {_ATTEMPT_S:g} s")
