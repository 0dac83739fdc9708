"""`penstock verify-sync` with a real PostgreSQL: its tables beside what a capture and a sync made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.postgres.values import UNAVAILABLE
from tests.cdc.postgres.conftest import TOPIC, Capturing, Database
from tests.runner import printed

pytestmark = [pytest.mark.postgres, pytest.mark.processes]

TYPES = {
    "id": "bigint",
    "n": "decimal(38,10)",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "raw": "binary",
}


def applied(capture: Capturing, into: str, columns: dict[str, dict[str, str]] | None = None) -> None:
    assert sync(capture.lake, TOPIC, SyncOptions(into=into, columns=columns or {})).await_termination()


def test_times_that_no_timestamp_holds_are_equal_as_text(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE times (at timestamptz PRIMARY KEY, local timestamp)")
    capture()
    times = "infinity", "-infinity", "20000-01-01 00:00:00.5", "0044-03-15 12:00:00 BC", "9999-12-31 23:59:59.999999"
    database.run("INSERT INTO times VALUES " + ", ".join(f"('{time}', '{time}')" for time in times))
    capture()
    into = str(tmp_path / "targets")
    applied(capture, into, {"times": {"at": "string", "local": "string"}})
    assert "times: equal (5 rows in the source, 5 in the target)" in printed("verify-sync", database.dsn, into, "--table", "times")


@pytest.mark.parametrize("declared", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_captured_and_synced_table_is_equal_until_it_changes(
    database: Database, capture: Capturing, tmp_path: Path, declared: bool
) -> None:
    database.run(
        """CREATE TABLE things (id bigint PRIMARY KEY, n numeric(38,10), at timestamptz, local timestamp, day date, raw bytea,
                                words text, tags text[], doc jsonb, yes boolean, f double precision)"""
    )
    capture()
    database.run(
        """INSERT INTO things VALUES
           (1, 9999999999999999999999999999.9999999999, '2026-03-29 01:30:00.5+01', '2026-03-29 02:30:00', '0099-12-31', '\\x00ff',
            E'ß"\\n,', '{a,"b c",NULL}', '{"a": [1, 2.50]}', true, 0.1),
           (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
           (3, -0.1, '1969-12-31 23:59:59.999999+00', '1970-01-01', '1970-01-01', '', '', '{}', 'null', false, -1e-300)"""
    )
    capture()
    into = str(tmp_path / "targets")
    columns = {"things": TYPES} if declared else None
    applied(capture, into, columns)
    compare = ["verify-sync", database.dsn, into, "--table", "things"]
    assert "things: equal (3 rows in the source, 3 in the target)" in printed(*compare)
    database.run("UPDATE things SET words = 'other' WHERE id = 3")
    assert "1 different" in printed(*compare, code=1)
    capture()
    applied(capture, into, columns)
    printed(*compare)


def test_a_table_that_is_not_there_and_a_server_that_does_not_answer(database: Database, tmp_path: Path) -> None:
    assert "there is no such table" in printed("verify-sync", database.dsn, str(tmp_path), "--table", "none", code=2)
    assert "does not answer" in printed("verify-sync", "postgresql://u@127.0.0.1:1/d", str(tmp_path), code=3)


def test_texts_that_look_like_values_that_were_not_sent_are_texts(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE t (k text PRIMARY KEY, v text, raw bytea, tags text[], doc json, big text);"
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL"
    )
    row = f"'{UNAVAILABLE}', '{UNAVAILABLE}', ARRAY['{UNAVAILABLE}'], '{{\"{UNAVAILABLE}\":\"{UNAVAILABLE}\"}}'"
    database.run(f"INSERT INTO t VALUES ('a', {row}, repeat('x', 3000)), ('b', 'v', 'v', '{{}}', '1', '{UNAVAILABLE}')")
    capture()
    database.run(f"INSERT INTO t VALUES ('c', {row}, repeat('x', 3000)), ('d', 'v', 'v', '{{}}', '1', 'x'), ('e', {row}, 'y')")
    capture()
    into = str(tmp_path / "targets")
    compare = ["verify-sync", database.dsn, into, "--table", "t"]
    applied(capture, into)
    assert "t: equal (5 rows" in printed(*compare)
    database.run(
        f"UPDATE t SET (v, raw, tags, doc) = ({row}); UPDATE t SET k = '{UNAVAILABLE}' WHERE k = 'a'; DELETE FROM t WHERE k = 'b'"
    )
    capture()
    applied(capture, into)
    assert "t: equal (4 rows" in printed(*compare)
    database.run(f"UPDATE t SET v = 'w'; UPDATE t SET k = 'a' WHERE k = '{UNAVAILABLE}'")
    capture()
    applied(capture, into)
    assert "t: equal (4 rows" in printed(*compare)
