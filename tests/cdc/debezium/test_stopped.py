"""Tables that Debezium cannot follow stand still by themselves, on a real server; and what its parser does not understand elsewhere stops nothing."""

from __future__ import annotations

import pytest

from penstock.cdc.events.stopped import stopped_because
from tests.cdc.debezium.conftest import Capturing
from tests.cdc.debezium.test_told import TWO, captured

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]


def _stopped(capture: Capturing) -> dict[str, str]:
    """The tables of which the topic says that they stand still, and why."""
    found = {}
    for event in capture.events():
        if event.op == "m" and (reason := stopped_because({"value": event.value})) is not None:
            found[event.table.partition(".")[2]] = reason
    return found


def test_what_is_not_captured_stops_nothing(capture: Capturing) -> None:
    capture.run(*TWO)
    capture()
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


def test_a_sequence_is_no_table(capture: Capturing) -> None:
    capture.run(*TWO, "CREATE SEQUENCE s1")
    capture.server.ask(f"SELECT NEXTVAL({capture.database}.s1)")
    capture()
    capture.run("CREATE SEQUENCE s2")
    for name in ("s1", "s2"):
        capture.server.ask(f"SELECT NEXTVAL({capture.database}.{name})")
    capture.run("INSERT INTO a VALUES (3, 'x')")
    captured(capture, "a", "b")
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


def _knows_inet4(capture: Capturing) -> bool:
    ((version,),) = capture.server.ask("SELECT VERSION()")
    return tuple(map(int, str(version).split("-")[0].split("."))) >= (10, 10)
