"""The table in a SQLite file: files that are others', that come and go, and locks that somebody holds."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
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
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.tables.sqlite_files import HandClock, locked, make, run

THREADS = 6


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
