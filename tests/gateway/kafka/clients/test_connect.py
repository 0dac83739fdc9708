"""`make demo-kafka` as users run it: Debezium on Kafka Connect, killed with its gateways, and every row compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from examples.kafka_connect.demo import repeats
from tests.tree import ROOT

RUN_S = 600.0


def change(transaction: str | None, order: int, **source: str) -> bytes:
    within = None if transaction is None else {"id": transaction, "total_order": order}
    return json.dumps({"payload": {"source": source or {"table": "orders"}, "transaction": within}}).encode()


def test_changes_that_come_once_more_are_counted() -> None:
    once = [change("1:8", 1), change("1:8", 2), change("2:9", 1)]
    others = [None, change(None, 0), change(None, 0), json.dumps({"payload": {"status": "BEGIN", "id": "1:8"}}).encode()]
    assert repeats([*once, *others, *others]) == 0
    assert repeats([*once, *others, *once[1:]]) == 2


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a database's user may see, too: pytest's own are of whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.postgres
@pytest.mark.kafka_connect
@pytest.mark.timeout(RUN_S)
def test_every_row_comes_through_kills(folder: Path) -> None:
    words = [sys.executable, "-m", "examples.kafka_connect", "--transactions", "40", "--lake", str(folder / "lake")]
    environment = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, env=environment, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("✗") == 3, "each gateway, and a worker"
    assert "rows equal PostgreSQL's." in run.stdout
    assert [one.name for one in folder.iterdir()] == ["lake"], "logs are left after a good end"
    running = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    left = [one for one in running if str(folder) in one]
    assert left == [], "processes are left"
