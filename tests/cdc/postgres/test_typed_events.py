"""`penstock capture postgres --typed`: a table's changes as rows with its columns' types, which follow the table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import penstock
from penstock.cdc.events.typed_events import typed_events
from penstock.cdc.postgres.values import UNAVAILABLE
from tests.cdc.columns import target_types
from tests.cdc.postgres.conftest import TOPIC, Capturing, Database

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ORDERS = """
CREATE DOMAIN cents AS numeric(12, 2);
CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric(12, 2), paid cents, any_number numeric, ok boolean, raw bytea, rate double precision,
    at timestamptz, made timestamp, day date, tags text[], note text);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL
"""
ROW = """12.50, 3.25, 1e40, true, '\\x00ff', 'NaN', '2026-11-22 03:04:05.678901+05:30', '2026-11-22 03:04:05', '2026-11-22', ARRAY['a', NULL],
    repeat('x', 3000)"""
EXPECTED: dict[str, Any] = {
    "amount": Decimal("12.50"),
    "paid": Decimal("3.25"),
    "any_number": "1" + "0" * 40,
    "ok": True,
    "raw": b"\x00\xff",
    "at": datetime(2026, 11, 21, 21, 34, 5, 678901, UTC),
    "made": datetime(2026, 11, 22, 3, 4, 5),  # noqa: DTZ001 - it has no zone
    "day": date(2026, 11, 22),
    "tags": '["a",null]',
    "note": "x" * 3000,
}


def values(capture: Capturing) -> list[dict[str, Any]]:
    with penstock.connect(capture.lake, read_only=True) as lake:
        return sorted((message.value for message in lake.reader(TOPIC).messages()), key=lambda value: value["position"])


def test_rows_have_the_types_of_their_columns(database: Database, capture: Capturing) -> None:
    database.run(ORDERS)
    database.run(f"INSERT INTO orders VALUES (1, {ROW})")
    capture("--typed", "--table", "orders")
    database.run(f"INSERT INTO orders VALUES (2, {ROW})")
    database.run("UPDATE orders SET amount = NULL WHERE id = 1")
    database.run("UPDATE orders SET day = 'infinity' WHERE id = 1")
    database.run("DELETE FROM orders WHERE id = 2")
    database.run("TRUNCATE orders")
    capture("--typed", "--table", "orders")
    found = values(capture)
    assert [(one["op"], one["row_key"]) for one in found] == [
        ("r", {"id": 1}),
        ("c", {"id": 2}),
        ("u", {"id": 1}),
        ("u", {"id": 1}),
        ("d", {"id": 2}),
        ("t", None),
    ]
    for one in found[:2]:
        after = one["after"]
        assert str(after.pop("rate")) == "nan"
        assert after == {"id": one["row_key"]["id"], **EXPECTED}
    assert (found[2]["after"]["amount"], found[2]["after"]["note"], found[2]["not_sent"]) == (None, None, ["note"])
    assert (found[3]["after"]["day"], found[3]["unfit"]) == (None, {"after.day": "infinity"})
    assert [(one["db"] is not None, one["schema_name"], one["table_name"], one["snapshot"]) for one in found[:2]] == [
        (True, "public", "orders", True),
        (True, "public", "orders", False),
    ]
    assert found[4]["before"] is found[5]["after"] is None


def test_a_text_that_looks_like_a_value_that_was_not_sent(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE orders (id int PRIMARY KEY, note text, raw bytea)")
    capture("--typed", "--table", "orders")
    database.run(f"INSERT INTO orders VALUES (1, '{UNAVAILABLE}', '{UNAVAILABLE}')")
    capture("--typed", "--table", "orders")
    [found] = values(capture)
    assert (found["after"], found["not_sent"]) == ({"id": 1, "note": UNAVAILABLE, "raw": UNAVAILABLE.encode()}, None)


def test_the_schema_follows_the_table(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE orders (id int PRIMARY KEY, gone text, n int)")
    database.run("INSERT INTO orders VALUES (1, 'a', 1)")
    capture("--typed", "--table", "orders")
    database.run("INSERT INTO orders VALUES (2, 'b', 2)")
    database.run("ALTER TABLE orders ADD more numeric(5, 1), DROP gone, ALTER n TYPE bigint")
    database.run("INSERT INTO orders VALUES (3, 3000000000, 1.5)")
    capture("--typed", "--table", "orders")
    assert [one["after"] for one in values(capture)] == [
        {"id": 1, "gone": "a", "n": 1, "more": None},
        {"id": 2, "gone": "b", "n": 2, "more": None},
        {"id": 3, "gone": None, "n": 3_000_000_000, "more": Decimal("1.5")},
        *(
            {"id": number, "gone": None, "n": number, "more": None} for number in (1, 2)
        ),  # read again, as another type may have made values
        {"id": 3, "gone": None, "n": 3_000_000_000, "more": Decimal("1.5")},
    ]
    database.run("ALTER TABLE orders ALTER more TYPE text")
    said = capture.error("--typed", "--table", "orders")
    assert said["message"] == "a column's type has changed, and the topic's field does not hold its values"
    assert said["object"] == "more"


def test_what_cannot_be_typed_is_refused_before_anything_is_made(database: Database, capture: Capturing) -> None:
    database.run('CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, "two words" int)')
    assert capture.error("--typed")["message"] == "a typed topic has the changes of one table"
    said = capture.error("--typed", "--table", "b")
    assert said["message"] == "this cannot be a field's name"
    capture("--table", "a")
    assert capture.error("--typed", "--table", "a")["message"] == "the topic has no schema"


def test_changes_are_made_of_the_rows(database: Database, capture: Capturing) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, v numeric(5, 2), big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL")
    database.run("INSERT INTO a VALUES (1, 1.5, repeat('x', 3000))")
    capture("--typed", "--table", "a")
    database.run("UPDATE a SET v = 2; DELETE FROM a")
    capture("--typed", "--table", "a")
    with penstock.connect(capture.lake, read_only=True) as lake:
        column = lake.reader(TOPIC).to_arrow()["value"].combine_chunks()
    found = [event.change() for event in typed_events(column) if event is not None]
    assert [(one.op, one.key, one.row) for one in sorted(found, key=lambda one: one.position or 0)] == [
        ("r", {"id": 1}, {"id": 1, "v": Decimal("1.50"), "big": "x" * 3000}),
        ("u", {"id": 1}, {"id": 1, "v": Decimal("2.00")}),
        ("d", {"id": 1}, {"id": 1}),
    ]
    assert found[0].types == target_types({"id": "int", "v": "decimal(5,2)", "big": "string"})
    assert found[0].source.table == "a"
