"""Tables that Debezium cannot follow stand still by themselves, on a real server; and what its parser does not understand elsewhere stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.events.stop_message import stop_reason
from tests.cdc.debezium.commands import Commands
from tests.cdc.debezium.conftest import TOPIC, Capturing
from tests.cdc.debezium.test_told import TWO, captured
from tests.mariadb_server import MariaDBServer

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]


def _stopped(capture: Capturing) -> dict[str, str]:
    """The tables of which the topic says that they stand still, and why."""
    found = {}
    for event in capture.events():
        if event.op == "m" and (reason := stop_reason({"value": event.value})) is not None:
            found[event.table.partition(".")[2]] = reason
    return found


@pytest.mark.thorough
def test_a_sequence_and_what_is_not_captured_stop_nothing(capture: Capturing) -> None:
    capture.run(*TWO, "CREATE SEQUENCE s1")
    capture.server.ask(f"SELECT NEXTVAL({capture.database}.s1)")
    capture()
    capture.run("CREATE SEQUENCE s2")
    for name in ("s1", "s2"):
        capture.server.ask(f"SELECT NEXTVAL({capture.database}.{name})")
    other = f"{capture.database}_other"
    table = f"{other}.n"
    capture.server.run(
        f"CREATE DATABASE {other}", f"CREATE TABLE {table} (id INT PRIMARY KEY, ip INET6)", f"INSERT INTO {table} VALUES (1, '::1')"
    )
    capture.run("INSERT INTO a VALUES (3, 'x')")
    try:
        captured(capture, "a", "b")
    finally:
        capture.server.run(f"DROP DATABASE {other}")
    assert not _stopped(capture)


UNFIT = {
    "of_a_type": (
        ("CREATE TABLE of_a_type (id INT PRIMARY KEY, v VARCHAR(20), ip INET6)",),
        "VALUES ({}, 'x', '::1')",
        "MODIFY ip VARCHAR(39)",
    ),
    "versioned": (
        ("CREATE TABLE versioned (id INT PRIMARY KEY, v VARCHAR(20))", "ALTER TABLE versioned ADD SYSTEM VERSIONING"),
        "VALUES ({}, 'x')",
        "DROP SYSTEM VERSIONING",
    ),
    "hashed": (
        ("CREATE TABLE hashed (id INT PRIMARY KEY, v TEXT, UNIQUE KEY k (v) USING HASH)",),
        "VALUES ({}, 'x{}')",
        "DROP KEY k",
    ),
    "keyless": (("CREATE TABLE keyless (id INT, v TEXT)",), "VALUES ({}, 'x')", "ADD PRIMARY KEY (id)"),
}
"""Tables by name: how they are made, rows of them, and what makes them fit."""


@pytest.mark.parametrize("before", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_tables_stand_still_alone_until_they_are_changed_and_read_again(capture: Capturing, before: bool) -> None:
    made = [statement for statements, _, _ in UNFIT.values() for statement in statements]
    capture.run(*TWO, *(made if before else ()))
    capture()
    capture.run(*(() if before else made), *(f"INSERT INTO {name} {row.format(1, 1)}" for name, (_, row, _) in UNFIT.items()))
    capture.run("INSERT INTO a VALUES (3, 'x')")
    captured(capture, "a", "b")
    capture.run("INSERT INTO a VALUES (4, 'x')", *(f"INSERT INTO {name} {row.format(2, 2)}" for name, (_, row, _) in UNFIT.items()))
    captured(capture, "a", "b")
    reasons = _stopped(capture)
    assert reasons.keys() == UNFIT.keys()
    assert all(reason.endswith("then --snapshot again") for reason in reasons.values())
    capture.run(*(f"ALTER TABLE {name} {mend}" for name, (_, _, mend) in UNFIT.items()))
    capture("--snapshot", "again")
    capture.run(*(f"UPDATE {name} SET v = 'z' WHERE id = 1" for name in UNFIT), "INSERT INTO a VALUES (5, 'x')")
    captured(capture, "a", "b", *UNFIT)


def test_where_no_table_can_be_followed_the_capture_ends_at_once(capture: Capturing) -> None:
    capture.run(
        "CREATE TABLE t (id INT PRIMARY KEY, ip INET4)"
        if _knows_inet4(capture)
        else "CREATE TABLE t (id INT PRIMARY KEY, ip INET6)"
    )
    said = capture.error()
    assert said["error"] == "not_supported"
    assert said["object"] == f"{capture.database}.t"


@pytest.fixture
def dotted(mariadb: MariaDBServer, commands: Commands, tmp_path: Path) -> Iterator[Capturing]:
    """The capture of a database whose name has a dot."""
    mariadb.run("CREATE DATABASE `odd.shop`")
    yield Capturing(mariadb, commands, "`odd.shop`", str(tmp_path / "lake"), path="odd.shop")
    mariadb.run("DROP DATABASE `odd.shop`")


@pytest.mark.thorough
def test_a_cut_does_not_have_a_table_that_stands_still_until_it_is_read_again(dotted: Capturing, tmp_path: Path) -> None:
    """Also where the names of the database and of a table have dots."""
    into = str(tmp_path / "into")

    def synced(*options: str) -> penstock.AtCut:
        dotted("--heartbeat", *options)
        assert sync(dotted.lake, TOPIC, SyncOptions(into=into, cuts=True)).await_termination()
        return penstock.at_cut(into)

    dotted.run(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in ("a", "`t.u`", "`g.o`")))
    dotted.run(*(f"INSERT INTO {name} VALUES (1), (2)" for name in ("a", "`t.u`", "`g.o`")))
    (named,) = {*synced()} - {"a"} - (gone := {name for name in synced() if "o" in name})
    assert gone
    dotted.run("DROP TABLE `g.o`", "ALTER TABLE `t.u` ADD ip INET6", "DELETE FROM `t.u` WHERE id = 1", "INSERT INTO a VALUES (3)")
    found = synced()
    assert named not in found
    assert found.cut.incomplete[named].endswith("then --snapshot again")
    assert found["a"].num_rows == 3
    assert {found[name].num_rows for name in gone} == {0}
    dotted.run("INSERT INTO a VALUES (4)")
    assert synced().cut.incomplete == found.cut.incomplete, "it is remembered"
    dotted.run("ALTER TABLE `t.u` DROP ip")
    back = synced("--snapshot", "again")
    assert back.cut.incomplete == {}
    assert back[named]["id"].to_pylist() == [2]


def _knows_inet4(capture: Capturing) -> bool:
    ((version,),) = capture.server.ask("SELECT VERSION()")
    return tuple(map(int, str(version).split("-")[0].split("."))) >= (10, 10)
