"""A MariaDB of the tests' own, a database of each test, and `penstock capture mariadb` on it in a child process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cdc.debezium.commands import Commands, command_process
from tests.cdc.debezium.judge import Seen, events_of
from tests.mariadb_server import MariaDBServer, mariadb_server

TOPIC = "changes"


@dataclass
class Capturing:
    """Runs of `penstock capture mariadb` with ``--once``."""

    server: MariaDBServer
    commands: Commands
    database: str
    lake: str
    path: str | None = None
    """The database in a URL, where its name has to be written otherwise there."""

    def run(self, *statements: str) -> None:
        """In the test's database."""
        self.server.run(f"USE {self.database}", *statements)

    def __call__(self, *options: str, code: int = 0, user: str = "penstock", at: Mapping[str, Sequence[str]] | None = None) -> str:
        """What it prints. ``at``: statements that are run when it comes to a point between its steps first."""
        url = f"mariadb://{user}@127.0.0.1:{self.server.port}/{self.path or self.database}"
        where = ["--lake", self.lake, "--topic", TOPIC, "--once", "--json"]
        meanwhile = {point: partial(self.run, *statements) for point, statements in (at or {}).items()}
        result = self.commands(["capture", "mariadb", url, *where, *options], meanwhile)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.output

    def error(self, *options: str, code: int = 2, user: str = "penstock") -> dict[str, str]:
        """What it says when it fails."""
        said: dict[str, str] = json.loads(self(*options, code=code, user=user).splitlines()[-1])
        return said

    def events(self) -> list[Seen]:
        """All that is in the topic."""
        return events_of(self.lake, TOPIC)

    def folder(self) -> Path:
        """What the capture keeps beside its topic."""
        (found,) = Path(self.lake).glob("captures/*/debezium/penstock")
        return found


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    with command_process() as commands:
        yield commands


@pytest.fixture
def capture(mariadb: MariaDBServer, commands: Commands, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Capturing]:
    name = f"db_{abs(hash(request.node.nodeid)) % 10**12}"
    mariadb.run(f"CREATE DATABASE {name}")
    yield Capturing(mariadb, commands, name, str(tmp_path / "lake"))
    mariadb.run(f"DROP DATABASE {name}")


def counted(events: list[Seen]) -> dict[str, int]:
    """The events by what they do."""
    found: dict[str, Any] = {}
    for event in events:
        found[event.op] = found.get(event.op, 0) + 1
    return found
