"""The table in PostgreSQL: what a real server is asked, how often, and what becomes of it where that fails, restarts or is another."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import Mock

import asyncpg
import pytest

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.tables import Cell, CellVersion, Conflict, TableMismatch, TableNotFound, create_table, open_table
from penstock.coordinator.tables.postgres.connection import Connection, Prepared, connect
from penstock.coordinator.tables.postgres.place import InPostgres
from penstock.coordinator.tables.postgres.table import PostgresTable
from penstock.log.errors import (
    ClosedError,
    ForkedError,
    InvalidArgument,
    MissingDependency,
    NotSupported,
    PenstockError,
    PermissionDenied,
    StoreUnavailable,
)
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from tests.gateway.proxy import Fault, Proxy
from tests.log.topics import HandClock
from tests.postgres_server import PostgresServer, postgres_server
from tests.servers import free_port
from tests.waiting import until

pytestmark = pytest.mark.postgres

T = TypeVar("T")

_numbers = itertools.count()
Use = Callable[[PostgresTable], Awaitable[object]]


def place_of(*servers: PostgresServer, **changed: Any) -> InPostgres:
    """A table that nobody has made."""
    hosts = tuple(("127.0.0.1", server.port) for server in servers)
    given = {"table": f"of_test_{next(_numbers)}", "user": "postgres", "database": "postgres", "timeout_s": 10.0}
    return InPostgres(hosts=hosts, **{**given, **changed})


@asynccontextmanager
async def opened(place: InPostgres, runtime: Runtime | None = None) -> AsyncIterator[PostgresTable]:
    table = PostgresTable(place, connect=connect, runtime=runtime or Runtime())
    try:
        yield table
    finally:
        await table.close()


@asynccontextmanager
async def superuser(server: PostgresServer, database: str = "postgres") -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.dsn, database=database)
    try:
        yield connection
    finally:
        await connection.close()


async def run_sql(server: PostgresServer, *scripts: str) -> None:
    async with superuser(server) as connection:
        for script in scripts:
            await connection.execute(script)


async def held(table: PostgresTable, key: str) -> tuple[bytes, CellVersion] | None:
    found = await table.get(key)
    return None if found is None else (found.data, found.version)


async def refused(place: InPostgres, kind: type[PenstockError], said: str, *calls: Use) -> None:
    async with opened(place) as table:
        for call in calls or (get, create):
            with pytest.raises(kind, match=said):
                await call(table)


def sync(look: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    async def answer() -> T:
        return look()

    return answer


def get(table: PostgresTable) -> Awaitable[object]:
    return table.get("k")


def create(table: PostgresTable) -> Awaitable[object]:
    return table.put("k", b"one", expected=None)


# --- Statements ---------------------------------------------------------------------------------------------------------------------


async def test_writes_of_one_moment_are_one_transaction_and_each_has_its_own_answer(postgres: PostgresServer) -> None:
    place = place_of(postgres)
    async with opened(place) as table, superuser(postgres) as other:
        first = await table.put("k/0", b"one", expected=None)
        stale = await table.put("k/1", b"one", expected=None)
        await table.put("k/1", b"two", expected=stale)
        answers = await asyncio.gather(
            table.put("k/0", b"two", expected=first),
            table.put("k/1", b"three", expected=stale),
            table.put("k/1", b"three", expected=None),
            *(table.put(f"k/{number}", b"one", expected=None) for number in range(2, 40)),
            return_exceptions=True,
        )
        assert [type(one) for one in answers] == [CellVersion, Conflict, Conflict, *[CellVersion] * 38]
        assert (await held(table, "k/1") or [b""])[0] == b"two"
        rows = await other.fetch(f"SELECT DISTINCT xmin FROM {place.quoted} WHERE key <> 'k/1'")
        assert len(rows) == 1


async def test_reads_of_one_moment_are_one_statement(postgres: PostgresServer) -> None:
    asked: list[Sequence[object]] = []

    async with opened(place_of(postgres)) as table:
        await asyncio.gather(*(table.put(f"k/{number}", b"%d" % number, expected=None) for number in range(30)))
        fetch = table._reader.fetch

        async def counted(operation: str, object: str, statement: str, *values: object) -> Any:
            asked.append(values)
            return await fetch(operation, object, statement, *values)

        table._reader.fetch = counted  # type: ignore[method-assign]
        found = await asyncio.gather(*(table.get(f"k/{number}") for number in range(31)))
        assert [one and one.data for one in found] == [*(b"%d" % number for number in range(30)), None]
        assert len(asked) == 1


async def test_two_that_write_the_same_cells_in_any_order_wait_for_each_other(postgres: PostgresServer) -> None:
    """Nothing is told but conflicts: no deadlock, which the server would find after a second."""
    place = place_of(postgres)
    keys = [f"k/{number:02}" for number in range(20)]

    async def write_all(table: PostgresTable, order: Sequence[str]) -> int:
        done = 0
        for _ in range(25):
            cells = {key: await table.get(key) for key in order}
            answers = await asyncio.gather(
                *(table.put(key, b"x", expected=cell.version if cell else None) for key, cell in cells.items()),
                return_exceptions=True,
            )
            assert {type(one) for one in answers} <= {CellVersion, Conflict}
            done += sum(isinstance(one, CellVersion) for one in answers)
        return done

    async with opened(place) as one, opened(place) as two, opened(place) as three:
        counts = await asyncio.gather(write_all(one, keys), write_all(two, keys[::-1]), write_all(three, keys[7:] + keys[:7]))
        assert all(counts)
    async with superuser(postgres) as other:
        assert await other.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'") == 0


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_isolation_that_others_set_is_no_error(postgres: PostgresServer, isolation: str) -> None:
    user = isolation.replace(" ", "_")
    await run_sql(
        postgres, f"CREATE ROLE {user} SUPERUSER LOGIN", f"ALTER ROLE {user} SET default_transaction_isolation = '{isolation}'"
    )
    place = place_of(postgres, user=user)

    async def count_up(table: PostgresTable) -> int:
        done = 0
        for _ in range(20):
            cell = await table.get("k")
            assert cell is not None
            try:
                await table.put("k", b"%d" % (int(cell.data) + 1), expected=cell.version)
            except Conflict:
                continue
            done += 1
        return done

    async with opened(place) as one, opened(place) as two, opened(place) as three:
        await one.put("k", b"0", expected=None)
        done = await asyncio.gather(*map(count_up, (one, two, three)))
        assert await held(one, "k") == (b"%d" % sum(done), (await held(two, "k") or [None, None])[1])


COUNTED = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'counted'"


async def test_no_more_than_two_connections(postgres: PostgresServer) -> None:
    await run_sql(postgres, "CREATE ROLE counted SUPERUSER LOGIN")
    async with opened(place_of(postgres, user="counted")) as table, superuser(postgres) as other:
        assert await other.fetchval(COUNTED) == 0
        await asyncio.gather(
            *(table.put(f"k/{n}", b"", expected=None) for n in range(200)), *(table.get(f"k/{n}") for n in range(200))
        )
        assert await other.fetchval(COUNTED) == 2
        await table.close()
        await until(lambda: other.fetchval(COUNTED), lambda count: count == 0, "the server hears of the end")


async def test_a_connection_that_was_idle_is_not_used_again(postgres: PostgresServer) -> None:
    """A firewall may have forgotten it."""
    clock = HandClock()
    async with opened(place_of(postgres), replace(Runtime(), clock=clock)) as table:
        version = await table.put("k", b"one", expected=None)
        before = table._writer._open
        version = await table.put("k", b"two", expected=version)
        assert table._writer._open is before
        clock.advance(seconds=61)
        await table.put("k", b"three", expected=version)
        assert table._writer._open is not before
        assert before is not None
        clock.advance(seconds=61)
        table._writer._close_unused()
        assert table._writer._open is None


# --- Whose table it is --------------------------------------------------------------------------------------------------------------


async def test_a_table_is_made_by_the_first_write_whatever_the_search_path_is(postgres: PostgresServer) -> None:
    await run_sql(
        postgres,
        "CREATE SCHEMA other",
        "CREATE ROLE elsewhere SUPERUSER LOGIN",
        "ALTER ROLE elsewhere SET search_path = other",
    )
    place = place_of(postgres, table="Cells")
    async with opened(replace(place, user="elsewhere")) as table, opened(place) as same:
        assert await table.get("k") is None
        assert await table.keys("") == []
        await asyncio.gather(*(one.put(f"k/{number}", b"", expected=None) for number, one in enumerate((table, same) * 5)))
        assert len(await same.keys("k/")) == 10
        async with superuser(postgres) as other:
            assert await other.fetchval('SELECT count(*) FROM public."Cells"') == 10


async def test_who_may_not_make_the_table_is_told_the_sql(postgres: PostgresServer) -> None:
    await run_sql(postgres, "CREATE ROLE plain LOGIN")
    place = place_of(postgres, user="plain", schema="own")
    said = (
        r'may not make it.*Let somebody who may run: (CREATE SCHEMA IF NOT EXISTS "own"; CREATE TABLE IF NOT EXISTS "own".*;) Then'
    )
    async with opened(place) as table:
        assert await table.get("k") is None
        with pytest.raises(TableNotFound, match=said) as raised:
            await table.put("k", b"one", expected=None)
        with pytest.raises(TableNotFound, match=said):
            await table.create()
        hint = str(raised.value.hint)
        await run_sql(postgres, hint.partition("run: ")[2].partition(" Then")[0], "GRANT USAGE ON SCHEMA own TO plain")
        for call in (get, create):
            with pytest.raises(PermissionDenied, match=r"refuses this use of the table.*penstock infra policy ROLE --grants"):
                await call(table)
        await run_sql(postgres, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place.quoted} TO plain")
        version = await table.put("k", b"one", expected=None)
        await table.delete("k", expected=version)


async def test_a_table_is_made_by_hand(postgres: PostgresServer) -> None:
    url = f"{postgres.dsn}?table=by_hand"
    for _ in range(2):
        await create_table(url)
    async with superuser(postgres) as other:
        assert await other.fetchval("SELECT count(*) FROM by_hand") == 0


async def test_a_table_of_others_is_refused(postgres: PostgresServer) -> None:
    place = place_of(postgres)
    await run_sql(postgres, f"CREATE TABLE {place.table} (id int PRIMARY KEY, data text)")
    await refused(place, TableMismatch, r"the table is not one of cells.*column.*does not exist.*table=…")
    place = place_of(postgres)
    await run_sql(postgres, f"CREATE TABLE {place.table} (key text, version bigint, data bytea)")
    await refused(place, TableMismatch, "the table is not one of cells", create)


async def test_a_database_in_another_encoding_is_refused_where_it_cannot_hold_a_key(postgres: PostgresServer) -> None:
    await run_sql(postgres, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    place = place_of(postgres, database="latin")
    await refused(place, NotSupported, "cannot hold the key.*UTF8", lambda table: table.put("ключ", b"", expected=None))


async def test_logins_and_databases_that_are_refused_are_told(postgres: PostgresServer) -> None:
    await refused(place_of(postgres, user="nobody"), PermissionDenied, r"refused the login.*does not exist \(28000\).*PGPASSWORD")
    await refused(place_of(postgres, database="missing"), TableNotFound, r"no such PostgreSQL database.*CREATE DATABASE")
    tls = place_of(postgres, ssl=(("sslmode", "require"),))
    await refused(tls, StoreUnavailable, "PostgreSQL cannot be reached.*SSL", create)
    none = replace(place_of(postgres), hosts=(("127.0.0.1", free_port()),), timeout_s=0.1)
    await refused(none, StoreUnavailable, "PostgreSQL cannot be reached")
    bad = place_of(postgres, ssl=(("sslmode", "verify-full"), ("sslrootcert", "/nonexistent/ca.pem")))
    await refused(bad, PenstockError, "does not fit|cannot be reached", create)


async def test_a_server_that_is_less_durable_than_it_could_be_is_warned_of_once(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with opened(place_of(postgres)) as table:
            version = await table.put("k", b"one", expected=None)
            table._writer._retire()
            await table.put("k", b"two", expected=version)
    assert sum("fsync or full_page_writes off" in one.message for one in caplog.records) == 1


def test_without_asyncpg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = __import__("sys").modules
    for name in [one for one in modules if one.startswith("penstock.coordinator.tables.postgres.")]:
        monkeypatch.delitem(modules, name)
    monkeypatch.setitem(modules, "asyncpg", None)
    with pytest.raises(MissingDependency, match=r"need asyncpg.*pip install '\.\[postgresql-cells\]'"):
        open_table("postgresql://host/db", store=MemoryStore(), runtime=Runtime())


# --- Faults -------------------------------------------------------------------------------------------------------------------------


async def test_a_connection_that_was_cut_is_made_anew(postgres: PostgresServer) -> None:
    await run_sql(postgres, "CREATE ROLE cut SUPERUSER LOGIN")
    async with opened(place_of(postgres, user="cut")) as table, superuser(postgres) as other:
        version = await table.put("k", b"one", expected=None)
        await table.get("k")
        opened_before = table._writer._open
        await other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'cut'")
        assert opened_before is not None
        await until(sync(opened_before.is_closed), bool, "the client hears of the end")
        await table.put("k", b"two", expected=version)
        assert (await held(table, "k") or [b""])[0] == b"two"


async def test_a_connection_whose_end_is_on_its_way_is_no_mistake_of_ours(postgres: PostgresServer) -> None:
    """asyncpg says so where a server that is killed has told its end, and the connection is still open."""
    ends: list[bool] = []

    async def ending(dsn: str, timeout_s: float) -> Connection:
        made = await connect(dsn, timeout_s)
        if not ends or ends[-1]:
            prepare = made.prepare

            async def ended(query: str, *, name: str, timeout: float) -> Prepared:
                if "is_in_recovery() AS standby" in query.splitlines()[1] and "durable" in query:
                    return await prepare(query, name=name, timeout=timeout)
                raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

            made = Mock(wraps=made, prepare=ended)
        ends.append(False)
        return made

    place = place_of(postgres)
    async with opened(place) as other:
        await other.put("k", b"one", expected=None)
    table = PostgresTable(place, connect=ending, runtime=Runtime())
    assert (await held(table, "k") or [b""])[0] == b"one"
    assert len(ends) == 2
    ends.append(True)
    with pytest.raises(StoreUnavailable, match="the connection to PostgreSQL broke"):
        await table.put("k/2", b"", expected=None)
    await table.put("k/2", b"", expected=None)
    await table.close()


async def test_a_write_whose_answer_is_lost_is_told_apart_by_its_id(postgres: PostgresServer) -> None:
    """The server commits it, and nobody hears of that."""
    proxy = Proxy("127.0.0.1", 0, ("127.0.0.1", postgres.port), seed=1)
    await proxy.start()
    place = replace(place_of(postgres), hosts=(("127.0.0.1", proxy.port),))
    try:
        async with opened(place) as table:

            async def strike_at_writes() -> None:
                await table._reader.close()
                await table._writer._opened()
                await until(sync(lambda: len(proxy._links)), lambda count: count == 1, "the connection that reads is closed")
                proxy.strike(Fault.LOSE_ANSWERS)

            cells, clock = Cells(table, Runtime()), Runtime().clock
            stored = await cells.write("k", b"0", on=None, deadline_s=clock.monotonic_s() + 60)
            for number in range(1, 4):
                await strike_at_writes()
                stored = await cells.write("k", b"%d" % number, on=stored, deadline_s=clock.monotonic_s() + 60)
                assert await cells.read("k") == stored
            await strike_at_writes()
            with pytest.raises(StoreUnavailable, match=r"the connection to PostgreSQL broke.*operation: put; object: k"):
                await table.put("k", b"unknown", expected=stored.version)
            assert (await held(table, "k") or [b""])[0] == b"unknown"
    finally:
        await proxy.close()


async def test_a_statement_that_waits_for_a_lock_is_cancelled(postgres: PostgresServer) -> None:
    """Else each try would leave one behind that waits, and a connection with it."""
    place = place_of(postgres, timeout_s=0.3)
    async with opened(replace(place, timeout_s=10.0)) as table, superuser(postgres) as other:
        version = await table.put("k", b"one", expected=None)
        transaction = other.transaction()
        await transaction.start()
        await other.execute(f"SELECT FROM {place.quoted} FOR UPDATE")
        async with opened(place) as hasty:
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="did not answer in time"):
                    await hasty.put("k", b"two", expected=version)
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            await until(lambda: other.fetchval(waiting), lambda count: count == 0, "all are cancelled")
            await transaction.rollback()
            assert await held(table, "k") == (b"one", version)


async def test_a_forked_child_is_told_to_open_its_own(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(place_of(postgres)) as table:
        version = await table.put("k", b"one", expected=None)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ForkedError, match="Open the lake in the child"):
            await table.get("k")
        await table.close()
        monkeypatch.undo()
        assert await held(table, "k") == (b"one", version)


def test_a_table_belongs_to_one_event_loop_at_a_time(postgres: PostgresServer) -> None:
    place = place_of(postgres)
    table = PostgresTable(place, connect=connect, runtime=Runtime())

    async def use() -> None:
        if await table.get("k") is None:
            await create(table)
        with pytest.raises(InvalidArgument, match="used in another event loop"):
            await asyncio.to_thread(asyncio.run, table.get("k"))
        await table._reader.close()
        await table._writer.close()

    asyncio.run(use())
    asyncio.run(use())


async def test_what_waits_when_a_table_is_closed_is_told(postgres: PostgresServer) -> None:
    place, may_connect, connecting = place_of(postgres), asyncio.Event(), asyncio.Semaphore(0)

    async def slowly(dsn: str, timeout_s: float) -> Connection:
        connecting.release()
        await may_connect.wait()
        return await connect(dsn, timeout_s)

    async with opened(place) as table:
        await create(table)
    table = PostgresTable(place, connect=slowly, runtime=Runtime())
    on_their_way = [asyncio.ensure_future(one) for one in (table.get("k"), table.put("k/2", b"", expected=None))]
    for _ in on_their_way:
        await connecting.acquire()
    waiting = [asyncio.ensure_future(one) for one in (table.keys(""), table.put("k/3", b"", expected=None))]
    closing = asyncio.ensure_future(table.close())
    assert {type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)} == {ClosedError}
    may_connect.set()
    assert [type(one) for one in await asyncio.gather(*on_their_way)] == [Cell, CellVersion]
    await closing


# --- Servers that are killed, stand still, or are others ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """One that commits before its disk has it, unless a transaction asks for more."""
    with postgres_server(synchronous_commit="off", wal_writer_delay="10s", autovacuum="off") as server:
        yield server


@pytest.mark.processes
async def test_a_killed_server_loses_nothing_acknowledged_whatever_it_is_set_to(own: PostgresServer) -> None:
    async with opened(place_of(own)) as table:
        async with superuser(own) as other:
            await other.execute("CREATE TABLE IF NOT EXISTS others (number int)")
            versions = {f"k/{number}": await table.put(f"k/{number}", b"one", expected=None) for number in range(3)}
            changed = await asyncio.gather(*(table.put(key, b"two", expected=version) for key, version in versions.items()))
            single = await table.put("single", b"one", expected=None)
            single = await table.put("single", b"two", expected=single)
            await table.delete("k/0", expected=changed[0])
            await other.execute("INSERT INTO others VALUES (1)")
            own.restart(signal.SIGQUIT)
        assert {key: await held(table, key) for key in (*versions, "single")} == {
            "k/0": None,
            "k/1": (b"two", changed[1]),
            "k/2": (b"two", changed[2]),
            "single": (b"two", single),
        }
    async with superuser(own) as other:
        assert await other.fetchval("SELECT count(*) FROM others") == 0, "it loses what is not asked for"


@pytest.mark.processes
async def test_a_server_that_stands_still_leaves_the_outcome_open(own: PostgresServer) -> None:
    async with opened(place_of(own, timeout_s=0.5)) as table:
        version = await table.put("k", b"one", expected=None)
        await table.get("k")
        own.pause()
        try:
            for call in (table.put("k", b"two", expected=version), table.get("k"), table.put("k", b"two", expected=version)):
                with pytest.raises(StoreUnavailable, match="did not answer in time"):
                    await call
        finally:
            own.go_on()
        async with opened(replace(table._place, timeout_s=30.0)) as patient:
            found = await held(patient, "k")
            assert found is not None
            await patient.put("k", b"three", expected=found[1])


@pytest.mark.processes
async def test_a_standby_is_neither_read_nor_written_and_one_that_lost_commits_is_another_life(own: PostgresServer) -> None:
    place = place_of(own)
    async with opened(place) as table:
        former = await table.put("k", b"kept", expected=None)
        await table.put("gone", b"kept", expected=None)
        await table.close()
    own.stop()
    with own.standby() as standby:
        own.start()
        alone = replace(place, hosts=(("127.0.0.1", standby.port),), timeout_s=0.5)
        await refused(alone, StoreUnavailable, "takes no writes.*Name all hosts in the URL", get, create)
        both = replace(place, hosts=(("127.0.0.1", standby.port), ("127.0.0.1", own.port)))
        async with opened(both) as table:
            lost = await table.put("k", b"lost", expected=former)
            made = await table.put("new", b"lost", expected=None)
            own.stop()
            standby.promote()
            assert await held(table, "k") == (b"kept", former)
            await table.put("k", b"again", expected=former)  # counted versions would be those of the lost writes now
            await table.put("new", b"again", expected=None)
            for key, version in (("k", lost), ("new", made)):
                with pytest.raises((Conflict, StoreUnavailable)):
                    await table.put(key, b"of the former life", expected=version)
                assert (await held(table, key) or [b""])[0] == b"again"
    own.start()
