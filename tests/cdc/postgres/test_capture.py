"""What `penstock capture postgres` makes of the rows and changes of a real server."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import penstock
from penstock.cdc.capture import chunks
from penstock.cdc.postgres import PostgresCapture, event_sender, follower
from penstock.cdc.postgres.stream import ReplicationStream
from penstock.log import TopicLimits
from tests.cdc.postgres.conftest import TOPIC, Capturing, Database
from tests.cdc.postgres.judge import folded
from tests.cdc.postgres.kill_source import PostgresSource

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'so-so');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE "odd ""table"" ü" (
    "a key" bigint PRIMARY KEY, n numeric(40, 10), n2 numeric, r real, d double precision, m money, ok boolean, b bytea, c char(5), v varchar,
    t timestamp, tz timestamptz, date date, time time, timetz timetz, i interval, j json, jb jsonb, u uuid, net inet, bits bit(3),
    range int4range, mood mood, pair pair, positive positive, ints int[], texts text[][], moods mood[], positives positive[], zones timestamptz[],
    twice bigint GENERATED ALWAYS AS ("a key" * 2) STORED
);
"""
ROW = """
    '1234567890123456789012345678.0123456789', 'NaN', 0.1, 'Infinity', 12.5, true, '\\x00ff27', 'ab', E'\\t\\n''"\\\\ 日本',
    '2026-11-22 03:04:05.678901', '2026-11-22 03:04:05.678901+05:30', 'infinity', '24:00:00', '12:00:00+02', '1 year 2 days -3.5 seconds',
    '{"a":  1.0}', '{"a":  1.0}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/8', B'101', '[1,5)', 'so-so', ROW(1, 'x,"y'),
    7, ARRAY[1, NULL, 3], ARRAY[['a b', NULL], ['"', 'NULL']], ARRAY['sad']::mood[], ARRAY[7]::positive[], ARRAY['2026-01-01 00:00+00']::timestamptz[]
"""
EXPECTED: dict[str, Any] = {
    "n": "1234567890123456789012345678.0123456789", "n2": "NaN", "r": 0.1, "d": "Infinity", "m": "$12.50", "ok": True, "b": "AP8n", "c": "ab   ",
    "v": "\t\n'\"\\ 日本", "t": "2026-11-22T03:04:05.678901", "tz": "2026-11-21T21:34:05.678901Z", "date": "infinity", "time": "24:00:00",
    "timetz": "12:00:00+02", "i": "1 year 2 days -00:00:03.5", "j": '{"a":  1.0}', "jb": '{"a": 1.0}', "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "net": "10.0.0.1/8", "bits": "101", "range": "[1,5)", "mood": "so-so", "pair": '(1,"x,""y")', "positive": 7,
    "ints": [1, None, 3], "texts": [["a b", None], ['"', "NULL"]], "moods": ["sad"], "positives": [7], "zones": ["2026-01-01T00:00:00Z"],
}  # fmt: skip


asked = ReplicationStream.confirm


def test_a_row_is_the_same_in_the_snapshot_and_in_the_stream(database: Database, capture: Capturing) -> None:
    database.run(TYPES)
    table = '"odd ""table"" ü"'
    database.run(f"SET lc_monetary = 'C'; INSERT INTO {table} VALUES (1, {ROW}); INSERT INTO {table} VALUES (2)")
    capture()
    database.run(f"INSERT INTO {table} VALUES (3, {ROW}); INSERT INTO {table} VALUES (4)")
    capture()
    values = capture.values()
    nothing = dict.fromkeys(EXPECTED)
    assert [(one["op"], one["after"]) for one in values] == [
        ("r", {"a key": 1, **EXPECTED}),
        ("r", {"a key": 2, **nothing}),
        ("c", {"a key": 3, **EXPECTED}),
        ("c", {"a key": 4, **nothing}),
    ]
    assert {(one["source"]["schema"], one["source"]["table"]) for one in values} == {("public", 'odd "table" ü')}
    assert [one["source"]["snapshot"] for one in values] == ["true", "true", "false", "false"]


