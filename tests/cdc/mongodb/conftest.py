"""A MongoDB of the tests' own, a database of each test, and `penstock capture mongodb` on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.infra.cli import main
from tests.cdc.mongodb.judge import Seen, events_of
from tests.mongodb_server import MongoDBServer, mongodb_server

TOPIC = "changes"


@dataclass
class Capturing:
    """Runs of `penstock capture mongodb` with ``--once``."""

    server: MongoDBServer
    db: Any
    lake: str

    def __call__(self, *options: str, code: int = 0, url: str | None = None) -> str:
        """What it prints."""
        where = ["--lake", self.lake, "--topic", TOPIC, "--once", "--json"]
        result = CliRunner().invoke(main, ["capture", "mongodb", url or self.server.url(self.db.name), *where, *options])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.output

    def error(self, *options: str, code: int = 2, url: str | None = None) -> dict[str, str]:
        """What it says when it fails."""
        said: dict[str, str] = json.loads(self(*options, code=code, url=url).splitlines()[-1])
        return said

    def command(self, *arguments: str) -> str:
        """Another command on the lake."""
        result = CliRunner().invoke(main, [*arguments, "--lake", self.lake])
        assert result.exit_code == 0, result.output
        return result.output

    def events(self) -> list[Seen]:
        """All that is in the topic."""
        return events_of(self.lake, TOPIC)

    def state(self) -> Path:
        """What the capture keeps beside its topic."""
        (found,) = Path(self.lake).glob("captures/*/mongodb/*/state")
        return found


@pytest.fixture(scope="session")
def mongodb() -> Iterator[MongoDBServer]:
    with mongodb_server() as server:
        yield server


@pytest.fixture
def capture(mongodb: MongoDBServer, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Capturing]:
    with mongodb.client() as client:
        name = f"db_{abs(hash(request.node.nodeid)) % 10**12}"
        yield Capturing(mongodb, client[name], str(tmp_path / "lake"))
        client.drop_database(name)
