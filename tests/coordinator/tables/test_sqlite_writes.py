"""Writes to a SQLite file: one statement each, and many in one."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from penstock.coordinator.tables import CellVersion, Conflict, SqliteTable
from penstock.log.errors import ClosedError, LimitExceeded, PenstockError, StoreUnavailable
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.tables.sqlite_files import HandClock, locked, make, run


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


def test_the_log_of_writes_stays_short(tmp_path: Path) -> None:
    """To flush a write that makes it longer costs more than one that goes into its beginning again."""

    async def use(table: SqliteTable) -> None:
        version = await table.put("k", b"0", expected=None)
        for number in range(600):
            version = await table.put("k", b"%d" % number, expected=version)
        assert (tmp_path / "cells.db-wal").stat().st_size < 300 * 4_200

    run(tmp_path / "cells.db", use)


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
    assert [one.split()[0] for one in statements] == ["UPDATE", "INSERT", "DELETE"]


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


def test_a_write_that_nobody_awaits_tells_its_end(tmp_path: Path) -> None:
    async def use(table: SqliteTable) -> None:
        version = await table.put("k", b"one", expected=None)
        told: asyncio.Queue[CellVersion | PenstockError] = asyncio.Queue()
        table.begin_put("k", b"two", version, told.put_nowait)
        table.begin_put("k", b"three", version, told.put_nowait)
        second, refused = await told.get(), await told.get()
        assert isinstance(refused, Conflict)
        assert "operation: put" in str(refused)
        found = await table.get("k")
        assert found is not None
        assert (found.data, found.version) == (b"two", second)
        with pytest.raises(LimitExceeded):
            table.begin_put("k", b"." * 1_000_000, version, told.put_nowait)
        await table.close()
        with pytest.raises(ClosedError):
            table.begin_put("k", b"four", version, told.put_nowait)
        assert told.empty()

    run(tmp_path / "cells.db", use)
