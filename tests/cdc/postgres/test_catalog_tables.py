"""Tables that are dropped, renamed, made again, published and partitioned anew, while a capture runs and while it is down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.events.stop_message import stop_reason
from penstock.cdc.postgres import PostgresCapture
from tests.cdc.postgres.conftest import TOPIC, Capturing, Database
from tests.cdc.postgres.judge import folded

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

MADE = "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); CREATE TABLE u (id int PRIMARY KEY, v text)"
OTHER = "CREATE TABLE u (id int PRIMARY KEY, v text);"
PARTITIONED = """
CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (11, 'c'), (12, 'd');
"""
PARTS = f"{PARTITIONED} {OTHER}"
ATTACHED = (
    "CREATE TABLE t3 (id int PRIMARY KEY, v text);;INSERT INTO t3 VALUES (21, 'f'), (22, 'g');;"
    "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (20) TO (30);;UPDATE t SET v = 'x' WHERE id = 22"
)
UP, DOWN = "while it runs", "while it is down"
when = pytest.mark.parametrize("when", [UP, pytest.param(DOWN, marks=pytest.mark.thorough)])


def changed(when: str, capture: Capturing, statements: str, *options: str) -> None:
    """Run these amid a capture, or before one, and another one behind it. The other table's changes show that it goes on."""
    done = list[str]()

    def reached(point: str) -> None:
        if point == "snapshot done" and not done:
            done.append(point)
            for statement in statements.split(";;"):
                capture.database.run(statement)

    before = len(capture.database.ask("SELECT id FROM u"))
    if when == DOWN:
        reached("snapshot done")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=reached))
        capture(*options)
    capture.database.run(f"INSERT INTO u VALUES ({before}, 'later')")
    capture(*options)
    assert len(tables(capture)["public.u"]) == before + 1


def beside(database: Database, made: str, changes: Sequence[str]) -> str:
    """Make tables in a schema for each of these changes, which one capture then sees all. The statements that change them."""
    public = "SET search_path = public"
    for number in range(len(changes)):
        database.run(f"CREATE SCHEMA s{number}; SET search_path = s{number}; {made}; {public}")
    database.run(OTHER)
    return ";;".join(f"SET search_path = s{number};;{change};;{public}" for number, change in enumerate(changes))


def tables(capture: Capturing) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    return folded([event for event in capture.events() if event.op != "m"], batches=1)


