"""Transactions of every kind against a PostgreSQL, drawn by chance: rows, keys, large values, the tables themselves, and some that stay open."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pyarrow as pa

from tests.cdc.ddl.history import Table
from tests.cdc.ddl.postgres_ddl import IN_LONG, KINDS, publish_all, publish_less
from tests.cdc.ddl.postgres_rows import START
from tests.cdc.ddl.postgres_session import LOCK_TIMEOUT, PUBLICATION, Making, Name, Session
from tests.cdc.ddl.postgres_ties import TIES
from tests.cdc.ddl.source import Note
from tests.postgres_server import PostgresServer, find_postgres
from tests.servers import die_with_parent

KEYS, KEYS_OF_LONG = range(120), range(10_000, 10_030)
PUBLICATIONS = {
    "all": "FOR ALL TABLES",
    "tables": "FOR TABLE plain, whole, pair, indexed, parts, ONLY parent, ONLY child, typed, owner, referrer, other.away",
    "schema": "FOR TABLES IN SCHEMA public",
}
MANY = """
DELETE FROM {t} WHERE id > 20000;
INSERT INTO {t} (id, a, n) SELECT g, 'many', g FROM generate_series(20001, 26000) g;
UPDATE {t} SET n = n + 1 WHERE id > 20000;
DELETE FROM {t} WHERE id > 20010;
"""


def lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


class Postgres:
    """One thread that makes all transactions and reads what they made: most of them one after the other, and beside them one that stays open."""

    producer, empties, rest = "postgres/penstock", False, 0.04
    refused: tuple[type[Exception], ...] = (
        psycopg.errors.IntegrityError,
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.DuplicateObject,
        psycopg.errors.DuplicateTable,
        psycopg.errors.LockNotAvailable,
        psycopg.errors.DeadlockDetected,
        psycopg.errors.InvalidColumnReference,
        psycopg.errors.ObjectInUse,
        psycopg.errors.InvalidTableDefinition,
        psycopg.errors.DatatypeMismatch,
        psycopg.errors.UnsafeNewEnumValueUsage,
    )
    doing = ""

    def __init__(
        self, server: PostgresServer, chance: random.Random, folder: Path, *, publication: str = "all", slow: bool = False
    ) -> None:
        """``slow``: as is its standby."""
        self._server, self._chance, self._folder, self._slow = server, chance, folder, slow
        self._making = Making(server.dsn, chance, publication)
        self._session = Session(self._making, KEYS)
        self._long: Session | None = None
        self._prepared: str | None = None
        """The name of a transaction that stayed open until it was prepared."""
        self._known: dict[str, Table] = {}

    def close(self) -> None:
        self._session.connection.close()
        if self._long is not None:
            self._close()

    def capture(self) -> tuple[str, ...]:
        return ("postgres", self._server.dsn, "--publication", PUBLICATION)

    def environment(self) -> Mapping[str, str]:
        return {}

    def shown(self, found: pa.Table) -> pa.Table:
        return found

    def place_of(self, text: str) -> int:
        return lsn(text)

    def prepare(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(START.encode())
            of = PUBLICATIONS[self._making.publication]
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} {of} WITH (publish_via_partition_root = true)".encode())

    def restart(self) -> signal.Signals:
        how = self._chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGQUIT, signal.SIGINT))
        self._server.restart(how)
        self._reconnect()
        return how

    def _reconnect(self) -> None:
        self._session.connection.close()
        self._session = Session(self._making, KEYS)
        if self._long is not None:
            self._close()
        self._session.avoided = self._alone()

    def rollback(self) -> None:
        self._session.connection.rollback()
        self._session.forget()

    def unseen(self, note: Note) -> None:
        """A publication that leaves changes out for a while: a capture refuses it."""
        for change in (publish_less, Session.change_rows, publish_all):
            with suppress(*self.refused):
                change(self._session)
                self._commit(note)
            self.rollback()

    def finish(self, note: Note) -> None:
        while self._long is not None or self._prepared is not None:
            self._end_long(note)

    def transact(self, note: Note) -> str:
        if (ended := self._go_on(note)) is not None:
            return ended
        session = self._session
        session.forget()
        if self._chance.random() < 0.008:
            return self._maintain()
        if self._chance.random() < 0.16:
            kind = self._chance.choice(KINDS + TIES)
            what = self.doing = kind.__name__
            within = self._chance.choice(("", "", "", "", "RELEASE", "ROLLBACK TO"))
            if within:
                session.do("SAVEPOINT around")
            kind(session)
            for _ in range(self._chance.choice((0, 0, 1, 3))):
                session.change_rows()
            if within:
                session.do(f"{within} around")
                session.change_rows()
                what += f" within a savepoint: {within}"
        elif self._chance.random() < 0.003:
            what = self.doing = "many rows"
            schema, name = session.some()
            session.do(MANY.format(t=f'"{schema}"."{name}"'))
        else:
            self.doing = "rows"
            what = self._change_rows()
        if self._chance.random() < 0.03:
            self.rollback()
            return "rolled back"
        self._commit(note)
        return what

    def _maintain(self) -> str:
        """What is done to files alone, outside of transactions."""
        schema, name = self._chance.choice(sorted(self._session.captured().values()))
        self.rollback()
        how = self._chance.choice(("VACUUM (FULL)", "VACUUM (FREEZE)", "REINDEX TABLE", "REINDEX TABLE CONCURRENTLY"))
        with psycopg.connect(self._server.dsn, autocommit=True, options=LOCK_TIMEOUT) as connection, suppress(*self.refused):
            connection.execute(f'{how} "{schema}"."{name}"'.encode())
        return how

    def _change_rows(self) -> str:
        for _ in range(self._chance.choice((1, 1, 1, 2, 5, 20))):
            self._session.change_rows()
        if self._chance.random() < 0.1:  # what is given up within a transaction
            self._session.do("SAVEPOINT here")
            self._session.change_rows()
            self._session.do("ROLLBACK TO here")
            self._session.change_rows()
            return "rows with a savepoint"
        return "rows"

    def _commit(self, note: Note) -> None:
        before = self._place()
        if self._chance.random() < 0.7:
            self._session.do("SET LOCAL synchronous_commit = local")
        if self._chance.random() < 0.05:
            self._session.connection.execute("COMMIT AND CHAIN")
            with suppress(*self.refused):  # what it begins is given up
                self._session.change_rows()
            self.rollback()
        else:
            self._session.connection.commit()
        note(before)

    def _place(self) -> int:
        [(text,)] = self._session.ask("SELECT pg_current_wal_insert_lsn()::text")
        return lsn(text)

    # --- One that stays open --------------------------------------------------------------------------------------------------------

    def _go_on(self, note: Note) -> str | None:
        """Perhaps begin a transaction that stays open, or go on with it. Returns what it was if it ended."""
        drawn = self._chance.random()
        if self._long is None and self._prepared is None:
            if drawn < 0.03:
                self._long = Session(self._making, KEYS_OF_LONG, stays=True)
                self._step(self._long)
        elif drawn < 0.03:
            return self._end_long(note)
        elif drawn < 0.15 and self._long is not None:
            self._step(self._long)
        return None

    def _step(self, long: Session) -> None:
        long.ask("SELECT 1")
        long.forget()
        with suppress(*self.refused), long.connection.transaction():
            if self._chance.random() < 0.15:
                self._chance.choice(IN_LONG)(long)
            else:
                long.change_rows()
        self._session.avoided = self._alone()

    def _alone(self) -> set[Name]:
        """The tables that the transaction that is open has for itself."""
        if self._long is None and self._prepared is None:
            return set()
        found = self._session.locked(0 if self._long is None else self._long.connection.info.backend_pid)
        self._session.connection.rollback()
        return found

    def _end_long(self, note: Note) -> str:
        drawn = self._chance.random()
        if self._long is not None and drawn < 0.3:
            self._prepared = f"long{self._making.number()}"
            self._long.do(f"PREPARE TRANSACTION '{self._prepared}'")
            self._close()
            return "rolled back to be prepared"
        before = self._place()
        self._session.connection.rollback()
        keeps, self.doing = drawn < 0.85, "one that stayed open"
        if self._long is not None:
            self._long.connection.commit() if keeps else self._long.connection.rollback()
            self._close()
        else:
            with psycopg.connect(self._server.dsn, autocommit=True) as connection:
                connection.execute(f"{'COMMIT' if keeps else 'ROLLBACK'} PREPARED '{self._prepared}'".encode())
        self._prepared = None
        self._session.avoided = ()
        self._session.forget()
        note(before)
        return "one that stayed open" if keeps else "rolled back after it stayed open"

    def _close(self) -> None:
        assert self._long is not None
        self._long.connection.close()
        self._long = None

    def tables(self) -> dict[str, Table]:
        session, alone = self._session, self._alone()
        session.forget()
        session.do("SET LOCAL lock_timeout = 0")
        self._known = {
            folder: self._known[folder] if table in alone else session.table(*table) for folder, table in session.captured().items()
        }
        session.connection.rollback()
        return self._known

    # --- A standby ------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def beside(self) -> Iterator[None]:
        """A synchronous standby that takes the log late: what is committed is in the log before anybody sees it."""
        if not self._slow:
            yield
            return
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'slow'")
        self._server.restart(signal.SIGINT)
        self._reconnect()
        over = threading.Event()
        folder = self._folder / "received"
        folder.mkdir()
        pauses = random.Random(self._chance.random())

        def receive() -> None:
            programs, dsn = find_postgres(), f"{self._server.dsn}?application_name=slow"
            command = [*die_with_parent(), str(programs / "pg_receivewal"), "-D", str(folder), "-d", dsn, "--synchronous"]
            while not over.is_set():
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and not over.wait(pauses.random() / 4):
                    process.send_signal(signal.SIGSTOP)
                    over.wait(pauses.random() / 3)
                    process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with psycopg.connect(self._server.dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
                connection.execute("SELECT pg_reload_conf()")
