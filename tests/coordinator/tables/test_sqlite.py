"""The table in a SQLite file: files that are others', that come and go, and locks that somebody holds."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.coordinator.tables import CellVersion, Conflict, SqliteTable
from penstock.coordinator.tables.sqlite_file import APPLICATION_ID
from penstock.log.errors import (
    ClosedError,
    DataDamaged,
    ForeignObject,
    ForkedError,
    InvalidArgument,
    NewerFormatError,
    PenstockError,
    StoreUnavailable,
)
from penstock.log.runtime import Runtime

THREADS = 6


class HandClock:
    """Time that passes only in `wait`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits_s: list[float] = []

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds


def run(path: Path, use: Callable[[SqliteTable], Awaitable[None]], *, clock: HandClock | None = None) -> None:
    async def main() -> None:
        runtime = Runtime(clock=clock, random=random.Random(7)) if clock else Runtime()
        if clock:
            table = SqliteTable(path, runtime=runtime, wait=clock.wait, lock_wait_max_s=0.1)
        else:
            table = SqliteTable(path, runtime=runtime)
        try:
            await use(table)
        finally:
            await table.close()

    asyncio.run(main())


def make(path: Path) -> None:
    """A file with one cell."""

    async def use(table: SqliteTable) -> None:
        await table.put("k", b"one", expected=None)

    run(path, use)


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


# --- Making and reading -----------------------------------------------------------------------------------------------------------


def test_reading_makes_nothing_and_the_first_write_makes_file_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "cells.db"

    async def use(table: SqliteTable) -> None:
        assert await table.get("k") is None
        assert await table.keys("") == []
        assert os.listdir(tmp_path) == []
        await table.put("k", b"one", expected=None)
        found = await table.get("k")
        assert found is not None
        assert table.url == f"sqlite://{path}"

    run(path, use)
    assert path.is_file()


def test_what_is_acknowledged_is_flushed_to_the_disk(tmp_path: Path) -> None:
    async def use(table: SqliteTable) -> None:
        await table.put("k", b"one", expected=None)
        connection = table._writer._connection
        assert connection is not None
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "2 is FULL"

    run(tmp_path / "cells.db", use)


def test_an_empty_file_becomes_a_table(tmp_path: Path) -> None:
    (tmp_path / "cells.db").touch()
    make(tmp_path / "cells.db")


def test_a_file_that_is_being_made_is_empty_or_whole(tmp_path: Path) -> None:
    """Read by some while another makes it, again and again: nobody takes it for somebody else's."""

    async def use(number: int, path: Path) -> bytes | None:
        table = SqliteTable(path, runtime=Runtime())
        try:
            if number == 0:
                await table.put("k", b"made", expected=None)
            for _ in range(20):
                if (found := await table.get("k")) is not None:
                    return found.data
            return None
        finally:
            await table.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for file in range(30):
            path = tmp_path / f"{file}.db"
            seen = list(pool.map(lambda number, path=path: asyncio.run(use(number, path)), range(THREADS)))
            assert seen[0] == b"made"
            assert {*seen} <= {None, b"made"}


# --- What lies there instead --------------------------------------------------------------------------------------------------------