def test_changes_are_what_debezium_makes_of_them(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text, big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL")
    database.run("CREATE TABLE f (id int PRIMARY KEY, v text, big text); ALTER TABLE f ALTER big SET STORAGE EXTERNAL")
    database.run("ALTER TABLE f REPLICA IDENTITY FULL")
    capture()
    big = "x" * 3000
    for table in "af":
        database.run(f"INSERT INTO {table} VALUES (1, 'a', repeat('x', 3000))")
        database.run(f"UPDATE {table} SET v = 'b'")
        database.run(f"BEGIN; UPDATE {table} SET id = 2; UPDATE {table} SET v = NULL; COMMIT")
        database.run(f"DELETE FROM {table}")
    database.run("TRUNCATE a, f")
    capture()
    marker = "__debezium_unavailable_value"
    told = [(one["source"]["table"], one["op"], one["before"], one["after"]) for one in capture.values()]
    assert told == [
        ("a", "c", None, {"id": 1, "v": "a", "big": big}),
        ("a", "u", None, {"id": 1, "v": "b", "big": marker}),
        ("a", "d", {"id": 1}, None),
        ("a", "c", None, {"id": 2, "v": "b", "big": marker}),  # it was deleted before it could be read again
        ("a", "u", None, {"id": 2, "v": None, "big": marker}),
        ("a", "d", {"id": 2}, None),
        ("f", "c", None, {"id": 1, "v": "a", "big": big}),
        ("f", "u", {"id": 1, "v": "a", "big": big}, {"id": 1, "v": "b", "big": big}),
        ("f", "d", {"id": 1, "v": "b", "big": big}, None),
        ("f", "c", None, {"id": 2, "v": "b", "big": big}),
        ("f", "u", {"id": 2, "v": "b", "big": big}, {"id": 2, "v": None, "big": big}),
        ("f", "d", {"id": 2, "v": None, "big": big}, None),
        ("a", "t", None, None),
        ("f", "t", None, None),
    ]


def test_a_large_value_moves_along_with_its_key(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, big text, b bytea); ALTER TABLE a ALTER big SET STORAGE EXTERNAL")
    database.run("ALTER TABLE a ALTER b SET STORAGE EXTERNAL")
    database.run("INSERT INTO a VALUES (1, repeat('x', 3000), decode(repeat('ff', 3000), 'hex'))")
    capture()
    database.run("UPDATE a SET id = 2; UPDATE a SET id = 3")
    capture()
    assert folded(capture.events(), batches=1)["public.a"] == {(3,): {"id": 3, "big": "x" * 3000, "b": "/" * 4000}}


def test_what_cannot_be_read_again_is_left_out(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL")
    database.run("CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1, repeat('x', 3000))")
    capture()
    database.run("UPDATE a SET id = 2; ALTER TABLE a DROP big; UPDATE a SET id = 3; INSERT INTO b VALUES (1)")
    capture()
    afters = [one["after"] for one in capture.values()]
    assert afters[1:] == [None, {"id": 2, "big": "__debezium_unavailable_value"}, None, {"id": 3}, {"id": 1}]


def test_run_again_it_goes_on_where_it_ended(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    for number in range(3):
        database.run(f"INSERT INTO a VALUES ({number})")
        capture()
        capture()
    assert [event.op for event in capture.events()] == ["r", "c", "c"]
    assert database.ask("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [1]


def test_a_table_named_later_comes_with_its_rows(database: Database, capture: Capturing) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)"
    )
    capture("--table", "a")
    database.run("INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)")
    capture("--table", "a", "--table", "public.b")
    database.run("INSERT INTO a VALUES (3); INSERT INTO b VALUES (3); DELETE FROM b WHERE id = 1")
    capture()
    events = capture.events()
    assert [event.op for event in events if event.table == "public.a"] == ["r", "c", "c"]
    assert [event.op for event in events if event.table == "public.b"] == ["r", "r", "c", "d"]


@pytest.mark.thorough
@pytest.mark.parametrize("point", ["chunk planned:1", "chunk planned:2", "chunk sent:1", "chunk durable:2"])
def test_a_chunk_is_told_by_what_was_sent_before_changes_are_followed(
    database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The server crashes with the capture, and does not know any more what was confirmed: changes come again, and more before the rows."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 2)
    database.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
    database.run("INSERT INTO b SELECT n FROM generate_series(1, 5) n")
    capture("--table", "a")
    database.run("INSERT INTO a VALUES (2)")
    name, _, times = point.partition(":")
    left = iter(range(int(times) - 1, -1, -1))

    def end(reached: str) -> None:
        if reached == name and not next(left):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=end))
        patch.setattr(ReplicationStream, "confirm", lambda stream, lsn, now_us, *, ask=False: asked(stream, 0, now_us, ask=ask))
        capture("--table", "a")
        capture("--table", "a", "--table", "b", code=1)
    database.run("INSERT INTO a VALUES (3)")
    capture()
    read = [event.group for event in capture.events() if event.table == "public.b"]
    assert sorted(read) == [f"public.b-{key}" for key in range(1, 6)]


def test_without_a_snapshot_only_changes_come(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
    capture("--snapshot", "never")
    database.run("INSERT INTO a VALUES (2)")
    capture()
    assert [event.op for event in capture.events()] == ["c"]


def test_a_lost_slot_is_told_and_a_new_snapshot_makes_it_good(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1), (2)")
    capture()
    database.run("INSERT INTO a VALUES (3)")
    capture()
    database.drop_slot()
    database.run("DELETE FROM a WHERE id = 1; INSERT INTO a VALUES (4)")
    said = capture.error()
    assert said["error"] == "slot_lost"
    assert "changes since it was read last are gone" in said["message"]
    assert "--snapshot again" in said["hint"]
    capture("--snapshot", "again")
    database.run("INSERT INTO a VALUES (5)")
    capture()
    assert [event.op for event in capture.events()] == ["r", "r", "c", "t", "r", "r", "r", "c"]
    assert folded(capture.events(), batches=1)["public.a"].keys() == {(2,), (3,), (4,), (5,)}


@pytest.mark.thorough
@pytest.mark.parametrize("point", ["renewed", "published", "slot created"])
def test_a_snapshot_again_that_ends_on_the_way_is_not_forgotten(
    database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)"
    )
    capture("--table", "a")
    database.drop_slot()
    database.run("INSERT INTO a VALUES (2)")

    def end(reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=end))
        capture("--snapshot", "again", "--table", "a", "--table", "b", code=1)
    capture()
    tables = folded(capture.events(), batches=1)
    assert tables["public.a"].keys() == {(1,), (2,)}
    assert set(tables) == ({"public.a"} if point == "renewed" else {"public.a", "public.b"})


