"""A MariaDB of the tests' own: found on this machine, in a folder of its own, gone afterwards.

python -m tests.mariadb_server      says where it was found, or ends with exit code 1
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from tests.servers import die_with_parent, free_port
from tests.waiting import wait_until

_PROGRAMS = (
    "/usr/sbin/mariadbd",
    "/usr/sbin/mysqld",
    "/usr/libexec/mariadbd",
    "/opt/homebrew/bin/mariadbd",
    "/usr/local/bin/mariadbd",
)
_SCRIPTS = ("/usr/share/mysql", "/usr/share/mariadb", "/opt/homebrew/share/mariadb", "/usr/local/share/mariadb")
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_START_S = 180.0
DRIVER = Path("/usr/share/java/mariadb-java-client.jar")
USER, PASSWORD = "penstock", "secret"
RIGHTS = "SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT"


def find_mariadb() -> Path:
    """Its program; one that is not there when there is none. ``PENSTOCK_MARIADBD`` names another."""
    if named := os.environ.get("PENSTOCK_MARIADBD"):
        return Path(named)
    return next((Path(program) for program in _PROGRAMS if Path(program).exists()), Path("/nonexistent"))


def find_mariadb_and_driver() -> Path:
    """The driver, if the server is there too; a file that is not there when either is not."""
    return DRIVER if find_mariadb().exists() else Path("/nonexistent")


class MariaDBServer:
    """One server on a loopback port. Use `mariadb_server`."""

    kind = "mariadb"

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder, self._settings = folder, settings
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For captures, without the password."""
        return f"{self.kind}://{USER}@127.0.0.1:{self.port}"

    def connect(self, **options: Any) -> Any:
        """A connection of the superuser, whose statements are committed at once."""
        import pymysql  # all tests look for a server, few use one

        connection = pymysql.connect(user="root", autocommit=True, charset="utf8mb4", defer_connect=True, **options)
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(self._socket))
        except OSError as error:  # pymysql's own attempt would leave its socket open
            channel.close()
            raise pymysql.err.OperationalError(2003, f"{self.kind} does not answer: {error}") from error
        connection.connect(channel)
        return connection

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"

    def _command(self, *flags: str) -> list[str]:
        return [
            str(find_mariadb()),
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self._socket}",
            f"--tmpdir={self.folder}",  # a server that starts removes what others have in theirs
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=16M",
            *flags,
        ]

    def create(self) -> None:
        """Make its data."""
        data = self.folder / "data"
        for database in ("mysql", "shop"):
            (data / database).mkdir(parents=True)
        scripts = next(Path(place) for place in _SCRIPTS if (Path(place) / _TABLES[0]).exists())
        statements = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n" + "".join(
            (scripts / name).read_text() for name in _TABLES
        )
        subprocess.run(
            self._command("--bootstrap", "--log-warnings=0", "--enforce-storage-engine="),
            input=statements.encode(),
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "port": str(self.port),
            "bind-address": "127.0.0.1",
            "pid-file": str(self.folder / "pid"),
            "skip-name-resolve": "ON",
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "server-id": "7",
            "innodb-flush-log-at-trx-commit": "2",
            "innodb-flush-method": "nosync",
            "character-set-server": "utf8mb4",
            **self._settings,
        }
        flags = [f"--{name}={value}" if value else f"--{name}" for name, value in settings.items()]
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [*die_with_parent(), *self._command(*flags)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
            )
        wait_until(lambda: process.poll() is not None or self._answers(), f"{self.kind} answers", timeout_s=_START_S)
        if process.poll() is not None:
            raise RuntimeError(f"{self.kind} did not start:\n{self.log.read_text()[-2000:]}")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except OSError:  # a failed attempt of pymysql's leaves a socket open
                return False
        return self.ask("SELECT 1") == [(1,)]

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL ends it as a crash; SIGTERM in order."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(_START_S)
            finally:
                self._process.kill()
                self._process.wait()
                self._process = None

    def restart(self, how: signal.Signals = signal.SIGKILL) -> None:
        """As after a crash."""
        self.stop(how)
        self.start()

    def run(self, *statements: str) -> None:
        """As the superuser."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def make_user(self, name: str = USER, rights: str = RIGHTS) -> None:
        """A user who may capture."""
        self.run(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'", f"GRANT {rights} ON *.* TO {name}@'127.0.0.1'")


Server = TypeVar("Server", bound=MariaDBServer)


@contextlib.contextmanager
def mariadb_server(**settings: str) -> Iterator[MariaDBServer]:
    """A server with a row binlog and these settings (``binlog_format="…"``), a database ``shop`` and the user, until the block ends."""
    with serving(MariaDBServer, settings) as server:
        yield server


@contextlib.contextmanager
def serving(kind: type[Server], settings: dict[str, str]) -> Iterator[Server]:
    """A server of one kind, likewise."""
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-{kind.kind}-"))
    try:
        server = kind(folder, {name.replace("_", "-"): value for name, value in settings.items()})
        server.create()
        try:
            server.start()
            server.run("CREATE DATABASE IF NOT EXISTS shop")
            server.make_user()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    where = find_mariadb()
    if not where.exists():
        sys.exit("no MariaDB was found")
    print(where)
