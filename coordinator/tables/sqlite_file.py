"""One connection to a SQLite file of cells, used by one thread."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from ...log.errors import ClosedError, ForeignObject, NewerFormatError, NotSupported
from ...log.runtime.runtime import Runtime
from .changes import CellWrite, Deletion
from .sqlite_errors import is_busy, translate

T = TypeVar("T")

SCHEMA_VERSION = 1
APPLICATION_ID = int.from_bytes(b"PSC1", "big")
LOCK_WAIT_MAX_S = 2.0
"""The longest wait for a lock, below a lease; 0.4 s was seen beside busy writers."""
_WAIT_IN_SQLITE_S = 0.018
"""The wait inside SQLite: after 1, 2, 5 and 10 ms its pauses are so long that others are always quicker."""
_RETRY_MIN_S, _RETRY_MAX_S = 0.0002, 0.002
_LOG_PAGES = 200
"""The length of the write-ahead log from which it is written anew from its start. To flush a write that makes the file longer takes twice the time,
and SQLite's own 1,000 pages are as many writes.
"""
_PUT_ONE = "UPDATE cells SET version = ?, data = ? WHERE key = ? AND version = ?"
"""The way of most writes, which have a transaction for themselves: in half the time."""
_PUT_ALL = """
    INSERT INTO cells (key, version, data)
    WITH wanted (key, version, data, expected) AS (VALUES (...))
    SELECT key, version, data FROM wanted
    WHERE NOT EXISTS (SELECT 1 FROM wanted WHERE expected IS NOT (SELECT cells.version FROM cells WHERE cells.key = wanted.key))
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, data = excluded.data
"""


class SqliteFile:
    """Opens the file when first needed, and anew when another one lies under its name.

    A write is one statement: between two, a thread that waits for Python's interpreter lock would keep all other processes waiting. A wait for
    another's lock happens inside SQLite, for a short time.

    A statement refused because of a lock was not carried out; nothing else is tried twice.
    """

    def __init__(
        self,
        path: str,
        *,
        runtime: Runtime,
        closing: threading.Event,
        wait: Callable[[float], object] | None = None,
        lock_wait_max_s: float = LOCK_WAIT_MAX_S,
    ) -> None:
        self._path = path
        self._runtime = runtime
        self._closing = closing
        self._wait = wait or closing.wait
        self._lock_wait_max_s = lock_wait_max_s
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def read(self, operation: str, statement: str, *values: object) -> list[tuple[object, ...]]:
        """The rows of a SELECT. None for a missing or empty file."""

        def read() -> list[tuple[object, ...]]:
            connection = self._opened(create=False)
            return [] if connection is None else connection.execute(statement, values).fetchall()

        return self._patiently(operation, read)

    def put(self, puts: Sequence[CellWrite]) -> list[bool]:
        """Carry out, durably, the puts whose expectation holds, and make the file if needed. Returns which did. No two are of one cell."""

        def put() -> list[bool]:
            connection = self._opened(create=True)
            assert connection is not None, "it was made"
            if len(puts) == 1 and puts[0].expected is not None:
                key, version, data, expected = puts[0]
                return [connection.execute(_PUT_ONE, (version, data, key, expected)).rowcount > 0]
            left = list(puts)
            while left and not connection.execute(_put_all(len(left)), [value for one in left for value in one]).rowcount:
                left = [one for one in left if _version(connection, one.key) == one.expected]
            return [one in left for one in puts]

        return self._patiently("put", put)

    def delete(self, deletion: Deletion) -> bool:
        """Returns whether the expectation held."""

        def delete() -> bool:
            connection = self._opened(create=True)
            assert connection is not None, "it was made"
            return connection.execute("DELETE FROM cells WHERE key = ? AND version = ?", deletion).rowcount > 0

        return self._patiently("delete", delete)

    def close(self) -> None:
        connection, self._connection, self._identity = self._connection, None, None
        if connection is not None:
            connection.close()

    def _patiently(self, operation: str, work: Callable[[], T]) -> T:
        deadline_s = self._runtime.clock.monotonic_s() + self._lock_wait_max_s
        while True:
            if self._closing.is_set():
                raise ClosedError("the table was closed meanwhile", operation=operation, object=self._path)
            try:
                return work()
            except (sqlite3.Error, OSError) as error:
                if not is_busy(error) or self._runtime.clock.monotonic_s() > deadline_s:
                    self.close()  # a new connection opens the file afresh
                    raise translate(error, operation=operation, path=self._path) from error
            self._wait(self._runtime.random.uniform(_RETRY_MIN_S, _RETRY_MAX_S))

    # ---------------------------------------------------------------------------------------------------------- the file

    def _opened(self, *, create: bool) -> sqlite3.Connection | None:
        """The connection to the file of the name. None without cells, unless ``create``."""
        present = _identity(self._path)
        if self._connection is not None and present == self._identity:
            return self._connection
        self.close()
        if present is None and not create:
            return None
        connection = self._connect(create=create)
        try:
            if present is not None and _identity(self._path) != present:
                connection.close()
                return self._opened(create=create)  # it was replaced just now
            if not _has_cells(connection, self._path):
                if not create:
                    connection.close()
                    return None
                _make_cells(connection, self._path)
            if create:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            else:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, _identity(self._path)
        return connection

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        if create:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        return sqlite3.connect(
            f"{Path(self._path).as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            timeout=_WAIT_IN_SQLITE_S,
            isolation_level=None,
            check_same_thread=False,  # the last call, closing, comes from another thread
        )


@cache
def _put_all(count: int) -> str:
    return _PUT_ALL.replace("(...)", ", ".join(["(?, ?, ?, ?)"] * count))


def _version(connection: sqlite3.Connection, key: str) -> int | None:
    found = connection.execute("SELECT version FROM cells WHERE key = ?", (key,)).fetchone()
    return None if found is None else int(found[0])


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _has_cells(connection: sqlite3.Connection, path: str) -> bool:
    if connection.in_transaction:
        application, version, things = _header(connection)
    else:
        connection.execute("BEGIN")  # another process may make the schema between two answers
        application, version, things = _header(connection)
        connection.execute("COMMIT")
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise NewerFormatError(
                "the coordination database was made by a newer version of Penstock",
                object=path,
                expected=f"schema version {SCHEMA_VERSION} or older",
                observed=version,
                hint="Update Penstock here",
            )
        return True
    if application or version or things:
        raise ForeignObject(
            "the SQLite database is not Penstock's",
            object=path,
            expected=f"application id {APPLICATION_ID:#x}",
            observed=f"application id {application:#x}, user version {version}, {things} tables and indexes",
            hint="Name another file",
        )
    return False


def _header(connection: sqlite3.Connection) -> tuple[int, int, int]:
    questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application, version, things = (connection.execute(question).fetchone()[0] for question in questions)
    return application, version, things


def _make_cells(connection: sqlite3.Connection, path: str) -> None:
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise NotSupported(
            "SQLite cannot keep a write-ahead log here",
            object=path,
            expected="journal mode wal",
            observed=mode,
            hint="Put the file on a local file system, which can share memory between processes",
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _has_cells(connection, path):
            connection.execute("CREATE TABLE cells (key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL)")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
