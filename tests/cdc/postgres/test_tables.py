"""Tables whose rows the stream tells otherwise than a read does: each is refused with a hint that works, or its own rows are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cdc.postgres.conftest import Capturing, Database
from tests.cdc.postgres.judge import folded

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def followed(hint: str) -> str:
    """The statements of a hint: what stands before the other ways out."""
    return hint.partition(", or ")[0].removeprefix("as a superuser: ").partition("; or ")[0].partition("; values may")[0]


def rows(capture: Capturing, table: str) -> list[tuple[object, ...]]:
    return sorted(folded(capture.events(), batches=1)[table])


@pytest.mark.parametrize("when", ["IMMEDIATE", "DEFERRED"])
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_key_that_is_deferrable_is_refused_before_the_source_breaks(
    database: Database, capture: Capturing, when: str, identity: str
) -> None:
    """The server takes no such key for an identity, and refuses updates; under FULL its values may be double within a transaction."""
    database.run(f"CREATE TABLE a (id int PRIMARY KEY DEFERRABLE INITIALLY {when}, v text); INSERT INTO a VALUES (1), (2)")
    database.run(f"ALTER TABLE a REPLICA IDENTITY {identity}")
    said = capture.error()
    assert said["observed"] == f"REPLICA IDENTITY {identity} of a primary key that is deferrable"
    database.run("UPDATE a SET v = 'x'")
    database.run(followed(said["hint"]))
    capture()
    database.run("UPDATE a SET v = 'y', id = 3 WHERE id = 1; DELETE FROM a WHERE id = 2")
    capture()
    assert folded(capture.events(), batches=1)["public.a"] == {(3,): {"id": 3, "v": "y"}}


@pytest.mark.parametrize(
    "identity",
    [
        "REPLICA IDENTITY NOTHING",
        "ADD x int NOT NULL DEFAULT 1; CREATE UNIQUE INDEX i ON a (x, id); ALTER TABLE a REPLICA IDENTITY USING INDEX i; DROP INDEX i",
    ],
)
def test_an_identity_that_is_not_the_primary_key_there_is(database: Database, capture: Capturing, identity: str) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a VALUES (1)")
    database.run(f"ALTER TABLE a {identity}")
    said = capture.error()
    assert "REPLICA IDENTITY DEFAULT" in said["hint"]
    database.run(followed(said["hint"]))
    capture()
    database.run("UPDATE a SET v = 'x'")
    capture()
    assert rows(capture, "public.a") == [(1,)]


def test_a_unique_index_that_was_not_finished_is_no_key(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int NOT NULL, v text) PARTITION BY RANGE (id)")
    database.run("CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10); ALTER TABLE ONLY a ADD PRIMARY KEY (id)")
    assert "has no key" in capture.error()["message"]
    database.run("ALTER TABLE a1 ADD PRIMARY KEY (id); ALTER INDEX a_pkey ATTACH PARTITION a1_pkey")
    capture()


def test_a_generated_column_is_no_part_of_a_key(database: Database, capture: Capturing) -> None:
    """The stream does not tell its values, so it would not tell two rows apart either."""
    database.run("CREATE TABLE a (id int NOT NULL UNIQUE, twice int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY)")
    said = capture.error()
    assert said["observed"] == "twice"
    database.run("ALTER TABLE a REPLICA IDENTITY USING INDEX a_id_key; INSERT INTO a (id) VALUES (1)")
    capture()
    assert [one["after"] for one in capture.values()] == [{"id": 1}]


def test_a_publication_without_the_key_is_refused(database: Database, capture: Capturing) -> None:
    if database.connection.info.server_version < 150000:
        pytest.skip("publications have no columns before PostgreSQL 15")
    database.run("CREATE TABLE a (id int PRIMARY KEY, v text); CREATE PUBLICATION penstock FOR TABLE a (v)")
    said = capture.error()
    assert said["observed"] == "without id"
    database.run(said["hint"].partition(";")[0] + "; ALTER PUBLICATION penstock ADD TABLE a (v, id)")
    capture()


def test_rows_of_tables_that_inherit_are_theirs(database: Database, capture: Capturing) -> None:
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY, big text); CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent)"
    )
    database.run("ALTER TABLE parent ALTER big SET STORAGE EXTERNAL; ALTER TABLE child ALTER big SET STORAGE EXTERNAL")
    database.run(
        "INSERT INTO parent VALUES (1, 'p'), (2, repeat('p', 3000)); INSERT INTO child VALUES (1, 'c', 7), (4, repeat('c', 3000), 7)"
    )
    capture()
    database.run("DELETE FROM child WHERE id = 1; UPDATE ONLY parent SET id = 4 WHERE id = 2; INSERT INTO child VALUES (5, 'c', 8)")
    capture()
    tables = folded(capture.events(), batches=1)
    assert {key: row["big"] for key, row in tables["public.parent"].items()} == {(1,): "p", (4,): "p" * 3000}
    assert {key: (row["big"], row["extra"]) for key, row in tables["public.child"].items()} == {
        (4,): ("c" * 3000, 7),
        (5,): ("c", 8),
    }


def test_publishing_a_table_does_not_publish_those_that_inherit_from_it(database: Database, capture: Capturing) -> None:
    """They have no key of their own, and the server would refuse every update of theirs."""
    database.run("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1)")
    capture("--table", "parent")
    database.run("UPDATE child SET id = 2; INSERT INTO parent VALUES (1)")
    capture("--table", "parent")
    assert [(event.table, event.op) for event in capture.events()] == [("public.parent", "c")]


@pytest.fixture
def ann(database: Database) -> Iterator[str]:
    """The DSN of somebody who may replicate and read, and of whose rows a policy speaks."""
    database.run("CREATE TABLE a (id int PRIMARY KEY, owner text); CREATE ROLE ann LOGIN REPLICATION; GRANT SELECT ON a TO ann")
    database.run("INSERT INTO a VALUES (1, 'ann'), (2, 'bob'); CREATE POLICY own ON a USING (owner = current_user)")
    database.run("ALTER TABLE a ENABLE ROW LEVEL SECURITY; CREATE PUBLICATION penstock FOR TABLE a")
    try:
        yield database.dsn.replace("postgres@", "ann@")
    finally:
        database.run("DROP OWNED BY ann; DROP ROLE ann")


def test_a_user_whom_row_security_concerns_is_refused(database: Database, capture: Capturing, ann: str) -> None:
    said = capture.error(dsn=ann)
    assert (said["error"], said["object"]) == ("permission_denied", "public.a")
    assert "row security" in said["message"]
    database.run(followed(said["hint"]))
    capture(dsn=ann)
    assert rows(capture, "public.a") == [(1,), (2,)]


def test_row_security_that_comes_later_never_makes_a_read_shorter(database: Database, capture: Capturing, ann: str) -> None:
    """Between the check and the read: the server itself refuses it then."""
    from penstock.cdc.postgres.catalog import Catalog
    from penstock.log.errors import PermissionDenied

    catalog = Catalog(ann)
    try:
        with pytest.raises(PermissionDenied, match="row-level security"):
            catalog.ask("SELECT count(*) FROM a")
    finally:
        catalog.close()


def test_a_role_s_time_limits_do_not_end_what_a_capture_reads(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a SELECT generate_series(1, 5000)")
    database.run("ALTER ROLE postgres IN DATABASE " + database.connection.info.dbname + " SET statement_timeout = '1ms'")
    capture()
    assert len(rows(capture, "public.a")) == 5000


def partitioned(database: Database, leaf: str = "") -> None:
    database.run("CREATE TABLE a (id int, at int NOT NULL, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    database.run(
        f"CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10); CREATE {leaf or 'TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)'}"
    )
    database.run("INSERT INTO a VALUES (1, 1)")


@pytest.mark.parametrize(
    ("leaf", "then", "message"),
    [
        ("UNLOGGED TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)", "SELECT", "a partition is unlogged"),
        ("", "ALTER TABLE a2 REPLICA IDENTITY NOTHING", "a partition has another replica identity"),
        (
            "",
            "CREATE UNIQUE INDEX i ON a2 (at); ALTER TABLE a2 REPLICA IDENTITY USING INDEX i",
            "a partition has another replica identity",
        ),
        (
            "",
            "CREATE UNIQUE INDEX i ON a (at, id); ALTER TABLE a REPLICA IDENTITY USING INDEX i; ALTER TABLE a1 REPLICA IDENTITY FULL",
            "a partition has another replica identity",
        ),
    ],
)
def test_a_partition_that_is_told_otherwise_than_its_table(
    database: Database, capture: Capturing, leaf: str, then: str, message: str
) -> None:
    partitioned(database, leaf)
    database.run(then)
    said = capture.error()
    assert said["object"] == "public.a2"
    assert message in said["message"]
    database.run(followed(said["hint"]))
    capture()
    database.run(
        "INSERT INTO a VALUES (12, 2); UPDATE a SET v = 'x'; UPDATE a SET id = id + 1, at = at + 1; DELETE FROM a WHERE id = 2"
    )
    capture()
    ((_, row),) = folded(capture.events(), batches=1)["public.a"].items()
    assert row == {"id": 13, "at": 3, "v": "x"}


def test_a_foreign_partition_is_refused(database: Database, capture: Capturing) -> None:
    database.run("CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing")
    database.run("CREATE TABLE a (id int) PARTITION BY RANGE (id); CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10)")
    database.run("ALTER TABLE a1 ALTER id SET NOT NULL; CREATE UNIQUE INDEX i ON a1 (id)")
    database.run("CREATE FOREIGN TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20) SERVER elsewhere")
    assert "has no key" in capture.error()["message"], "the server makes no key over a foreign table"


@pytest.mark.parametrize(
    ("made", "observed"),
    [
        ("VIEW b AS SELECT 1 id", "a view"),
        ("MATERIALIZED VIEW b AS SELECT 1 id", "a materialized view"),
        ("SEQUENCE b", "a sequence"),
        ("UNLOGGED TABLE b (id int PRIMARY KEY)", "an unlogged table"),
    ],
)
def test_what_is_no_table_of_the_log_is_told_as_what_it_is(
    database: Database, capture: Capturing, made: str, observed: str
) -> None:
    database.run(f"CREATE TABLE a (id int PRIMARY KEY); CREATE {made}")
    said = capture.error("--table", "b")
    assert (said["object"], said["observed"]) == ("public.b", observed)
    if "ALTER" in said["hint"]:
        database.run(followed(said["hint"]))
        capture("--table", "b")


def test_a_partition_that_is_named_or_published_alone_is_told_with_its_table(database: Database, capture: Capturing) -> None:
    partitioned(database)
    assert capture.error("--table", "a1")["expected"] == "public.a"
    database.run("CREATE PUBLICATION penstock FOR TABLE a")
    said = capture.error()
    assert (said["object"], said["expected"]) == ("public.a1", "public.a")
    database.run(said["hint"].partition("one by one: ")[2])
    capture()
    assert rows(capture, "public.a") == [(1,)]