def source(database: Database, table: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    cursor = database.connection.execute(f"SELECT * FROM {table}".encode())
    names = [column.name for column in cursor.description or ()]
    return {row[:1]: dict(zip(names, row, strict=True)) for row in cursor}


def stopped(capture: Capturing) -> dict[str, str]:
    """The tables that stand still, as the newest events say."""
    found = dict[str, str]()
    for event in capture.events():
        if (reason := stop_reason(json.loads(event.body))) is not None:
            found[event.table] = reason
        elif event.op == "t":
            found.pop(event.table, None)
    return found


@when
def test_a_table_that_is_made_again_is_read_again(database: Database, capture: Capturing, when: str) -> None:
    database.run(MADE)
    capture("--table", "t", "--table", "u")
    again = "UPDATE t SET v = 'x' WHERE id = 1;;DROP TABLE t;;CREATE TABLE t (id int PRIMARY KEY, v text);;INSERT INTO t VALUES (2, 'z'), (9, 'n')"
    changed(when, capture, again, "--table", "t", "--table", "u")
    database.run("UPDATE t SET v = 'w' WHERE id = 9")
    capture("--table", "t", "--table", "u")
    assert tables(capture)["public.t"] == source(database, "t") == {(2,): {"id": 2, "v": "z"}, (9,): {"id": 9, "v": "w"}}
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
def test_another_table_by_the_name_of_one_that_was_renamed(database: Database, capture: Capturing, when: str) -> None:
    database.run(MADE)
    capture("--table", "t", "--table", "u")
    renamed = "ALTER TABLE t RENAME TO old;;CREATE TABLE t (id int PRIMARY KEY, v text);;INSERT INTO t VALUES (7, 'n');;UPDATE old SET v = 'o'"
    changed(when, capture, renamed, "--table", "t", "--table", "u")
    database.run("INSERT INTO t VALUES (8, 'm'); DELETE FROM old WHERE id = 2")
    capture("--table", "t", "--table", "u")
    for table in ("t", "old"):
        assert tables(capture)[f"public.{table}"] == source(database, table)
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
@pytest.mark.parametrize("move", ["ALTER TABLE t RENAME TO n", "CREATE SCHEMA s;;ALTER TABLE t SET SCHEMA s"])
@pytest.mark.parametrize("change", [pytest.param("", marks=pytest.mark.thorough), ";;UPDATE {} SET v = 'x' WHERE id = 1"])
def test_a_table_that_is_renamed_is_another_one(database: Database, capture: Capturing, when: str, move: str, change: str) -> None:
    database.run(MADE)
    capture()
    table = "s.t" if "SCHEMA" in move else "public.n"
    changed(when, capture, move + change.format(table))
    assert tables(capture)[table] == source(database, table)
    assert stopped(capture) == {"public.t": f"the table was renamed to {table}"}


@when
def test_a_schema_that_is_renamed_has_other_tables(database: Database, capture: Capturing, when: str) -> None:
    database.run("CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY, v text); INSERT INTO s.t VALUES (1, 'a'), (2, 'b')")
    database.run("CREATE TABLE u (id int PRIMARY KEY, v text)")
    capture()
    changed(when, capture, "UPDATE s.t SET v = 'w' WHERE id = 2;;ALTER SCHEMA s RENAME TO n;;UPDATE n.t SET v = 'x' WHERE id = 1")
    assert tables(capture)["n.t"] == source(database, "n.t")
    assert stopped(capture) == {"s.t": "the table was renamed to n.t"}


@when
def test_a_table_that_is_dropped_stands_still(database: Database, capture: Capturing, when: str) -> None:
    database.run(MADE)
    capture()
    changed(when, capture, "INSERT INTO t VALUES (4, 'd');;DROP TABLE t")
    assert "dropped" in stopped(capture)["public.t"]
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (5, 'n')")
    capture("--table", "t", "--table", "u")
    assert tables(capture)["public.t"] == source(database, "t")
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
def test_a_table_that_leaves_the_publication_stands_still_until_it_comes_back(
    database: Database, capture: Capturing, when: str
) -> None:
    database.run(MADE)
    capture()
    out, back = "ALTER PUBLICATION penstock DROP TABLE t;;UPDATE t SET v = 'x' WHERE id = 1;;DELETE FROM t WHERE id = 2", ""
    changed(when, capture, out)
    reason = stopped(capture)["public.t"]
    back = reason.partition(": ")[2].partition(", or")[0]
    assert back.startswith("ALTER PUBLICATION")
    changed(when, capture, f"{back};;INSERT INTO t VALUES (6, 'n')")
    assert tables(capture)["public.t"] == source(database, "t")
    changed(when, capture, f"{out};;DELETE FROM t WHERE id = 3;;{back}")
    assert tables(capture)["public.t"] == source(database, "t")
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_key_that_goes_and_comes_back(database: Database, capture: Capturing, when: str, identity: str) -> None:
    database.run(f"{MADE}; ALTER TABLE t REPLICA IDENTITY {identity}")
    capture()
    migration = (
        "ALTER TABLE t DROP CONSTRAINT t_pkey;;INSERT INTO t VALUES (4, 'd'), (1, 'double');;DELETE FROM t WHERE v = 'a';;"
        "ALTER TABLE t ADD PRIMARY KEY (id);;UPDATE t SET v = 'y' WHERE id = 2"
    )
    if identity == "DEFAULT":  # else the server refuses to delete
        migration = migration.replace(", (1, 'double');;DELETE FROM t WHERE v = 'a'", "")
    changed(when, capture, migration)
    assert tables(capture)["public.t"] == source(database, "t")
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
def test_a_key_that_goes_for_good(database: Database, capture: Capturing, when: str) -> None:
    database.run(MADE)
    capture()
    changed(when, capture, "ALTER TABLE t DROP CONSTRAINT t_pkey;;INSERT INTO t VALUES (1, 'double')")
    assert "no key" in stopped(capture)["public.t"]
    changed(when, capture, "INSERT INTO t VALUES (8, 'e')")
    database.run("ALTER TABLE t REPLICA IDENTITY FULL; DELETE FROM t WHERE v = 'double'; ALTER TABLE t ADD PRIMARY KEY (id)")
    capture()
    assert tables(capture)["public.t"] == source(database, "t")
    assert stopped(capture) == {}


@when
@pytest.mark.parametrize("identity", ["DEFAULT", pytest.param("FULL", marks=pytest.mark.thorough)])
def test_a_key_of_another_column_by_the_same_name(database: Database, capture: Capturing, when: str, identity: str) -> None:
    database.run(f"{MADE}; UPDATE t SET id = id + 100; ALTER TABLE t REPLICA IDENTITY {identity}")
    capture()
    migration = (
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER id DROP NOT NULL, ADD new serial;;ALTER TABLE t RENAME id TO old;;"
        "ALTER TABLE t RENAME new TO id;;ALTER TABLE t ADD PRIMARY KEY (id);;UPDATE t SET v = 'x' WHERE id = 2"
    )
    changed(when, capture, migration)
    found = tables(capture)["public.t"]
    assert {key: (row["old"], row["v"]) for key, row in found.items()} == {(1,): (101, "a"), (2,): (102, "x"), (3,): (103, "c")}


def once(capture: Capturing, statements: str) -> None:
    """Run these amid a capture, which has to notice by itself."""
    looks = list[str]()

    def reached(point: str) -> None:
        if point == "snapshot done":
            looks.append(point)
            assert len(looks) < 10, "it looks at the tables again and again"
            capture.database.run(statements if len(looks) == 1 else "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=reached))
        capture()


def test_an_identity_that_is_taken_away_and_given_back(database: Database, capture: Capturing) -> None:
    database.run(MADE)
    capture()
    once(capture, "ALTER TABLE t REPLICA IDENTITY NOTHING; INSERT INTO t VALUES (4, 'd')")
    assert "REPLICA IDENTITY NOTHING" in stopped(capture)["public.t"]
    once(capture, "ALTER TABLE t REPLICA IDENTITY DEFAULT; INSERT INTO t VALUES (5, 'e')")
    assert stopped(capture) == {}
    assert tables(capture)["public.t"] == source(database, "t")


def test_a_table_that_is_made_again_and_cannot_be_captured(database: Database, capture: Capturing) -> None:
    database.run(f"{MADE}; CREATE PUBLICATION penstock FOR ALL TABLES")
    capture()
    once(
        capture, "DROP TABLE t; CREATE TABLE t (v int, id int GENERATED ALWAYS AS (v) STORED PRIMARY KEY); INSERT INTO t VALUES (1)"
    )
    assert "generated column" in stopped(capture)["public.t"]
    once(capture, "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (6)")
    assert stopped(capture) == {}
    assert tables(capture)["public.t"] == source(database, "t")


@when
def test_what_comes_after_a_change_does_not_explain_it(database: Database, capture: Capturing, when: str) -> None:
    after = ["DROP TABLE t", "ALTER TABLE t RENAME TO n", "ALTER TABLE t RENAME id TO nr", "ALTER TABLE t REPLICA IDENTITY DEFAULT"]
    made = f"{MADE.rpartition(';')[0]}; ALTER TABLE t REPLICA IDENTITY FULL"
    changes = beside(database, made, [f"UPDATE t SET v = 'x' WHERE id = 1;;INSERT INTO t VALUES (4, 'd');;{one}" for one in after])
    capture()
    changed(when, capture, changes)
    assert "dropped" in stopped(capture)["s0.t"]
    assert tables(capture)["s1.n"] == source(database, "s1.n")
    events = [event for event in capture.events() if event.table == "s2.t"]
    emptied = max(place for place, event in enumerate(events) if event.op == "t")
    assert [json.loads(event.body)["value"]["after"]["nr"] for event in events[emptied + 1 :]] == [1, 2, 3, 4]
    assert tables(capture)["s3.t"] == source(database, "s3.t")


@pytest.mark.thorough
@when
def test_partitions_that_come_and_go(database: Database, capture: Capturing, when: str) -> None:
    changes = [
        "TRUNCATE t1",
        "DROP TABLE t1",
        "ALTER TABLE t DETACH PARTITION t1;;UPDATE t1 SET v = 'x'",
        ATTACHED,
        "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (20) TO (30);;INSERT INTO t VALUES (21, 'f')",
        "TRUNCATE t;;INSERT INTO t VALUES (13, 'e')",
        "ALTER TABLE t DETACH PARTITION t1;;UPDATE t1 SET v = 'x';;ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (10)",
    ]
    statements = beside(database, PARTITIONED, [f"INSERT INTO t VALUES (3, 'z');;{change}" for change in changes])
    capture()
    changed(when, capture, statements)
    found = tables(capture)
    for number, change in enumerate(changes):
        assert found[f"s{number}.t"] == source(database, f"s{number}.t"), change
    assert stopped(capture) == {}


@pytest.mark.thorough
@when
def test_tables_of_a_publication_for_all_tables(database: Database, capture: Capturing, when: str) -> None:
    database.run(f"{MADE}; CREATE PUBLICATION penstock FOR ALL TABLES WITH (publish_via_partition_root = true)")
    capture()
    changed(
        when,
        capture,
        "CREATE TABLE n (id int PRIMARY KEY, v text);;INSERT INTO n VALUES (1, 'a');;CREATE TABLE keyless (v text);;INSERT INTO keyless VALUES ('a')",
    )
    assert tables(capture)["public.n"] == source(database, "n")
    assert "no key" in stopped(capture)["public.keyless"]
    database.run("INSERT INTO keyless VALUES ('b'); ALTER TABLE keyless ADD id serial PRIMARY KEY")
    capture()
    assert tables(capture)["public.keyless"].keys() == {(1,), (2,)}
    assert stopped(capture) == {}


@pytest.mark.thorough
def test_a_key_that_becomes_deferrable_may_be_double_within_a_transaction(database: Database, capture: Capturing) -> None:
    database.run(f"{MADE}; ALTER TABLE t REPLICA IDENTITY FULL")
    capture()
    deferrable = "ALTER TABLE t DROP CONSTRAINT t_pkey;;ALTER TABLE t ADD PRIMARY KEY (id) DEFERRABLE;;UPDATE t SET id = id + 1"
    changed(UP, capture, deferrable)
    assert "deferrable" in stopped(capture)["public.t"]
    database.run("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id)")
    capture()
    assert tables(capture)["public.t"] == source(database, "t")
    assert stopped(capture) == {}


def test_what_an_earlier_release_kept_is_gone_on_from(database: Database, capture: Capturing) -> None:
    database.run(MADE)
    capture()
    [path] = Path(capture.lake).rglob(f"captures/{TOPIC}/{database.slot}.json")
    kept = json.loads(path.read_bytes())
    old = {key: kept[key] for key in ("life", "system", "database", "publication", "renewing")}
    path.write_text(json.dumps({"format": 1, **old, "done": ["public.t", "public.u"], "chunk": None}))
    database.run("UPDATE t SET v = 'x' WHERE id = 1")
    capture()
    assert [event.op for event in capture.events()] == ["r", "r", "r", "u"]
    database.run("ALTER TABLE t RENAME TO n")
    capture()
    assert tables(capture)["public.n"] == source(database, "n")


def test_a_dropped_table_that_was_named_stops_nothing(database: Database, capture: Capturing) -> None:
    database.run(MADE)
    named = ("--table", '"public"."t"', "--table", "u")
    capture(*named)
    database.run("DROP TABLE t; INSERT INTO u VALUES (1, 'a')")
    capture(*named)
    assert tables(capture)["public.u"] == source(database, "u")
    assert capture.error(*named, "--table", "typo")["message"] == "there is no such table"


def test_names_with_dots(database: Database, capture: Capturing) -> None:
    database.run(
        'CREATE SCHEMA a; CREATE SCHEMA "a.b"; CREATE TABLE "a.b".c (id int PRIMARY KEY); CREATE TABLE a."b.c" (id int PRIMARY KEY)'
    )
    database.run('INSERT INTO "a.b".c VALUES (1); INSERT INTO a."b.c" VALUES (2)')
    said = capture.error("--table", "a.b.c")
    assert said["message"] == "several tables have this name"
    capture()
    database.run('INSERT INTO "a.b".c VALUES (3); INSERT INTO a."b.c" VALUES (4)')
    capture("--table", '"a.b"."c"')
    found = dict[tuple[str, str], list[int]]()
    for value in capture.values():
        found.setdefault((value["source"]["schema"], value["source"]["table"]), []).append(value["after"]["id"])
    assert found == {("a.b", "c"): [1, 3], ("a", "b.c"): [2, 4]}


def test_a_cut_does_not_have_a_table_that_stands_still(database: Database, capture: Capturing, tmp_path: Path) -> None:
    database.run(MADE)
    into = str(tmp_path / "into")

    def synced() -> penstock.AtCut:
        capture("--heartbeat")
        assert sync(capture.lake, TOPIC, SyncOptions(into=into, cuts=True)).await_termination()
        return penstock.at_cut(into)

    assert {*synced()} == {"t"}
    database.run("ALTER TABLE t RENAME TO n; INSERT INTO u VALUES (1, 'a')")
    found = synced()
    assert {*found} == {"n", "u"}
    assert found.cut.incomplete == {"t": "the table was renamed to public.n"}
    assert found["n"].num_rows == 3
    database.run("INSERT INTO u VALUES (2, 'b')")
    assert synced().cut.incomplete == found.cut.incomplete, "it is remembered"
    database.run("ALTER TABLE n RENAME TO t; DELETE FROM t WHERE id = 1")
    back = synced()
    assert ({*back}, back.cut.incomplete) == ({"t", "u"}, {"n": "the table was renamed to public.t"})
    assert sorted(back["t"]["id"].to_pylist()) == [2, 3]


@pytest.mark.thorough
@when
@pytest.mark.parametrize("setting", ["publish = 'insert'", "publish_via_partition_root = false"])
def test_a_publication_that_leaves_changes_out_for_a_while(database: Database, capture: Capturing, when: str, setting: str) -> None:
    database.run(PARTS)
    capture()
    usual = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
    statements = f"""ALTER PUBLICATION penstock SET ({setting});;DELETE FROM t WHERE id = 1;;UPDATE t SET v = 'x' WHERE id = 2;;
                     INSERT INTO t VALUES (5, 'n');;ALTER PUBLICATION penstock SET ({usual})"""
    changed(when, capture, statements)
    assert tables(capture)["public.t"] == source(database, "t")


def test_a_publication_that_tells_partitions_one_by_one(database: Database, capture: Capturing) -> None:
    database.run(PARTS)
    named = ("--table", "t", "--table", "u")
    capture(*named)
    database.run("ALTER PUBLICATION penstock SET (publish_via_partition_root = false); INSERT INTO t VALUES (5, 'n')")
    said = capture.error(*named)
    assert (said["object"], said["expected"]) == ("public.t", "publish_via_partition_root = true")
    database.run(said["hint"])
    capture(*named)
    assert tables(capture)["public.t"] == source(database, "t")


def test_a_table_that_is_as_before_when_it_was_told_to_have_stopped(database: Database, capture: Capturing) -> None:
    database.run(MADE)
    named = ("--table", "t", "--table", "u")
    capture(*named)
    database.run("ALTER TABLE t RENAME TO n")

    def reached(point: str) -> None:
        if point == "stopped told":
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.cdc.postgres.PostgresCapture", partial(PostgresCapture, reached=reached))
        capture(*named, code=1)
    assert {*stopped(capture)} == {"public.t"}
    database.run("ALTER TABLE n RENAME TO t; INSERT INTO t VALUES (4, 'd')")
    capture(*named)
    assert tables(capture)["public.t"] == source(database, "t")
    assert {*stopped(capture)} == {"public.n"}, "it was read by that name meanwhile"


@when
def test_without_a_snapshot_what_the_stream_does_not_tell_is_read(database: Database, capture: Capturing, when: str) -> None:
    database.run(MADE)
    never = ("--snapshot", "never")
    capture(*never)
    database.run("INSERT INTO t VALUES (4, 'd')")
    again = "DROP TABLE t;;CREATE TABLE t (id int PRIMARY KEY, v text);;INSERT INTO t VALUES (9, 'n');;ALTER PUBLICATION penstock ADD TABLE t"
    changed(when, capture, again, *never)
    database.run("ALTER TABLE t RENAME TO n; INSERT INTO n VALUES (10, 'o')")
    capture(*never)
    database.run("ALTER TABLE n RENAME TO t")
    capture(*never)
    assert tables(capture)["public.t"] == source(database, "t")
    assert {*stopped(capture)} == {"public.n"}


WIDE_TABLE = """
CREATE TABLE t (id int PRIMARY KEY, v text, w text, n varchar(20), g int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO t (id, v, w, n) VALUES (1, 'a', 'A', 'one'), (2, 'b', 'B', 'two');
"""
WIDE = f"{WIDE_TABLE} {OTHER}"


@when
def test_values_that_a_statement_gave_rows_are_read(database: Database, capture: Capturing, when: str) -> None:
    changes = [
        "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7;;ALTER TABLE t ALTER COLUMN d DROP DEFAULT",
        "ALTER TABLE t ADD COLUMN d text DEFAULT md5(random()::text)",
        "ALTER TABLE t ADD COLUMN d serial",
        "ALTER TABLE t ALTER COLUMN v TYPE text USING upper(v)",
        "ALTER TABLE t RENAME COLUMN v TO x",
        "ALTER TABLE t RENAME v TO x;;ALTER TABLE t RENAME w TO v;;ALTER TABLE t RENAME x TO w",
        "ALTER TABLE t DROP COLUMN v;;ALTER TABLE t ADD COLUMN v text",
        "ALTER TABLE t ADD x int;;UPDATE t SET x = 5 WHERE id = 1;;ALTER TABLE t DROP x;;ALTER TABLE t ADD x int",
        "ALTER TABLE t ALTER COLUMN g DROP EXPRESSION",
    ]
    first, last = "INSERT INTO t (id, v) VALUES (3, 'c')", "UPDATE t SET n = 'three' WHERE id = 3"
    statements = beside(database, WIDE_TABLE, [f"{first};;{change};;{last}" for change in changes])
    capture()
    changed(when, capture, statements)
    assert not [event for event in capture.events() if event.op == "t"], "its changes were followed all the time"
    found = tables(capture)
    for number, change in enumerate(changes):
        rows, there = found[f"s{number}.t"], source(database, f"s{number}.t")
        # What is generated is not captured, and what is gone leaves its values.
        columns = {*there[1,]} - ({"g"} if "EXPRESSION" not in change else set())
        assert {key: {name: row.get(name) for name in columns} for key, row in rows.items()} == {
            key: {name: row[name] for name in columns} for key, row in there.items()
        }, change
    assert stopped(capture) == {}


@when
def test_values_that_a_statement_gave_rows_of_partitions_are_read(database: Database, capture: Capturing, when: str) -> None:
    """Also of a table that was emptied and read again before: it is not emptied once more."""
    database.run(PARTS)
    capture()
    changed(when, capture, "TRUNCATE t1")
    emptied = [event.position for event in capture.events() if event.op == "t"]
    changed(when, capture, "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7;;ALTER TABLE t ALTER COLUMN d DROP DEFAULT")
    assert tables(capture)["public.t"] == source(database, "t")
    assert [event.position for event in capture.events() if event.op == "t"] == emptied != []


@when
def test_columns_that_bring_no_values_have_nothing_read_again(database: Database, capture: Capturing, when: str) -> None:
    database.run(WIDE)
    capture()
    harmless = "ADD COLUMN d int", "ALTER n SET DEFAULT 'x'", "ALTER n TYPE varchar(40)", "ALTER n TYPE text", "DROP COLUMN w"
    changed(when, capture, ";;".join(f"ALTER TABLE t {one}" for one in harmless))
    changed(when, capture, "VACUUM FULL t;;UPDATE t SET d = 8 WHERE id = 2")
    assert not [event for event in capture.events() if event.op == "t"]
    assert tables(capture)["public.t"][2,]["d"] == 8
    changed(when, capture, "ALTER TABLE t RENAME COLUMN d TO e")
    assert {key: row["e"] for key, row in tables(capture)["public.t"].items()} == {(1,): None, (2,): 8}


@when
def test_a_partitioned_table_that_leaves_the_publication_without_its_partitions_stands_still(
    database: Database, capture: Capturing, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """These are published by their own names then, and are tables by none."""
    if database.connection.info.server_version < 150000:
        pytest.skip("a publication of a schema needs PostgreSQL 15")
    database.run(
        f"{PARTS} CREATE SCHEMA away; CREATE PUBLICATION penstock FOR TABLES IN SCHEMA public WITH (publish_via_partition_root)"
    )
    capture()
    changed(
        when, capture, "ALTER TABLE t SET SCHEMA away;;INSERT INTO t1 VALUES (3, 'away'); CREATE TABLE later (id int PRIMARY KEY)"
    )
    assert {*stopped(capture)} == {"public.t"}
    assert "public.t1 is published, and not captured: a partition is captured as a part of its table" in caplog.text
    changed(
        when, capture, "INSERT INTO away.t VALUES (4, 'too');;INSERT INTO later VALUES (1);;ALTER TABLE away.t SET SCHEMA public"
    )
    assert stopped(capture) == {}
    assert tables(capture)["public.t"] == source(database, "t")
    assert tables(capture)["public.later"] == source(database, "later")
