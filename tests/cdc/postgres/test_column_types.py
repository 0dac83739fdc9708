"""A capture sends the types of its tables' columns, and targets have them from the first batch: on a real server, with nothing declared."""

from __future__ import annotations

import json
import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock import SyncOptions, SyncRun, TableOptions, sync
from penstock.cdc.events.table_types import TableTypes, types_key
from penstock.cdc.postgres import PostgresCapture
from penstock.cdc.sync.targets import source_types
from penstock.log.errors import PermissionDenied
from penstock.log.stores import ObjectStore
from tests.cdc.postgres.conftest import TOPIC, Capturing, Database
from tests.cdc.sync.streams import rows
from tests.runner import printed

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

THINGS = """
CREATE TYPE mood AS ENUM ('sad', 'so-so'); CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN cents AS numeric(12, 2); CREATE DOMAIN small_cents AS cents CHECK (value < 10);
CREATE TABLE things (id bigint PRIMARY KEY, small smallint, n int, o oid, r real, f double precision, yes boolean, amount numeric(12, 2),
    whole numeric(5), free numeric, huge numeric(50, 2), tiny numeric(2, 4), paid small_cents, raw bytea, day date, made timestamp,
    at timestamptz, m money, t time, tz timetz, i interval, j json, jb jsonb, u uuid, net inet, bits bit(3), range int4range, mood mood,
    pair pair, ints int[], prices numeric(12, 2)[],
    moments timestamptz[], words text[], moods mood[], c char(5), v varchar(9), note text, nothing date)
"""
ROW = """-1, 70000, 4294967295, 0.1, 'NaN', true, 12.50, 99999, '1e40', 1, 0.0012, 3.25, '\\x00ff', '0099-12-31',
    '2026-11-22 03:04:05.5', '2026-11-22 03:04:05.678901+05:30', 12.5, '24:00:00', '12:00:00+02', '1 year', '{"a":  1.0}', '{"a":  1.0}',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/8', B'101', '[1,5)', 'so-so', ROW(1, 'x'), ARRAY[1, NULL], '{1.5,NULL}',
    '{"2026-11-22 03:04:05+00"}', '{"a b",NULL,""}', '{sad}', 'ab', 'v', 'ß', NULL"""
TYPES = {
    "id": "int64", "small": "int16", "n": "int32", "o": "int64", "r": "float", "f": "double", "yes": "bool", "amount": "decimal128(12, 2)",
    "whole": "decimal128(5, 0)", "free": "string", "huge": "string", "tiny": "string", "paid": "decimal128(12, 2)", "raw": "binary",
    "day": "date32[day]", "made": "timestamp[us]", "at": "timestamp[us, tz=UTC]",
    **dict.fromkeys(("m", "t", "tz", "i", "j", "jb", "u", "net", "bits", "range", "mood", "pair", "c", "v", "note"), "string"),
    "ints": "list<element: int32>", "prices": "list<element: decimal128(12, 2)>", "moments": "list<element: timestamp[us, tz=UTC]>",
    "words": "list<element: string>", "moods": "list<element: string>",
    "nothing": "date32[day]",
}  # fmt: skip
VALUES: dict[str, Any] = {
    "small": -1, "n": 70000, "o": 4294967295, "yes": True, "amount": Decimal("12.50"), "whole": Decimal(99999), "free": "1" + "0" * 40,
    "huge": "1.00", "tiny": "0.0012", "paid": Decimal("3.25"), "raw": b"\x00\xff", "day": date(99, 12, 31),
    "made": datetime(2026, 11, 22, 3, 4, 5, 500_000), "at": datetime(2026, 11, 21, 21, 34, 5, 678901, UTC),  # noqa: DTZ001 - no zone
    "ints": [1, None], "prices": [Decimal("1.50"), None], "moments": [datetime(2026, 11, 22, 3, 4, 5, tzinfo=UTC)],
    "words": ["a b", None, ""], "moods": ["sad"], "nothing": None,
}  # fmt: skip


async def forbidden(store: ObjectStore, topic: str, name: str) -> TableTypes:
    raise PermissionDenied("the store refuses it", operation="read", object=types_key(topic, name))


def types(target: Path) -> dict[str, str]:
    said = {field.name: str(field.type) for field in pa.schema(DeltaTable(str(target)).schema().to_arrow())}
    return {name: type_.removesuffix("_view") for name, type_ in said.items() if not name.startswith("__")}


def applied(capture: Capturing, into: Path, **options: Any) -> SyncRun:
    run = sync(capture.lake, TOPIC, SyncOptions(into=into, **options))
    assert run.await_termination()
    return run


