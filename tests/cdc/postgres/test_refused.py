"""What keeps a capture from working is said before anything is made, with what to do."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from penstock.cdc.postgres import PostgresOptions
from penstock.cdc.postgres.stream import open_stream
from penstock.infra.cli import main
from penstock.log import InvalidArgument
from tests.cdc.postgres.conftest import Capturing, Database
from tests.cdc.postgres.judge import folded
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def nothing_was_made(database: Database, capture: Capturing) -> bool:
    return not (
        database.ask("SELECT count(*) FROM pg_publication")[0]
        or database.ask("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")[0]
        or Path(capture.lake, "topics").exists()
    )


def test_a_table_that_is_not_there(database: Database, capture: Capturing) -> None:
    database.run("CREATE SCHEMA sales; CREATE TABLE sales.orders (id int PRIMARY KEY)")
    said = capture.error("--table", "sales.order")
    assert said["message"] == "there is no such table"
    assert said["hint"] == "did you mean sales.orders?"
    assert nothing_was_made(database, capture)


def test_a_database_without_tables(database: Database, capture: Capturing) -> None:
    assert capture.error()["message"] == "the database has no tables"


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "NOTHING"])
def test_a_table_without_a_key(database: Database, capture: Capturing, identity: str) -> None:
    key = "" if identity != "NOTHING" else "PRIMARY KEY"
    database.run(f"CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int {key}); ALTER TABLE b REPLICA IDENTITY {identity}")
    said = capture.error()
    assert said["object"] == "public.b"
    assert "has no key" in said["message"]
    assert said["observed"] == f"REPLICA IDENTITY {identity}"
    assert nothing_was_made(database, capture)
    capture("--table", "a")


@pytest.fixture
def ann(database: Database) -> Iterator[str]:
    """The DSN of somebody who may do little."""
    database.run("CREATE TABLE a (id int PRIMARY KEY); CREATE ROLE ann LOGIN")
    try:
        yield database.dsn.replace("postgres@", "ann@")
    finally:
        database.run("DROP OWNED BY ann; DROP ROLE ann")


def test_who_may_not_replicate(database: Database, capture: Capturing, ann: str) -> None:
    said = capture.error(dsn=ann)
    assert said["error"] == "permission_denied"
    assert said["hint"] == 'as a superuser: ALTER ROLE "ann" REPLICATION'
    assert nothing_was_made(database, capture)


def test_who_may_not_read(database: Database, capture: Capturing, ann: str) -> None:
    database.run("ALTER ROLE ann REPLICATION")
    said = capture.error(dsn=ann)
    assert said["message"] == "the user may not read the table"
    assert said["hint"] == 'GRANT USAGE ON SCHEMA "public" TO "ann"; GRANT SELECT ON "public"."a" TO "ann"'


def test_who_may_not_publish(database: Database, capture: Capturing, ann: str) -> None:
    database.run("ALTER ROLE ann REPLICATION; GRANT SELECT ON a TO ann")
    said = capture.error(dsn=ann)
    assert said["error"] == "permission_denied"
    assert said["message"] == "the user may not publish these tables"
    statement = said["hint"].removeprefix("let their owner run: ")
    database.run(statement)
    capture(dsn=ann)


def test_a_slot_of_something_else(database: Database, capture: Capturing) -> None:
    database.run(f"CREATE TABLE a (id int PRIMARY KEY); SELECT pg_create_physical_replication_slot('{database.slot}')")
    try:
        assert capture.error()["message"] == "the slot serves something else"
    finally:
        database.drop_slot()


def test_a_slot_that_is_older_than_the_publication(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    database.run(f"SELECT pg_create_logical_replication_slot('{database.slot}', 'pgoutput')")
    said = capture.error()
    assert "older than the publication" in said["message"]
    assert f"pg_drop_replication_slot('{database.slot}')" in said["hint"]


@pytest.mark.parametrize("made_again", [True, False])
def test_changes_of_a_time_without_the_publication(database: Database, capture: Capturing, made_again: bool) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (0)")
    capture()
    database.run("DROP PUBLICATION penstock; INSERT INTO a VALUES (1)")
    if made_again:
        database.run("CREATE PUBLICATION penstock FOR TABLE a")
    said = capture.error()
    if made_again:
        assert (said["error"], said["observed"]) == ("slot_lost", 'publication "penstock" does not exist')
    assert "--snapshot again" in said["hint"]
    database.run("DELETE FROM a WHERE id = 0")
    capture("--snapshot", "again")
    assert folded(capture.events(), batches=1)["public.a"].keys() == {(1,)}


def test_a_value_that_is_no_text(database: Database, capture: Capturing) -> None:
    database.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    dsn = database.dsn.rpartition("/")[0] + "/ascii"
    try:
        with psycopg.connect(dsn, autocommit=True, client_encoding="SQL_ASCII") as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY, v text)")
            capture(dsn=dsn)
            connection.execute(b"INSERT INTO a VALUES (1, E'na\\xefve')")
            said = capture.error(dsn=dsn)
            assert "invalid byte sequence" in said["observed"]
            assert "--snapshot again" in said["hint"]
            connection.execute("UPDATE a SET v = 'naive'")
            capture("--snapshot", "again", dsn=dsn)
        assert folded(capture.events(), batches=1)["public.a"] == {(1,): {"id": 1, "v": "naive"}}
        database.drop_slot()
    finally:
        database.run("DROP DATABASE ascii WITH (FORCE)")


def test_a_publication_that_leaves_changes_out(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); CREATE PUBLICATION penstock FOR TABLE a WITH (publish = 'insert')")
    said = capture.error()
    assert said["message"] == "the publication leaves changes out"
    database.run(said["hint"])
    capture()


def test_a_topic_of_another_database(database: Database, capture: Capturing, postgres: PostgresServer) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    capture()
    database.drop_slot()
    database.run("CREATE DATABASE other TEMPLATE template0")
    other = database.dsn.rpartition("/")[0] + "/other"
    try:
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        said = capture.error(dsn=other)
        assert "changes of another database" in said["message"]
        assert said["observed"].endswith("database other")
    finally:
        database.run("DROP DATABASE other WITH (FORCE)")


def test_a_slot_that_somebody_reads(database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    capture()
    with closing(open_stream(database.dsn, database.slot, "penstock", settings="", where="here")):
        assert capture.error("--patience", "0s", code=3)["error"] == "slot_in_use"
    capture()


def test_two_captures_of_one_table(database: Database, capture: Capturing) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)"
    )
    capture("--table", "a")
    beside = Capturing(replace(database, slot=f"{database.slot}_2"), capture.lake)
    try:
        said = beside.error("--publication", "beside", "--table", "a", "--table", "b")
        assert said["message"] == "another capture sends changes of these tables to this topic"
        assert (said["object"], said["observed"]) == ("public.a", f"slot {database.slot} has sent them, and is there")
        assert f"--slot {database.slot}" in said["hint"]
        assert not beside.database.ask(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{beside.database.slot}'")
        beside("--publication", "beside", "--table", "b")
        assert capture.error("--table", "a", "--table", "b")["object"] == "public.b"
        assert sorted((event.table, event.op) for event in capture.events()) == [("public.a", "r"), ("public.b", "r")]
        database.drop_slot()
        beside("--publication", "beside", "--table", "a", "--table", "b")
    finally:
        beside.database.drop_slot()


def test_a_server_that_does_not_write_what_decoding_needs(capture: Capturing) -> None:
    with postgres_server(wal_level="replica") as server:
        said = capture.error(dsn=server.dsn)
    assert (said["expected"], said["observed"]) == ("wal_level = logical", "wal_level = replica")
    assert "ALTER SYSTEM SET wal_level = logical" in said["hint"]


@pytest.mark.parametrize(
    ("rows", "named"), [("(1, E'na\\xefve')", "with the first key"), ("(1, 'a'), (2, E'na\\xefve')", "behind the key 1")]
)
def test_a_row_whose_text_has_no_encoding(database: Database, capture: Capturing, rows: str, named: str) -> None:
    database.run("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    bytes_dsn = database.dsn.rpartition("/")[0] + "/bytes"
    try:
        with psycopg.connect(bytes_dsn, autocommit=True) as connection:
            connection.execute("SET client_encoding = 'SQL_ASCII'; CREATE TABLE a (id int PRIMARY KEY, v text)")
            connection.execute(f"INSERT INTO a VALUES {rows}".encode())
        said = capture.error(dsn=bytes_dsn)
        assert said["object"] == f"public.a, the row {named}"
        assert "not in UTF-8" in said["message"]
        with psycopg.connect(bytes_dsn, autocommit=True) as connection:
            connection.execute("UPDATE a SET v = 'naive'")
        capture(dsn=bytes_dsn)
        assert [event.op for event in capture.events()].count("r") == rows.count("(")
    finally:
        database.drop_slot()
        database.run("DROP DATABASE bytes WITH (FORCE)")


def test_a_slot_whose_log_was_dropped(capture: Capturing) -> None:
    with (
        postgres_server(max_slot_wal_keep_size="1MB", max_wal_size="32MB") as server,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        connection.execute("INSERT INTO a VALUES (-1)")
        capture(dsn=server.dsn)
        for number in range(4):
            connection.execute("INSERT INTO a VALUES (%s)", (number,))
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        said = capture.error(dsn=server.dsn)
        assert said["error"] == "slot_lost"
        assert "max_slot_wal_keep_size" in said["observed"]
        capture("--snapshot", "again", dsn=server.dsn)
        assert [event.op for event in capture.events()] == ["r", "t", "r", "r", "r", "r", "r"]


def test_a_capture_that_starts_while_the_server_does(capture: Capturing, caplog: pytest.LogCaptureFixture) -> None:
    with postgres_server() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        server.stop(signal.SIGINT)
        with caplog.at_level("WARNING", "penstock.cdc"), ThreadPoolExecutor(1) as other:
            capturing = other.submit(capture, dsn=server.dsn)
            wait_until(lambda: bool(caplog.records) or capturing.done(), "the capture waits")
            server.start()
            capturing.result()
    assert "the database is waited for" in caplog.text


def test_a_server_that_was_set_back(capture: Capturing) -> None:
    with postgres_server() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        capture(dsn=server.dsn)
        server.stop(signal.SIGINT)
        before = server.folder / "before"
        subprocess.run(["cp", "-a", server.folder / "data", before], check=True)
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO a SELECT generate_series(1, 1000)")
        capture(dsn=server.dsn)
        server.stop(signal.SIGINT)
        shutil.rmtree(server.folder / "data")
        before.rename(server.folder / "data")
        server.start()
        said = capture.error(dsn=server.dsn)
        again = capture.error("--snapshot", "again", dsn=server.dsn)
    assert said["error"] == again["error"] == "slot_lost"
    assert "the topic has changes up to" in said["observed"]
    assert "--snapshot again" in said["hint"]
    assert "new topic" in again["hint"]


@pytest.mark.parametrize("dsn", ["host=127.0.0.1 pasword=secret", "postgresql://[", "no dsn"])
def test_what_names_no_server(capture: Capturing, dsn: str) -> None:
    said = capture.error(dsn=dsn)
    assert said["message"] == "this names no PostgreSQL"
    assert "secret" not in str(said)


@pytest.mark.parametrize(
    "dsn", ["postgresql://ann:secret@127.0.0.1/a", "host=127.0.0.1 password=secret", "host=h password = secret"]
)
def test_no_password_on_the_command_line(capture: Capturing, dsn: str) -> None:
    said = capture.error(dsn=dsn)
    assert "PGPASSWORD" in said["message"]
    assert "secret" not in str(said)


def test_a_password_is_never_printed(database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert "secret" not in capture()
    assert "secret" not in capture("--table", "b", code=2)


def test_a_dsn_with_its_password_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_POSTGRES", "postgresql://ann:secret@127.0.0.1:1/shop")
    result = CliRunner().invoke(main, ["--lake", str(tmp_path), "capture", "postgres", "--topic", "changes", "--patience", "0s"])
    assert result.exit_code == 3
    assert "127.0.0.1:1/shop" in result.output
    assert "secret" not in result.output


def test_without_psycopg(database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = capture.error()
    assert said["error"] == "missing_dependency"
    assert said["hint"] == "pip install '.[postgres]'"


@pytest.mark.parametrize("slot", ["", "Upper", "a-b", "x" * 64])
def test_bad_slot_names(slot: str) -> None:
    with pytest.raises(InvalidArgument, match="slot"):
        PostgresOptions(slot=slot)
