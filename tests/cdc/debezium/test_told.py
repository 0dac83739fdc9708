"""What a binlog tells besides rows, on a real server: tables that others take the place of, transactions of two phases, and statements."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cdc.debezium.conftest import Capturing, counted
from tests.cdc.debezium.judge import folded
from tests.mariadb_server import RIGHTS

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]

TWO = (
    "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO a VALUES (1, 'a1'), (2, 'a2')",
    "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO b VALUES (2, 'b2'), (3, 'b3')",
)


def _rows(capture: Capturing, table: str) -> dict[int, Any]:
    """What the topic says of a table."""
    found = folded(capture.events(), batches=3).get(f"{capture.database}.{table}", {})
    return {row["id"]: row["v"] for row in found.values()}


def _there(capture: Capturing, table: str) -> dict[int, Any]:
    return dict(capture.server.ask(f"SELECT id, v FROM {capture.database}.`{table}`"))


def captured(capture: Capturing, *tables: str, gone: tuple[str, ...] = (), user: str = "penstock") -> None:
    """The topic has these tables as they are, and nothing of those that are gone."""
    output = capture(user=user)
    for table in tables:
        assert _rows(capture, table) == _there(capture, table), (table, output)
    for table in gone:
        assert _rows(capture, table) == {}, (table, output)


@pytest.mark.parametrize("running", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_table_is_another_one_when_another_has_come_by_its_name(capture: Capturing, running: bool) -> None:
    capture.run(*TWO)
    capture()
    for statement in (
        "RENAME TABLE a TO old, b TO a",
        "INSERT INTO a VALUES (9, 'later')",
        "DROP TABLE old",
        "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO b VALUES (7, 'new')",
        "ALTER TABLE b RENAME TO c",
        "UPDATE c SET v = 'newer'",
    ):
        capture.run(statement)
        if running and not statement.startswith(("INSERT", "DROP")):
            capture()
    captured(capture, "a", "c", gone=("old", "b"))
    before = counted(capture.events())
    captured(capture, "a", "c", gone=("old", "b"))
    assert counted(capture.events()) == before, "nothing is read or told once more"


@pytest.mark.thorough
def test_partitions_that_are_emptied_dropped_or_exchanged(capture: Capturing) -> None:
    ranges = "PARTITION BY RANGE (id) (" + ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n}0)" for n in range(1, 5)) + ")"
    capture.run(
        f"CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20)) {ranges}",
        "INSERT INTO a VALUES (1, 'x'), (11, 'x'), (21, 'x'), (31, 'x')",
        "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO b VALUES (22, 'b')",
    )
    capture()
    capture.run("ALTER TABLE a TRUNCATE PARTITION p1", "INSERT INTO a VALUES (2, 'y')", "ALTER TABLE a DROP PARTITION p2")
    captured(capture, "a", "b")
    capture.run("ALTER TABLE a EXCHANGE PARTITION p3 WITH TABLE b", "DELETE FROM a WHERE id = 31")
    captured(capture, "a", "b")
    assert _rows(capture, "a") == {2: "y", 22: "b"}


@pytest.mark.thorough
def test_a_transaction_of_two_phases_counts_once_it_is_committed(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
    capture.run(
        "XA START 'r'", "INSERT INTO a VALUES (5, 'never')", "UPDATE a SET v = 'never' WHERE id = 1", "XA END 'r'", "XA PREPARE 'r'"
    )
    capture()
    assert 5 not in _rows(capture, "a")
    capture.run("XA ROLLBACK 'r'", "INSERT INTO b VALUES (50, 'between')")
    captured(capture, "a", "b")
    capture.run(
        "XA START 's', 'x'",
        "UPDATE a SET id = 20 WHERE id = 2",
        "INSERT INTO b VALUES (51, 'xa')",
        "XA END 's', 'x'",
        "XA PREPARE 's', 'x'",
    )
    capture.run("INSERT INTO b VALUES (52, 'other')", "XA COMMIT 's', 'x'", "UPDATE a SET v = 'after' WHERE id = 20")
    captured(capture, "a", "b")
    assert counted(capture.events())["r"] == 4, "its rows came with the commit"


@pytest.mark.thorough
def test_a_transaction_that_an_earlier_process_saw_prepared_has_its_tables_read_at_the_commit(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
    capture.run("XA START 'r'", "INSERT INTO a VALUES (5, 'xa')", "DELETE FROM a WHERE id = 1", "XA END 'r'", "XA PREPARE 'r'")
    capture.run("INSERT INTO b VALUES (50, 'x')", "INSERT INTO b VALUES (51, 'x')")
    capture()
    capture.run("XA COMMIT 'r'", "INSERT INTO b VALUES (52, 'x')")
    captured(capture, "a", "b")
    capture.run("INSERT INTO b VALUES (53, 'x')")
    before = counted(capture.events())
    captured(capture, "a", "b")
    assert counted(capture.events()) == {**before, "c": before["c"] + 1}


@pytest.mark.thorough
def test_a_statement_that_changes_rows_has_its_table_read(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
    capture.run(
        "SET SESSION binlog_format = 'STATEMENT'",
        "UPDATE a SET v = 'stated' WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
        "SET @x = 3",
    )
    capture.run("INSERT INTO a VALUES (3, 'later')")
    capture.server.make_user("seer", f"{RIGHTS}, TRIGGER")
    captured(capture, "a", "b", user="seer")
    assert counted(capture.events())["r"] == 4 + 1 + 1, "once, and only that table"


@pytest.mark.thorough
def test_a_statement_whose_triggers_nobody_may_see_has_all_tables_read(capture: Capturing) -> None:
    capture.run(*TWO, "CREATE TRIGGER t AFTER UPDATE ON a FOR EACH ROW UPDATE b SET v = NEW.v WHERE b.id = NEW.id")
    capture()
    capture.run("SET SESSION binlog_format = 'STATEMENT'", "UPDATE a SET v = 'stated' WHERE id = 2")
    captured(capture, "a", "b")


@pytest.mark.thorough
def test_events_that_cannot_be_read_end_the_capture(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
    name, min_len = "log_bin_compress", "log_bin_compress_min_len"
    capture.run(f"SET GLOBAL {name} = ON", f"SET GLOBAL {min_len} = 10")
    try:
        assert capture.error()["expected"] == "log_bin_compress = OFF"
        capture.run("INSERT INTO a VALUES (9, REPEAT('x', 20))")
    finally:
        capture.run(f"SET GLOBAL {name} = OFF", f"SET GLOBAL {min_len} = DEFAULT")
    said = capture.error()
    assert (said["error"], said["observed"]) == ("not_supported", "UNKNOWN")
    assert "--snapshot again" in said["hint"]
    capture("--snapshot", "again")
    captured(capture, "a", "b")
