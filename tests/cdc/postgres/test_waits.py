"""A capture that waits for others' transactions says for which, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.cdc.postgres.conftest import TOPIC, Capturing, Database
from tests.servers import die_with_parent
from tests.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
PATIENCE_S = 180
NOT_AT_ONCE = """
import sys
from penstock.cdc.postgres import query_watch
from penstock.infra.cli import main
query_watch._LOG_WAITS_S = 0.3
main(sys.argv[1:])
"""
"""A capture that tells of waits sooner."""


@contextmanager
def running(database: Database, capture: Capturing, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    where = ["capture", "postgres", database.dsn, "--lake", capture.lake, "--topic", TOPIC, "--slot", database.slot]
    with said.open("wb") as log:
        process = subprocess.Popen(
            [*die_with_parent(), sys.executable, "-c", NOT_AT_ONCE, *where],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def idle_in_transaction(database: Database, statement: str) -> Iterator[int]:
    with psycopg.connect(database.dsn) as connection:
        connection.execute(statement.encode())
        yield connection.info.backend_pid
        connection.rollback()


def slots(database: Database) -> list[bool]:
    """Of the slots there are, whether each is read or made."""
    return database.ask(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{database.slot}'")


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM])
def test_the_slot_s_wait_is_told_and_ends_at_a_signal(
    database: Database, capture: Capturing, tmp_path: Path, how: signal.Signals
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
    said = tmp_path / "said"
    with idle_in_transaction(database, "INSERT INTO a VALUES (2)") as pid, running(database, capture, said) as process:
        wait_until(lambda: f"pid {pid}, ClientRead" in said.read_text(), "the capture says for whom it waits", timeout_s=PATIENCE_S)
        assert "the slot is made once these transactions have ended: postgres (unnamed), pid" in said.read_text()
        assert slots(database) == [True]
        process.send_signal(how)
        assert process.wait(PATIENCE_S) == 128 + how
        assert "Traceback" not in said.read_text()
        wait_until(lambda: not slots(database), "the slot is gone", timeout_s=PATIENCE_S)
    capture()
    assert [event.op for event in capture.events()] == ["r"]


@pytest.mark.thorough
def test_a_prepared_transaction_that_is_waited_for_is_named(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    with psycopg.connect(database.dsn) as connection:
        connection.execute("INSERT INTO a VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'forgotten'")
    said = tmp_path / "said"
    try:
        with running(database, capture, said):
            wait_until(
                lambda: "prepared transaction 'forgotten'" in said.read_text(),
                "the capture says for what it waits",
                timeout_s=PATIENCE_S,
            )
            database.run("COMMIT PREPARED 'forgotten'")
            wait_until(lambda: "1 rows read" in said.read_text() or slots(database) == [True], "it goes on", timeout_s=PATIENCE_S)
    finally:
        if database.ask("SELECT 1 FROM pg_prepared_xacts WHERE gid = 'forgotten'"):
            database.run("ROLLBACK PREPARED 'forgotten'")


@pytest.mark.thorough
def test_a_capture_that_is_killed_leaves_no_slot_that_is_being_made(database: Database, capture: Capturing, tmp_path: Path) -> None:
    if database.connection.info.server_version < 140000:
        pytest.skip("a server sees from PostgreSQL 14 on that a client is gone")
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    said = tmp_path / "said"
    with idle_in_transaction(database, "INSERT INTO a VALUES (1)"), running(database, capture, said) as process:
        wait_until(lambda: "the slot is made" in said.read_text(), "the capture waits", timeout_s=PATIENCE_S)
        beside = capture.error("--patience", "0s", code=3)
        assert beside["error"] == "slot_in_use"
        assert "pg_terminate_backend(" in beside["hint"]
        process.kill()
        wait_until(lambda: not slots(database), "the slot is gone", timeout_s=PATIENCE_S)


@pytest.mark.thorough
def test_a_locked_table_s_wait_is_told_and_ends_at_a_signal(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); CREATE PUBLICATION penstock FOR TABLE a")
    said = tmp_path / "said"
    with idle_in_transaction(database, "LOCK TABLE a IN ACCESS EXCLUSIVE MODE") as pid, running(database, capture, said) as process:
        wait_until(lambda: f"pid {pid}" in said.read_text(), "the capture says for whom it waits", timeout_s=PATIENCE_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGINT
