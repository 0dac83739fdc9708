"""`penstock capture mariadb` on a real server: what comes into the topic, and that it goes on where it ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock import SyncOptions, sync
from penstock.infra.cli import main
from tests.cdc.debezium.conftest import TOPIC, Capturing, counted
from tests.cdc.debezium.judge import check_stream
from tests.cdc.sync.streams import rows
from tests.waiting import wait_until

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]

TABLE = (
    "CREATE TABLE things (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2), big BIGINT UNSIGNED, at DATETIME(6), day DATE, picture BLOB,"
    " weight DOUBLE, flag TINYINT, kind ENUM('a','b'))"
)
FIRST = (
    "INSERT INTO things VALUES (1, 'ä', 1.50, 18446744073709551615, '2026-01-02 03:04:05.678901', '2026-01-02', x'00ff', 0.5, 1, 'a'),"
    " (2, 'two', -2.25, 0, NULL, NULL, NULL, NULL, NULL, NULL), (3, 'three', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'b')"
)


def test_rows_and_changes_come_once_and_a_sync_makes_the_same_table(capture: Capturing, tmp_path: Path) -> None:
    capture.run(TABLE, FIRST)
    capture()
    assert counted(capture.events()) == {"r": 3}
    capture.run(
        "UPDATE things SET amount = 7.25 WHERE id = 1",
        "UPDATE things SET id = 20 WHERE id = 2",
        "DELETE FROM things WHERE id = 3",
        "ALTER TABLE things ADD COLUMN later INT",
        "INSERT INTO things (id, name, later) VALUES (4, 'four', 44)",
        "CREATE TABLE more (id INT PRIMARY KEY)",
        "INSERT INTO more VALUES (1), (2)",
    )
    capture()
    capture()  # nothing is new
    assert counted(capture.events()) == {"r": 3, "u": 1, "d": 2, "c": 4}
    check_stream(capture.events())

    sync(capture.lake, TOPIC, SyncOptions(into=tmp_path / "tables")).await_termination()
    columns = "id, name, amount, big, at, day, picture, weight, flag, kind, later"
    there = capture.server.ask(f"SELECT {columns} FROM {capture.database}.things ORDER BY id")
    names = columns.split(", ")
    found = sorted(rows(tmp_path / "tables" / "things"), key=lambda row: row["id"])
    assert [tuple(row.get(name) for name in names) for row in found] == [_as_python(row) for row in there]
    assert sorted(row["id"] for row in rows(tmp_path / "tables" / "more")) == [1, 2]


def _as_python(row: tuple[object, ...]) -> tuple[object, ...]:
    return row


def test_a_truncate_empties_the_table(capture: Capturing) -> None:
    capture.run("CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")
    capture()
    capture.run("TRUNCATE things", "INSERT INTO things VALUES (1)")
    capture()
    assert counted(capture.events()) == {"r": 2, "t": 1, "c": 1}


def test_a_signal_has_rows_read_once_more(capture: Capturing) -> None:
    capture.run("CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")
    capture()
    signal = ["capture", "signal", f"{capture.database}.things", "--topic", TOPIC, "--lake", capture.lake]
    result = CliRunner().invoke(main, signal)
    assert result.exit_code == 0, result.output
    capture.run("INSERT INTO things VALUES (3)")
    capture()
    capture()
    events = capture.events()
    assert counted(events) == {"r": 5, "c": 1}
    check_stream(events, reads_once=False)
    assert not list(capture.folder().glob("signals/*"))


def test_an_engine_that_has_ended_leaves_nothing_behind(capture: Capturing) -> None:
    """A capture begins a new one whenever its connection was lost. Threads that end while Java knows them end the process later."""
    capture.run("CREATE TABLE things (id INT PRIMARY KEY)")
    capture()
    threads, _ = capture.commands.left_behind()
    lives = 4
    for _ in range(lives):
        capture()
    assert capture.commands.left_behind()[0] - threads < lives
    wait_until(lambda: capture.commands.left_behind()[1] <= 1, "the collectors of both sides have taken the engines that ended")


@pytest.mark.thorough
def test_all_is_read_once_more_behind_a_truncate(capture: Capturing) -> None:
    capture.run(
        "CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)", "CREATE TABLE none (id INT PRIMARY KEY)"
    )
    capture()
    capture.run("INSERT INTO things VALUES (3)")
    capture("--snapshot", "again")
    assert counted(capture.events()) == {"r": 5, "t": 2}


@pytest.mark.thorough
def test_no_rows_where_none_are_wanted(capture: Capturing) -> None:
    capture.run("CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")
    capture("--snapshot", "never")
    capture.run("INSERT INTO things VALUES (3)")
    capture()
    assert counted(capture.events()) == {"c": 1}
