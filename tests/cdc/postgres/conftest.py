"""A database of the test's own, and `penstock capture postgres` on it in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.sql import SQL, Identifier

from penstock.infra.cli import main
from tests.cdc.postgres.judge import Seen, events_of
from tests.postgres_server import PostgresServer
from tests.waiting import wait_until

TOPIC = "changes"


@dataclass
class Database:
    """A database, and the connection of somebody who works with it."""

    dsn: str
    connection: psycopg.Connection[Any]
    slot: str

    def run(self, statements: str) -> None:
        self.connection.execute(statements.encode())

    def ask(self, query: str) -> list[Any]:
        """The first column of an answer."""
        return [row[0] for row in self.connection.execute(query.encode())]

    def drop_slot(self) -> None:
        """Once the server has noticed that nobody reads it any more."""
        slots = f"FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        wait_until(lambda: not any(self.ask(f"SELECT active {slots}")), "the slot is let go", timeout_s=60)
        self.ask(f"SELECT pg_drop_replication_slot(slot_name) {slots}")


@dataclass
class Capturing:
    """Runs of `penstock capture postgres` with ``--once``."""

    database: Database
    lake: str

    def __call__(self, *options: str, code: int = 0, dsn: str | None = None) -> str:
        """What it prints."""
        where = ["--lake", self.lake, "--topic", TOPIC, "--slot", self.database.slot, "--once", "--json"]
        result = CliRunner().invoke(main, ["capture", "postgres", dsn or self.database.dsn, *where, *options])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.output

    def error(self, *options: str, code: int = 2, dsn: str | None = None) -> dict[str, str]:
        """What it says when it fails."""
        said: dict[str, str] = json.loads(self(*options, code=code, dsn=dsn).splitlines()[-1])
        return said

    def events(self) -> list[Seen]:
        """All that is in the topic, in the order of positions."""
        return sorted(events_of(self.lake, TOPIC), key=lambda event: event.position)

    def values(self) -> list[dict[str, Any]]:
        """Their envelopes."""
        return [json.loads(event.body)["value"] for event in self.events()]


@pytest.fixture
def database(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    name = f"db_{abs(hash(request.node.nodeid)) % 10**12}"
    with psycopg.connect(postgres.dsn, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        dsn = postgres.dsn.rpartition("/")[0] + f"/{name}"
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                found = Database(dsn, connection, f"slot_{name}")
                try:
                    yield found
                finally:
                    found.drop_slot()
        finally:
            admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.fixture
def capture(database: Database, tmp_path: Path) -> Capturing:
    return Capturing(database, str(tmp_path / "lake"))
