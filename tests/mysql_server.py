"""A MySQL of the tests' own, where somebody has one: no package of Debian brings it, so no test needs it.

``PENSTOCK_MYSQLD`` names the program, and ``PENSTOCK_MYSQL_DRIVER`` Connector/J's JAR.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.mariadb_server import MariaDBServer, serving


def find_mysql_driver() -> Path:
    """Connector/J."""
    return Path(os.environ["PENSTOCK_MYSQL_DRIVER"])


class MySQLServer(MariaDBServer):
    """One server on a loopback port, with GTIDs. Use `mysql_server`."""

    kind = "mysql"

    def _command(self, *flags: str) -> list[str]:
        return [
            os.environ["PENSTOCK_MYSQLD"],
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self._socket}",
            "--mysqlx=OFF",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--innodb-buffer-pool-size=32M",
            "--innodb-redo-log-capacity=32M",
            *flags,
        ]

    def create(self) -> None:
        """Make its data."""
        subprocess.run(self._command("--initialize-insecure"), check=True, capture_output=True)


@contextlib.contextmanager
def mysql_server(**settings: str) -> Iterator[MySQLServer]:
    """A server as `tests.mariadb_server.mariadb_server` makes."""
    with serving(MySQLServer, settings) as server:
        yield server
