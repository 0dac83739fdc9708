"""Tables that are made anew in ways of which the log does not tell all columns, or of which the connector would misunderstand what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cdc.debezium.commands import Commands
from tests.cdc.debezium.conftest import Capturing
from tests.cdc.debezium.test_told import TWO, captured
from tests.mariadb_server import mariadb_server

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]


@pytest.mark.parametrize("running", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_table_that_is_replaced_has_its_new_columns(capture: Capturing, running: bool) -> None:
    names = ("a", "`odd name`", "`日本 8`", "Upper")
    capture.run(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), n INT)" for name in names))
    capture()
    capture.run(
        "CREATE OR REPLACE TABLE a (n INT, v VARCHAR(20), id INT PRIMARY KEY)",
        "/* DROP TABLE a */ create or replace table `odd name` (n INT, v VARCHAR(20), id INT PRIMARY KEY)",
        "SET STATEMENT max_statement_time = 100 FOR CREATE OR REPLACE TABLE `日本 8` (n INT, id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE OR REPLACE TABLE Upper (v VARCHAR(20), PRIMARY KEY (id)) SELECT 7 AS id, 'of a query' AS v, 8 AS n",
    )
    if running:
        capture()
    capture.run(*(f"INSERT INTO {name} (id, v, n) VALUES (2, 'x', 200)" for name in names))
    captured(capture, *(name.strip("`") for name in names))


STATED = "SET SESSION binlog_format = 'STATEMENT'"


@pytest.mark.parametrize("running", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_table_whose_columns_the_log_does_not_tell_is_learnt_and_read(capture: Capturing, running: bool) -> None:
    """A session logs statements: a table of a query, what is made like it, and one that is gone when the columns are asked for."""
    capture.run("CREATE TABLE a (id INT PRIMARY KEY, x INT, v VARCHAR(20))", "INSERT INTO a VALUES (1, 1, 'one'), (2, 2, 'two')")
    capture.run("CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20), n INT)", "INSERT INTO b VALUES (5, 'old', 5)")
    capture.run("CREATE TABLE g LIKE b", "INSERT INTO g SELECT * FROM b")
    capture.run("CREATE TABLE `odd name` LIKE b", "CREATE TABLE `日本 8` LIKE b", "INSERT INTO `日本 8` SELECT * FROM b")
    capture()
    for statement in (
        "CREATE TABLE c (PRIMARY KEY (id)) SELECT id, v FROM a",
        "CREATE OR REPLACE TABLE b (PRIMARY KEY (id)) AS SELECT v, id FROM a",
        "create or replace table `odd name` (primary key (id)) select id, v from a",
        "/*! CREATE OR REPLACE TABLE `日本 8` (PRIMARY KEY (id)) SELECT id, v FROM a */",
        "CREATE TABLE d LIKE c",
        "CREATE TABLE gone (PRIMARY KEY (id)) SELECT id, v FROM a",
        "CREATE OR REPLACE TABLE g (PRIMARY KEY (id)) SELECT id, v FROM a",
    ):
        capture.run(STATED, statement)
        if running:
            capture()
    capture.run(*(f"INSERT INTO {name} (id, v) VALUES (7, 'seven')" for name in ("b", "c", "d", "gone", "`odd name`", "`日本 8`")))
    capture.run("ALTER TABLE c ADD COLUMN y INT FIRST", "UPDATE c SET v = 'altered', y = 8 WHERE id = 1", "DROP TABLE gone, g")
    capture.run("RENAME TABLE d TO e", "UPDATE e SET v = 'renamed'")
    captured(capture, "a", "b", "c", "e", "odd name", "日本 8", gone=("gone", "d", "g"))
    capture.run("INSERT INTO c (id, v, y) VALUES (9, 'nine', 9)", "DELETE FROM b WHERE id = 1")
    captured(capture, "a", "b", "c", "e", "odd name", "日本 8", gone=("gone", "d", "g"))


OF_A_QUERY = "(PRIMARY KEY (id)) SELECT id, v FROM a"


@pytest.mark.thorough
def test_rows_that_were_read_behind_a_statement_that_tells_no_columns_go_with_it(capture: Capturing) -> None:
    """A truncate at its place leaves them, and what becomes of them until the columns are known is not told."""
    capture.run(*TWO[:2], "CREATE TABLE there LIKE a", "CREATE TABLE gone LIKE a")
    remade = f"CREATE OR REPLACE TABLE there {OF_A_QUERY}", "DROP TABLE gone", f"CREATE TABLE gone {OF_A_QUERY}"
    capture(at={"begun": (STATED, *remade), "rows done": ("DELETE FROM there WHERE id = 1", "DROP TABLE gone")})
    captured(capture, "a", "there", gone=("gone",))


@pytest.mark.thorough
def test_nothing_is_told_behind_the_place_where_columns_are_known_before_they_are(capture: Capturing) -> None:
    """Neither of other tables, nor of a transaction that was prepared before it."""
    capture.run(*TWO[:2], "CREATE TABLE other LIKE a", "INSERT INTO other SELECT * FROM a")
    capture()
    capture.run(STATED, f"CREATE TABLE b {OF_A_QUERY}")
    capture.run("XA START 'x'", *(f"INSERT INTO {name} VALUES (7, 'prepared')" for name in "ab"), "XA END 'x'", "XA PREPARE 'x'")
    capture.run("INSERT INTO a VALUES (8, 'between')", "UPDATE a SET v = 'between' WHERE id = 8")
    capture(at={"columns noted": ("DROP TABLE other", "CREATE TABLE other LIKE a", "INSERT INTO other VALUES (9, 'later')")})
    capture.run("XA COMMIT 'x'", "INSERT INTO a VALUES (9, 'after')")
    captured(capture, "a", "b", "other")


@pytest.mark.thorough
def test_a_table_that_is_gone_when_its_columns_are_asked_for_may_come_back(capture: Capturing) -> None:
    capture.run(*TWO[:2], "CREATE TABLE back LIKE a", "CREATE VIEW v AS SELECT id FROM a")
    capture(
        at={
            "begun": (STATED, f"CREATE OR REPLACE TABLE back {OF_A_QUERY}", "RENAME TABLE v TO w"),
            "rows done": ("DROP TABLE back", "DROP VIEW w"),
            "columns noted": ("CREATE TABLE back LIKE a", "INSERT INTO back VALUES (8, 'anew')"),
        }
    )
    captured(capture, "a", "back")
    assert {event.table.partition(".")[2] for event in capture.events()} == {"a", "back"}, "a view has none"


@pytest.mark.thorough
def test_tables_of_a_session_and_executed_comments_change_no_other_table(capture: Capturing) -> None:
    names = ("a", "b", "c", "d", "e")
    capture.run(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))" for name in names))
    capture.run(*(f"INSERT INTO {name} VALUES (1, '{name}')" for name in names))
    capture()
    own = "(id INT PRIMARY KEY, z INT)"
    capture.run(STATED, f"CREATE TEMPORARY TABLE a {own}", "INSERT INTO a VALUES (1, 1)", "DROP TABLE a")
    capture.run(STATED, f"CREATE TEMPORARY TABLE b {own}", "ALTER TABLE b ADD COLUMN y INT FIRST", "TRUNCATE b")
    capture.run("/*!50001 RENAME TABLE d TO d2 */", "/*! ALTER TABLE d2 ADD COLUMN n INT FIRST */")
    capture.run("ALTER TABLE e /*! ADD COLUMN n INT FIRST */")
    capture.run(*(f"INSERT INTO {name} (id, v) VALUES (2, 'two')" for name in ("a", "b", "c", "d2", "e")))
    captured(capture, "a", "b", "c", "d2", "e", gone=("d",))
    capture.run(STATED, f"CREATE TEMPORARY TABLE c {own}", "RENAME TABLE c TO c2")  # alone: a statement of rows has all tables read
    capture.run("INSERT INTO c VALUES (3, 'three')")
    captured(capture, "a", "b", "c", "d2", "e", gone=("d",))


@pytest.mark.thorough
def test_tables_whose_names_differ_by_case_alone_are_read_and_learnt_apart(capture: Capturing) -> None:
    capture.run(*TWO[:2], *(f"CREATE TABLE {name} LIKE a" for name in ("made", "MADE", "GONE")))
    capture.run(*(f"INSERT INTO {name} VALUES (1, '{name}')" for name in ("made", "MADE", "GONE")))
    capture()
    capture.run(STATED, f"CREATE OR REPLACE TABLE GONE {OF_A_QUERY}", "DROP TABLE GONE", "CREATE TABLE gone LIKE a")
    capture.run("UPDATE MADE SET v = 'other'", "INSERT INTO made VALUES (2, 'after')", "INSERT INTO gone VALUES (3, 'there')")
    captured(capture, "a", "made", "MADE", "gone", gone=("GONE",))
    capture.run(STATED, "UPDATE made SET v = 'stated'")
    captured(capture, "a", "made", "MADE", "gone", gone=("GONE",))


@pytest.mark.thorough
def test_a_server_that_minds_no_case_of_names(commands: Commands, tmp_path: Path) -> None:
    """It writes statements into its log as they came, and else knows names in small letters."""
    with mariadb_server(lower_case_table_names="1") as server:
        capture = Capturing(server, commands, "shop", str(tmp_path / "lake"))
        capture.run(
            *TWO[:2],
            "CREATE TABLE Gone LIKE a",
            "CREATE TABLE Made LIKE A",
            "CREATE TABLE Moved LIKE a",
            "CREATE TABLE There LIKE a",
        )
        capture.run(*(f"INSERT INTO {name} SELECT * FROM a" for name in ("GONE", "MADE", "MOVED", "THERE")))
        capture()
        capture.run("DROP TABLE Gone", "RENAME TABLE Moved TO Shop.Away", STATED, f"CREATE OR REPLACE TABLE MADE {OF_A_QUERY}")
        capture.run("UPDATE Made SET v = 'x'", "UPDATE AWAY SET v = 'x'", STATED, "UPDATE There SET v = 'stated'")
        captured(capture, "a", "made", "away", "there", gone=("gone", "moved"))
        assert {event.table for event in capture.events()} == {
            f"shop.{name}" for name in ("a", "gone", "made", "moved", "away", "there")
        }


@pytest.mark.thorough
def test_a_table_that_comes_from_a_database_that_is_not_captured_is_learnt(capture: Capturing) -> None:
    other = f"{capture.database}_other"
    capture.run(*TWO[:2], f"CREATE DATABASE {other}", f"CREATE TABLE {other}.c LIKE a")
    capture()
    capture.run(f"CREATE OR REPLACE TABLE {other}.c (v VARCHAR(20), id INT PRIMARY KEY)", f"INSERT INTO {other}.c VALUES ('c1', 1)")
    capture.run("INSERT INTO a VALUES (3, 'a3')")
    capture()
    capture.run(
        f"RENAME TABLE {other}.c TO c", "UPDATE c SET v = 'here'", "INSERT INTO c VALUES ('c2', 2)", f"DROP DATABASE {other}"
    )
    captured(capture, "a", "c")


@pytest.mark.thorough
def test_the_tables_of_a_database_go_with_it(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
    name = capture.database
    capture.run(f"DROP DATABASE {name}", f"CREATE DATABASE {name}", f"USE {name}", *TWO[2:])
    captured(capture, "b", gone=("a",))
    capture.run(f"CREATE OR REPLACE DATABASE {name}", f"USE {name}", *TWO[:2])
    captured(capture, "a", gone=("b",))


@pytest.mark.thorough
def test_a_view_is_no_table_and_a_definition_that_the_parser_does_not_understand_is_learnt_where_the_table_has_another_then(
    capture: Capturing,
) -> None:
    capture.run(*TWO, "CREATE VIEW v AS SELECT id FROM a")
    capture()
    capture.run("ALTER TABLE a ADD COLUMN ip INET6 FIRST", "INSERT INTO a (id, v) VALUES (3, 'x')", "ALTER TABLE a DROP COLUMN ip")
    capture.run("RENAME TABLE v TO w", "INSERT INTO a VALUES (4, 'x')")
    captured(capture, "a", "b")
    assert {event.table.partition(".")[2] for event in capture.events()} == {"a", "b"}