def newer(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")


def somebody_elses(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE orders (id INTEGER)")


def marked_as_anothers(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA application_id = {APPLICATION_ID + 1}")


def damaged(path: Path) -> None:
    async def use(table: SqliteTable) -> None:
        for number in range(200):
            await table.put(f"k/{number}", bytes(1000), expected=None)

    make(path)
    run(path, use)
    size_bytes = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size_bytes - 4096))


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("a file")


@pytest.mark.parametrize(
    ("prepare", "kind", "said"),
    [
        (
            newer,
            NewerFormatError,
            r"made by a newer version.*expected: schema version 1 or older; observed: 2\). Update Penstock here",
        ),
        (somebody_elses, ForeignObject, r"is not Penstock's.*application id 0x0, user version 0, 1 tables.*Name another file"),
        (marked_as_anothers, ForeignObject, r"is not Penstock's.*0x50534332, user version 0, 0 tables"),
        (
            lambda path: path.write_bytes(b"no database" * 100),
            ForeignObject,
            r"not a coordination database.*SQLITE_NOTADB.*Move it away",
        ),
        (damaged, DataDamaged, r"is damaged.*SQLITE_CORRUPT.*restore it"),
        (lambda path: path.mkdir(), InvalidArgument, r"is a folder.*Name a file"),
        (below_a_file, InvalidArgument, r"below something that is no folder.*lake is a file"),
    ],
    ids=["newer", "somebody else's", "marked as another's", "no database", "damaged", "a folder", "below a file"],
)
def test_another_file_is_refused_and_left_as_it_is(
    tmp_path: Path, prepare: Callable[[Path], None], kind: type[PenstockError], said: str
) -> None:
    path = tmp_path / "lake" / "cells.db"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None

    async def use(table: SqliteTable) -> None:
        with pytest.raises(kind, match=said) as raised:
            await table.put("k", b"mine", expected=None)
        assert str(path) in str(raised.value)
        if prepare is not below_a_file:
            with pytest.raises(kind, match=said):
                # The rows of an index that is damaged may still be read.
                await asyncio.gather(table.keys(""), table.get("k"))

    run(path, use)
    assert before is None or path.read_bytes() == before


def test_a_version_of_another_table_is_refused(tmp_path: Path) -> None:
    async def use(table: SqliteTable) -> None:
        for attempt in (table.put("k", b"", expected=CellVersion('"etag"')), table.delete("k", expected=CellVersion('"etag"'))):
            with pytest.raises(InvalidArgument, match="the version is of another table"):
                await attempt

    run(tmp_path / "cells.db", use)


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_file_that_was_taken_away_is_not_written_any_more(tmp_path: Path, fate: str) -> None:
    """Who held it open would go on alone otherwise, while others begin anew."""
    path = tmp_path / "cells.db"

    async def use(table: SqliteTable) -> None:
        first = await table.put("k", b"one", expected=None)
        other = SqliteTable(path, runtime=Runtime())
        for name in ("cells.db", "cells.db-wal", "cells.db-shm"):
            os.rename(tmp_path / name, tmp_path / f"gone-{name}")
        if fate == "replaced":
            await other.put("k", b"theirs", expected=None)
        with pytest.raises(Conflict):
            await table.put("k", b"two", expected=first)
        found = await table.get("k")
        assert (found.data if found else None) == (b"theirs" if fate == "replaced" else None)
        await table.put("new", b"three", expected=None)
        assert (await other.keys("")) == (["k", "new"] if fate == "replaced" else ["new"])
        await other.close()

    run(path, use)


# --- Writes that go together --------------------------------------------------------------------------------------------------------


def test_writes_that_wait_go_to_the_disk_together(tmp_path: Path) -> None:
    """While another process holds the lock, many are sent; each has its own answer, and a few transactions do."""
    path, statements = tmp_path / "cells.db", list[str]()
    make(path)

    async def main() -> None:
        table = SqliteTable(path, runtime=Runtime(), lock_wait_max_s=3600)
        version = await table.put("mine", b"one", expected=None)
        with locked(path) as other:
            assert table._writer._connection is not None
            table._writer._connection.set_trace_callback(statements.append)
            writes = [
                *(table.put(f"k/{number}", b"new", expected=None) for number in range(20)),
                table.put("mine", b"two", expected=version),
                table.put("mine", b"three", expected=version),
                table.put("k", b"there already", expected=None),
                table.delete("gone", expected=version),
            ]
            waiting = asyncio.gather(*writes, return_exceptions=True)
            await asyncio.sleep(0)  # all are sent
            statements.clear()
            other.execute("ROLLBACK")
            answers = await waiting
        assert [type(answer) for answer in answers] == [CellVersion] * 21 + [Conflict] * 3
        found = await table.get("mine")
        assert found is not None
        assert found.data == b"two", "in the order in which they were sent"
        assert len(await table.keys("k/")) == 20
        await table.close()

    asyncio.run(main())
    assert sum("INSERT" in one for one in statements) <= 5, (
        "two that write, one of them tried twice, and those that find a conflict"
    )


def test_a_write_is_one_statement(tmp_path: Path) -> None:
    """Between two, its thread may wait for Python's interpreter lock, and all other processes with it."""
    statements = list[str]()

    async def use(table: SqliteTable) -> None:
        version = await table.put("k", b"one", expected=None)
        assert table._writer._connection is not None
        table._writer._connection.set_trace_callback(statements.append)
        version = await table.put("k", b"two", expected=version)
        await table.put("other", b"one", expected=None)
        await table.delete("k", expected=version)

    run(tmp_path / "cells.db", use)
    assert [one.split()[0] for one in statements] == ["INSERT", "INSERT", "DELETE"]


def test_an_error_of_a_transaction_is_that_of_each_write_in_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "cells.db", HandClock()
    make(path)

    async def use(table: SqliteTable) -> None:
        found = await table.get("k")
        assert found is not None
        with locked(path):
            answers = await asyncio.gather(
                table.put("k", b"two", expected=found.version), table.delete("k", expected=found.version), return_exceptions=True
            )
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
        assert ["operation: put" in str(answers[0]), "operation: delete" in str(answers[1])] == [True, True]
        assert answers[0] is not answers[1]
        assert (await table.get("k")) == found

    run(path, use, clock=clock)


def test_a_write_that_is_cancelled_before_its_turn_is_never_made(tmp_path: Path) -> None:
    path = tmp_path / "cells.db"
    make(path)

    async def main() -> None:
        table = SqliteTable(path, runtime=Runtime(), lock_wait_max_s=3600)
        in_turn = threading.Event()
        table._writer._wait = lambda _seconds: in_turn.set()
        with locked(path) as other:
            first = asyncio.ensure_future(table.put("first", b"", expected=None))
            await asyncio.to_thread(in_turn.wait, 60)  # it waits for the lock
            second = asyncio.ensure_future(table.put("second", b"", expected=None))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            other.execute("ROLLBACK")
        await first
        await table.put("third", b"", expected=None)
        assert await table.keys("") == ["first", "k", "third"]
        await table.close()

    asyncio.run(main())


# --- Locks --------------------------------------------------------------------------------------------------------------------------


def test_a_held_lock_is_waited_for_at_random_then_reported(tmp_path: Path) -> None:
    path, clock = tmp_path / "cells.db", HandClock()
    make(path)

    async def use(table: SqliteTable) -> None:
        with locked(path):
            with pytest.raises(StoreUnavailable, match=r"another process holds the database's lock.*SQLITE_BUSY"):
                await table.put("k", b"two", expected=None)
            found = await table.get("k")
            assert found is not None, "reading goes on"
            assert found.data == b"one"
        assert 0.1 <= clock.now_s < 0.11
        await table.put("k", b"two", expected=found.version)

    run(path, use, clock=clock)
    assert all(0.0002 <= wait_s <= 0.002 for wait_s in clock.waits_s)
    assert len(set(clock.waits_s)) > 20, "they are random"


def test_a_lock_that_is_let_go_is_taken(tmp_path: Path) -> None:
    path, clock = tmp_path / "cells.db", HandClock()
    make(path)

    async def use(table: SqliteTable) -> None:
        with locked(path) as other:

            def wait(seconds: float) -> None:
                clock.wait(seconds)
                if len(clock.waits_s) == 3:
                    other.execute("ROLLBACK")

            table._writer._wait = wait
            await table.put("new", b"two", expected=None)

    run(path, use, clock=clock)
    assert len(clock.waits_s) == 3


def test_closing_ends_what_waits_for_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "cells.db"
    make(path)

    async def main() -> None:
        table = SqliteTable(path, runtime=Runtime(), lock_wait_max_s=3600)
        with locked(path):
            waiting = asyncio.ensure_future(table.put("new", b"two", expected=None))
            await asyncio.sleep(0)  # it is given to its thread
            await table.close()
            with pytest.raises(ClosedError, match="closed meanwhile"):
                await waiting

    asyncio.run(main())


def test_a_forked_child_is_told_to_open_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(table: SqliteTable) -> None:
        await table.put("k", b"one", expected=None)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(ForkedError, match=r"before this process was forked.*Open the lake in the child"):
                await table.get("k")
            await table.close()
        assert await table.get("k") is not None

    run(tmp_path / "cells.db", use)