def test_a_capture_that_ends_at_each_of_its_points_goes_on(
    database: Database, capture: Capturing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exception. `test_kills` kills processes at the same points, beneath writers that never rest."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", 2)
    monkeypatch.setattr(event_sender, "BATCH_EVENTS_MAX", 3)
    monkeypatch.setattr(follower, "_CONFIRM_S", 0.0)
    database.run("CREATE TABLE a (id int PRIMARY KEY, v int); INSERT INTO a SELECT n, 0 FROM generate_series(1, 9) n")

    def end_at(point: str, reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    points = [point.partition(":")[0] for point in (*PostgresSource.begins_at, *PostgresSource.points)]
    for number, point in enumerate(points):
        with monkeypatch.context() as patch:
            patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=partial(end_at, point)))
            capture(code=1)
        database.run(
            f"UPDATE a SET v = v + 1 WHERE id > 5; INSERT INTO a VALUES ({100 + number}, 0); DELETE FROM a WHERE id = {4 + number}"
        )
    capture()
    events = capture.events()
    assert len({event.position for event in events}) == len(events)
    reads = [event.group for event in events if event.op == "r"]
    assert len(set(reads)) == len(reads) > 5
    for group in {event.group for event in events}:
        positions = [event.position for event in sorted(events, key=lambda event: event.offset) if event.group == group]
        assert positions == sorted(positions)
    rows = database.connection.execute("SELECT id, v FROM a").fetchall()
    assert folded(events, batches=1)["public.a"] == {(key,): {"id": key, "v": value} for key, value in rows}
    told = [event.op for event in events if event.transaction is not None]
    assert told.count("c") >= len(points) - 2, "changes that came while the snapshot was read are there, too"