def kept(capture: Capturing) -> list[Path]:
    return sorted(Path(capture.lake, "captures", TOPIC, "types").glob("*"))


def named(capture: Capturing) -> list[str]:
    return [value["source"]["types"] for value in capture.values()]


def test_targets_have_the_source_s_types_from_the_first_batch(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run(f"{THINGS}; INSERT INTO things VALUES (1, {ROW})")
    capture()
    database.run(f"INSERT INTO things VALUES (2, {ROW}); INSERT INTO things VALUES (3)")
    capture()
    into = tmp_path / "targets"
    assert not applied(capture, into).stopped
    assert types(into / "things") == TYPES
    first, second, third = sorted(rows(into / "things"), key=lambda row: row["id"])
    assert str(first.pop("f")) == str(second.pop("f")) == "nan"
    assert VALUES.items() <= first.items()
    assert {**first, "id": 2} == second
    assert {name for name, value in third.items() if value is not None} == {"id"}
    assert "things: equal (3 rows" in printed("verify-sync", database.dsn, str(into), "--table", "things")


def test_types_are_kept_once_for_each_form_of_a_table(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, n numeric(5, 1)); INSERT INTO a VALUES (1, 1.5)")
    capture()
    database.run("INSERT INTO a VALUES (2, 2.5); UPDATE a SET n = 3; DELETE FROM a WHERE id = 1; TRUNCATE a")
    capture()
    database.run("INSERT INTO a VALUES (3, 0)")
    capture()
    (one,) = kept(capture)
    assert set(named(capture)) == {one.name}
    assert json.loads(one.read_bytes()) == {
        "format": 1,
        "schema": "public",
        "table": "a",
        "columns": {"id": "int", "n": "decimal(5,1)"},
    }
    database.run("ALTER TABLE a ALTER n TYPE numeric(7, 2); INSERT INTO a VALUES (4, 0); ALTER TABLE a ALTER n TYPE numeric(5, 1)")
    database.run("INSERT INTO a VALUES (5, 0)")
    capture()
    names = named(capture)
    assert len(kept(capture)) == len(set(names)) == 2
    assert names[-1] == one.name


def test_events_have_the_types_of_their_own_time(database: Database, capture: Capturing, tmp_path: Path) -> None:
    """Not those of the time at which the capture reads them: a table may have changed again by then."""
    database.run("CREATE TABLE a (id int PRIMARY KEY, gone date, old int)")
    capture()
    database.run("INSERT INTO a VALUES (1, '2026-11-22', 1); ALTER TABLE a RENAME old TO new; INSERT INTO a VALUES (2, NULL, 2)")
    database.run("ALTER TABLE a DROP gone; ALTER TABLE a ADD more bytea; INSERT INTO a VALUES (3, 3)")
    database.run("ALTER TABLE a ALTER new TYPE bigint; INSERT INTO a VALUES (4, 4000000000, 'x'); ALTER TABLE a DROP new")
    capture()
    into = tmp_path / "targets"
    assert not applied(capture, into).stopped
    assert types(into / "a") == {"id": "int32", "gone": "date32[day]", "old": "int32", "new": "int64", "more": "binary"}
    assert sorted(rows(into / "a"), key=lambda row: row["id"]) == [
        {"id": 1, "gone": date(2026, 11, 22), "old": 1, "new": None, "more": None},
        {"id": 2, "gone": None, "old": None, "new": 2, "more": None},
        {"id": 3, "gone": None, "old": None, "new": 3, "more": None},
        {"id": 4, "gone": None, "old": None, "new": 4_000_000_000, "more": b"x"},
    ]


def test_columns_that_come_later_have_their_types_too(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
    capture()
    applied(capture, tmp_path / "targets")
    database.run(
        "ALTER TABLE a ADD n numeric(4, 2); UPDATE a SET id = 2; ALTER TABLE a ADD day date; INSERT INTO a VALUES (3, 1.5)"
    )
    capture()
    applied(capture, tmp_path / "targets")
    assert types(tmp_path / "targets" / "a") == {"id": "int32", "n": "decimal128(4, 2)", "day": "date32[day]"}


def test_tables_of_one_name_have_types_of_their_own(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE SCHEMA old; CREATE TABLE a (id int PRIMARY KEY, v date); CREATE TABLE old.a (id int PRIMARY KEY, v bytea)")
    database.run("INSERT INTO a VALUES (1, '2026-11-22'); INSERT INTO old.a VALUES (1, 'x')")
    capture()
    applied(capture, tmp_path)
    found = sorted(str(types(folder)["v"]) for folder in tmp_path.glob("*a") if folder.name != "lake")
    assert found == ["binary", "date32[day]"]


def test_a_declared_type_goes_first(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, n numeric(5, 2), at timestamptz)")
    database.run("INSERT INTO a VALUES (1, 1.5, 'infinity')")
    capture()
    columns = {"a": {"id": "bigint", "n": "decimal(10,4)", "at": "string"}}
    assert not applied(capture, tmp_path / "targets", columns=columns).stopped
    assert rows(tmp_path / "targets" / "a") == [{"id": 1, "n": Decimal("1.5000"), "at": "infinity"}]


def test_types_are_there_before_the_events_that_name_them(
    database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")

    def end(reached: str) -> None:
        if reached in ("chunk sent", "batch sent"):
            assert {path.name for path in kept(capture)} >= set(named(capture))
            assert kept(capture)
            raise KeyboardInterrupt

    for change in ("ALTER TABLE a ADD v date; INSERT INTO a VALUES (2, NULL)", "SELECT"):
        with monkeypatch.context() as patch:
            patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=end))
            capture(code=1)
        capture()
        database.run(change)
    assert {path.name for path in kept(capture)} == set(named(capture))


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["gone", "damaged", "another's", "newer", "forbidden"])
def test_without_its_types_a_target_has_those_of_json_and_the_log_says_so_once(
    database: Database,
    capture: Capturing,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, n numeric(5, 2)); INSERT INTO a VALUES (1, 1.5)")
    database.run("CREATE TABLE b (id int PRIMARY KEY, n numeric(5, 2)); INSERT INTO b VALUES (1, 1.5)")
    capture()
    first, second = kept(capture)
    others = {first: second.read_bytes(), second: first.read_bytes()}
    for path, other in others.items():
        match how:
            case "gone":
                path.unlink()
            case "damaged":
                path.write_bytes(b"{")
            case "forbidden":
                monkeypatch.setattr(source_types, "read_types", forbidden)
            case "newer":
                path.write_bytes(b'{"format": 2}')
            case _:
                path.write_bytes(other)
    with caplog.at_level(logging.WARNING, "penstock.cdc"):
        assert not applied(capture, tmp_path / "targets").stopped
    assert types(tmp_path / "targets" / "a") == types(tmp_path / "targets" / "b") == {"id": "int64", "n": "string"}
    (said,) = [one.getMessage() for one in caplog.records if "types of their columns" in one.getMessage()]
    assert f"captures/{TOPIC}/types/" in said


def test_a_masked_column_has_no_longer_the_source_s_type(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, n numeric(5, 2), day date, gone bytea)")
    database.run("INSERT INTO a VALUES (1, 1.5, '2026-11-22', 'x')")
    capture()
    options = {"*.a": TableOptions(masks={"n": "sha256", "day": "null"}, without_columns=["gone"])}
    assert not applied(capture, tmp_path / "targets", table_options=options).stopped
    assert types(tmp_path / "targets" / "a") == {"id": "int32", "n": "string", "day": "date32[day]"}


def test_a_source_that_becomes_wider_goes_on_after_the_line_that_its_table_says(
    database: Database, capture: Capturing, tmp_path: Path
) -> None:
    into = tmp_path / "targets"
    database.run("CREATE TABLE a (id int PRIMARY KEY, n int, v varchar(3), m numeric(5, 2), at date)")
    database.run("INSERT INTO a VALUES (1, 1, 'abc', 1.50, '2026-11-22')")
    capture()
    applied(capture, into)
    database.run("ALTER TABLE a ALTER id TYPE bigint, ALTER n TYPE bigint, ALTER v TYPE text, ALTER m TYPE numeric(7, 3)")
    database.run("INSERT INTO a VALUES (2, 5, 'abcdef', 2.5, NULL)")
    capture()
    assert not applied(capture, into).stopped, "what fits is applied"
    database.run(
        "ALTER TABLE a ALTER at TYPE timestamp; INSERT INTO a VALUES (3000000000, 5000000000, 'x', 1234.125, '2026-11-22 03:04:05')"
    )
    capture()
    (stops,) = applied(capture, into).stopped.values()
    (stop,) = (stop for stop in stops if "does not fit int" in stop.reason)
    assert "does not fit int. The source's column calls for bigint, the target's has int: penstock sync" in stop.reason
    printed(*stop.reason.rpartition(": penstock ")[2].split(), "--lake", capture.lake, "--yes")
    assert not applied(capture, into).stopped
    assert types(into / "a") == {"id": "int64", "n": "int64", "v": "string", "m": "decimal128(7, 3)", "at": "timestamp[us]"}
    assert "a: equal (3 rows" in printed("verify-sync", database.dsn, str(into), "--table", "a")


@pytest.mark.thorough
def test_a_target_of_an_older_release_keeps_its_text_until_it_is_asked_for(
    database: Database, capture: Capturing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "targets"
    database.run(f"{THINGS}; INSERT INTO things VALUES (1, {ROW})")
    with monkeypatch.context() as older:
        older.setattr(
            "penstock.cdc.postgres.PostgresCapture", lambda *args, types, **more: PostgresCapture(*args, types=None, **more)
        )
        capture()
    applied(capture, into)
    database.run(f"INSERT INTO things VALUES (2, {ROW}); ALTER TABLE things ADD more numeric(4, 2)")
    database.run("UPDATE things SET more = 1.5")
    capture()
    assert not applied(capture, into).stopped
    before = types(into / "things")
    assert (before["amount"], before["at"], before["more"]) == ("string", "string", "decimal128(4, 2)"), "only what is new"
    printed("sync", TOPIC, "--lake", capture.lake, "--into", str(into), "--retype", "--yes")
    found = types(into / "things")
    assert found == {**TYPES, "small": "int64", "n": "int64", "r": "double", "more": "decimal128(4, 2)"}, "what holds all stays"
    database.run(f"INSERT INTO things VALUES (3, {ROW})")
    capture()
    assert not applied(capture, into).stopped
    assert "things: equal (3 rows" in printed("verify-sync", database.dsn, str(into), "--table", "things")


def test_an_array_of_more_dimensions_than_its_column_says_stops_its_table_and_is_told(
    database: Database, capture: Capturing, tmp_path: Path
) -> None:
    """PostgreSQL does not tell how many dimensions a column's values have, and lets each have another number."""
    into = tmp_path / "targets"
    database.run("CREATE TABLE grids (id int PRIMARY KEY, cells int[]); INSERT INTO grids VALUES (1, '{1}'), (2, '{{1,2},{3,4}}')")
    capture()
    ((stop,),) = applied(capture, into).stopped.values()
    assert "column cells: [[1,2],[3,4]] does not fit array<int>: element 1: [1,2] does not fit int" in stop.reason
    line = stop.reason.partition("has not: penstock ")[2].partition(";")[0]
    printed(*line.split(), "--lake", capture.lake, "--yes")
    assert not applied(capture, into).stopped
    assert rows(into / "grids") == [{"id": 1, "cells": "[1]"}, {"id": 2, "cells": "[[1,2],[3,4]]"}]


def test_an_array_of_a_key_is_text(database: Database, capture: Capturing, tmp_path: Path) -> None:
    into = tmp_path / "targets"
    database.run(
        "CREATE TABLE paths (steps int[] PRIMARY KEY, lengths int[]); INSERT INTO paths VALUES ('{1,2}', '{3}'), ('{}', NULL)"
    )
    capture()
    database.run("UPDATE paths SET lengths = '{4,NULL}' WHERE steps = '{1,2}'; DELETE FROM paths WHERE steps = '{}'")
    capture()
    assert not applied(capture, into).stopped
    assert rows(into / "paths") == [{"steps": "[1,2]", "lengths": [4, None]}]
    retype = ("sync", TOPIC, "--lake", capture.lake, "--into", str(into), "--retype", "--yes")
    printed(*retype)
    assert rows(into / "paths") == [{"steps": "[1,2]", "lengths": [4, None]}]
    assert "a key's column cannot be an array" in printed(*retype, "--column", "paths.steps=array<int>", code=1)


def test_a_time_that_no_column_holds_stops_its_table_and_is_told(database: Database, capture: Capturing, tmp_path: Path) -> None:
    into = tmp_path / "targets"
    database.run("CREATE TABLE contracts (id int PRIMARY KEY, ends timestamptz); INSERT INTO contracts VALUES (1, 'infinity')")
    capture()
    ((stop,),) = applied(capture, into).stopped.values()
    assert "column ends: 'infinity' does not fit timestamp" in stop.reason
    assert "or start the sync with --unfit-times null, which makes such times NULL" in stop.reason
    line = stop.reason.partition("has not: penstock ")[2].partition(";")[0]
    printed(*line.split(), "--lake", capture.lake, "--yes")
    assert not applied(capture, into).stopped
    assert rows(into / "contracts") == [{"id": 1, "ends": "infinity"}]
    other = tmp_path / "other"
    assert not applied(capture, other, name="other", unfit_times="null").stopped
    assert rows(other / "contracts") == [{"id": 1, "ends": None}]
