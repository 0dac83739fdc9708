"""Cells in a table of PostgreSQL, for processes on many machines."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from ....log.errors import ClosedError, ForkedError, InvalidArgument, PenstockError, StoreUnavailable, unforeseen
from ....log.runtime.backoff import Backoff
from ....log.runtime.runtime import Runtime
from ..changes import CellWrite, Change, Deletion, Outcome, error_of, take_together
from ..protocol import Cell, CellVersion, TableNotFound, Told, check_cell, check_cell_key
from ..versions import first_number, number_of, version_of
from .connection import Connect, PostgresConnection, Row
from .errors import lacks_table, may_not_make, was_made_meanwhile
from .place import InPostgres
from .statements import CellStatements, key_ranges

T = TypeVar("T")

_TOGETHER_MAX = 64
_PAUSE_S = 0.02


class _Read(Struct, eq=False):
    operation: str
    asked: str
    statement: str
    values: tuple[object, ...]
    rows: asyncio.Future[Sequence[Row]]


class PostgresTable:
    """A cell is a row: ``key``, ``version`` and ``data``. The table is made by the first write, where that is allowed.

    An acknowledged write is on the server's disk, and on its standbys as far as ``synchronous_standby_names`` asks for that. Versions are drawn, not
    counted: a standby that takes over without the last writes has cells of versions that no lost write had.

    Two connections at most, one that writes and one that reads. Waiting writes are one statement, and so are waiting reads. For one event loop.
    """

    lists_cheaply = False

    def __init__(self, place: InPostgres, *, connect: Connect, runtime: Runtime) -> None:
        self._place = place
        self._runtime = runtime
        self._connect = connect
        self._sql = CellStatements(place)
        self._pid = os.getpid()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str) -> Cell | None:
        check_cell_key(key)
        rows = await self._read("get", key, self._sql.get)
        return next((_cell(row) for row in rows if row["key"] == key), None)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        write = self._write(key, data, expected)
        await self._change("put", expected, write)
        return version_of(write.version)

    def begin_put(self, key: str, data: bytes, expected: CellVersion | None, told: Told) -> None:
        """`put`, whose end is told. What was not begun raises."""
        write = self._write(key, data, expected)

        def hear(outcome: Outcome) -> None:
            told(version_of(write.version) if outcome is True else error_of("put", expected, write, outcome))

        self._check()
        self._writes.add(Change(write, hear))

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        check_cell_key(key)
        await self._change("delete", expected, Deletion(key, number_of(expected)))

    async def keys(self, prefix: str) -> list[str]:
        ((first,), (last,)) = key_ranges([prefix])
        rows = await self._read("keys", prefix, self._sql.keys, first, last)
        return [row["key"] for row in rows if row["key"] is not None]

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        rows = await self._read("read all", " ".join(prefixes), self._sql.read_all, *key_ranges(prefixes))
        return {row["key"]: _cell(row) for row in rows if row["key"] is not None}

    async def create(self) -> None:
        """Make the table, unless it exists. Raises `TableNotFound`, with the SQL to run, where this user may not."""
        self._check()
        await self._create()

    async def close(self) -> None:
        """Give up what waits, and close the connections. Does nothing in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        error = ClosedError("the table was closed meanwhile", object=self.url)
        for change in self._writes.drain():
            change.told(error)
        for read in self._reads.drain():
            _answer(read, error)
        await self._writes.ended()
        await self._reads.ended()
        await self._writer.close()
        await self._reader.close()

    def _begin(self) -> None:
        self._reader, self._writer = (
            PostgresConnection(self._place, connect=self._connect, runtime=self._runtime) for _ in range(2)
        )
        self._reads: Turns[_Read] = Turns(self._answer_waiting)
        self._writes: Turns[Change] = Turns(self._commit_waiting)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                "the table was opened before this process was forked", object=self.url, hint="Open the lake in the child"
            )
        if self._closed:
            raise ClosedError("the table is closed", object=self.url)
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            if not self._loop.is_closed():
                raise InvalidArgument("the table is used in another event loop", object=self.url, hint="Open the lake in each")
            self._begin()
        self._loop = loop

    # --------------------------------------------------------------------------------------------------------------- reads

    async def _read(self, operation: str, object: str, statement: str, *values: object) -> Sequence[Row]:
        self._check()
        read = _Read(operation, object, statement, values, asyncio.get_running_loop().create_future())
        self._reads.add(read)
        return await read.rows

    async def _answer_waiting(self, waiting: deque[_Read]) -> None:
        first = waiting.popleft()
        reads, values = [first], first.values
        if first.statement is self._sql.get:
            more = [read for read in waiting if read.statement is self._sql.get][: _TOGETHER_MAX - 1]
            for read in more:
                waiting.remove(read)
            reads = [read for read in (first, *more) if not read.rows.done()]
            values = (list({read.asked for read in reads}),)
        if all(read.rows.done() for read in reads):
            return  # nobody waits any more
        rows: Sequence[Row] | PenstockError
        try:
            rows = await self._patiently(reads[0], values)
        except PenstockError as error:
            rows = error
        except Exception as error:  # noqa: BLE001 - those who wait must hear of it
            rows = unforeseen(error, operation=first.operation)
        for read in reads:
            _answer(read, rows)

    async def _patiently(self, read: _Read, values: tuple[object, ...]) -> Sequence[Row]:
        backoff, deadline_s = Backoff(_PAUSE_S), self._runtime.clock.monotonic_s() + self._place.timeout_s
        while True:
            try:
                return await self._reader.fetch(read.operation, read.asked, read.statement, *values)
            except StoreUnavailable:
                pause_s = backoff.next_s()
                if self._closed or self._runtime.clock.monotonic_s() + pause_s >= deadline_s:
                    raise
            except TableNotFound as error:
                if lacks_table(error):
                    return []
                raise
            await asyncio.sleep(pause_s)

    # -------------------------------------------------------------------------------------------------------------- writes

    def _write(self, key: str, data: bytes, expected: CellVersion | None) -> CellWrite:
        check_cell(key, data)
        return CellWrite(key, first_number(self._runtime), bytes(data), None if expected is None else number_of(expected))

    async def _change(self, operation: str, expected: CellVersion | None, wanted: CellWrite | Deletion) -> None:
        self._check()
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        change = Change(wanted, partial(_settle, outcome))
        self._writes.add(change)
        try:
            found = await outcome
        except BaseException:
            self._writes.withdraw(change)  # one that is not on its way yet stays undone
            raise
        if found is not True:
            raise error_of(operation, expected, wanted, found)

    async def _commit_waiting(self, waiting: deque[Change]) -> None:
        changes = take_together(waiting)
        outcomes: list[Outcome]
        try:
            done = await self._changed([change.wanted for change in changes])
            outcomes = [change.wanted.key in done for change in changes]
        except PenstockError as error:
            outcomes = [error] * len(changes)
        except Exception as error:  # noqa: BLE001 - those who wait must hear of it
            outcomes = [unforeseen(error, operation="write cells")] * len(changes)
        for change, outcome in zip(changes, outcomes, strict=True):
            change.told(outcome)

    async def _changed(self, wanted: Sequence[CellWrite | Deletion]) -> set[str]:
        """The keys of the cells that changed."""
        try:
            return await self._carry_out(wanted)
        except TableNotFound as error:
            if not lacks_table(error):
                raise
        await self._create()
        return await self._carry_out(wanted)

    async def _carry_out(self, wanted: Sequence[CellWrite | Deletion]) -> set[str]:
        match wanted:
            case [Deletion() as deletion]:
                operation, statement, values = "delete", self._sql.delete, tuple[object, ...](deletion)
            case [CellWrite(key, version, data, None)]:
                operation, statement, values = "put", self._sql.insert, (key, version, data)
            case [CellWrite() as write]:
                operation, statement, values = "put", self._sql.update, tuple[object, ...](write)
            case _:
                operation, statement, values = "put", self._sql.put_all, tuple(map(list, zip(*wanted, strict=True)))
        rows = await self._writer.fetch(operation, wanted[0].key, statement, *values)
        return {row["key"] for row in rows}

    async def _create(self) -> None:
        try:
            await self._writer.fetch("create table", self._place.name, self._sql.create_table)
        except PenstockError as error:
            if was_made_meanwhile(error):
                return
            if may_not_make(error):
                raise TableNotFound(
                    "there is no such table in PostgreSQL, and this user may not make it",
                    operation="create table",
                    object=self._place.name,
                    observed=error.observed,
                    hint=f"Let somebody who may run: {' '.join(self._sql.by_hand)} Then `penstock infra policy ROLE --grants` prints the GRANTs",
                ) from error
            raise


class Turns(Generic[T]):
    """Work that waits, carried out by one task, by turns: what comes during one goes into the next."""

    def __init__(self, serve: Callable[[deque[T]], Awaitable[None]]) -> None:
        """``serve`` takes what it carries out, at least one, and raises nothing."""
        self._serve = serve
        self._waiting: deque[T] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, one: T) -> None:
        self._waiting.append(one)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def withdraw(self, one: T) -> None:
        if one in self._waiting:
            self._waiting.remove(one)

    def drain(self) -> list[T]:
        drained = list(self._waiting)
        self._waiting.clear()
        return drained

    async def ended(self) -> None:
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._serve(self._waiting)
        finally:
            self._task = None


def _settle(outcome: asyncio.Future[Outcome], found: Outcome) -> None:
    if not outcome.done():
        outcome.set_result(found)


def _answer(read: _Read, found: Sequence[Row] | PenstockError) -> None:
    if read.rows.done():
        return
    if isinstance(found, PenstockError):
        read.rows.set_exception(error_of(read.operation, None, Deletion(read.asked, 0), found))
    else:
        read.rows.set_result(found)


def _cell(row: Row) -> Cell:
    return Cell(row["data"], version_of(row["version"]))