def test_a_snapshot_again_empties_tables_that_have_no_rows_any_more(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
    capture()
    database.drop_slot()
    database.run("DELETE FROM a")
    capture("--snapshot", "again")
    assert folded(capture.events(), batches=1)["public.a"] == {}


def test_columns_that_come_and_go_show_in_the_next_event(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text)")
    capture()
    database.run("INSERT INTO a VALUES (1, 'x'); ALTER TABLE a ADD n numeric; INSERT INTO a VALUES (2, 'y', 1.50)")
    database.run("ALTER TABLE a DROP v; INSERT INTO a VALUES (3, 1.50)")
    capture()
    assert [one["after"] for one in capture.values()] == [
        {"id": 1, "v": "x"},
        {"id": 2, "v": "y", "n": "1.50"},
        {"id": 3, "n": "1.50"},
    ]


def test_a_partitioned_table_is_one_table(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    database.run(
        "CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10); CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)"
    )
    database.run("INSERT INTO a VALUES (1), (11)")
    capture()
    database.run("INSERT INTO a VALUES (2), (12); UPDATE a SET id = 13 WHERE id = 2")
    capture()
    assert {event.table for event in capture.events()} == {"public.a"}
    assert folded(capture.events(), batches=1)["public.a"].keys() == {(1,), (11,), (12,), (13,)}


def test_a_publication_s_rows_and_columns_are_those_of_the_snapshot_too(database: Database, capture: Capturing) -> None:
    if database.connection.info.server_version < 150000:
        pytest.skip("publications have no rows and columns before PostgreSQL 15")
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text, secret text); INSERT INTO a VALUES (1, 'x', 's'), (-1, 'x', 's')")
    database.run("CREATE PUBLICATION mine FOR TABLE a (id, v) WHERE (id > 0)")
    capture("--publication", "mine")
    database.run("INSERT INTO a VALUES (2, 'y', 's'), (-2, 'y', 's')")
    capture("--publication", "mine")
    assert [one["after"] for one in capture.values()] == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]


def test_a_replica_identity_index_is_the_key(database: Database, capture: Capturing) -> None:
    database.run(
        "CREATE TABLE a (x int NOT NULL, y text NOT NULL, z int); CREATE UNIQUE INDEX i ON a (y, x); ALTER TABLE a REPLICA IDENTITY USING INDEX i"
    )
    database.run("INSERT INTO a VALUES (1, 'a', 1), (2, 'a', 1)")
    capture()
    database.run("UPDATE a SET z = 2 WHERE x = 1; DELETE FROM a WHERE x = 2")
    capture()
    events = capture.events()
    assert [(event.op, event.group) for event in events] == [
        ("r", "public.a-1-a"), ("r", "public.a-2-a"), ("u", "public.a-1-a"), ("d", "public.a-2-a")
    ]  # fmt: skip


def test_keys_that_are_no_names_have_groups_all_the_same(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (k text PRIMARY KEY, v int)")
    database.run(r"INSERT INTO a VALUES (repeat('ü', 500), 1), (E'\n\t', 1), ('', 1), ('|', 1)")
    capture()
    database.run("UPDATE a SET v = 2")
    capture()
    groups = [event.group for event in capture.events()]
    assert sorted(groups[:4]) == sorted(groups[4:])
    assert len(set(groups)) == 4
    assert all(len(group.encode()) <= 63 for group in groups)


def test_a_row_above_the_topic_s_limit_is_named(database: Database, capture: Capturing) -> None:
    with penstock.connect(capture.lake) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", limits=TopicLimits(max_body_bytes=4096))
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a VALUES (1, 'x'), (2, repeat('x', 5000))")
    assert capture.error()["object"] == 'public.a, key {"id":2}'
    database.run("DELETE FROM a WHERE id = 2")
    capture()
    database.run("INSERT INTO a VALUES (3, repeat('x', 5000))")
    assert capture.error()["object"] == 'public.a, key {"id":3}'
