"""What the messages of a stream are in the topic. Without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.cdc.capture.row_keys import message_group_of
from penstock.cdc.postgres.column_types import BYTEA, INT8
from penstock.cdc.postgres.envelopes import EnvelopeEncoder, EnvelopeMessage, EnvelopeTable, EventOrigin
from penstock.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    RelationColumn,
    Row,
    Truncate,
    Update,
)
from penstock.cdc.postgres.positions import PositionCounter
from penstock.cdc.postgres.values import UNAVAILABLE, UNAVAILABLE_BYTES, TypeConversions

COLUMNS = (RelationColumn("id", INT8, True), RelationColumn("big", 25, False), RelationColumn("photo", BYTEA, False))


def events(
    *changes: Any,
    reread: Row | None = None,
    table: str = "t",
    columns: Sequence[RelationColumn] = COLUMNS,
    identity: str = "d",
    taken: frozenset[int] | set[int] = frozenset({1}),
    over: list[int] | None = None,
) -> list[EnvelopeMessage]:
    asked: list[tuple[Row, tuple[int, ...]]] = []

    def read(table: EnvelopeTable, key: Row, places: Sequence[int], transaction: int) -> Row | None:
        assert transaction == 7
        asked.append((key, tuple(places)))
        return reread

    passed: list[int] = [] if over is None else over
    envelopes = EnvelopeEncoder(
        EventOrigin("db", "slot"),
        TypeConversions(lambda oid: None),
        keys=lambda relation: ("id",) if relation.oid in taken else None,
        reread=read,
        now_ms=lambda: 1,
        passed_over=lambda relation: passed.append(relation.oid),
    )
    envelopes.relation(Relation(1, "public", table, identity, tuple(columns)))
    envelopes.relation(Relation(2, "public", "u", "d", COLUMNS))
    envelopes.begin(Begin(800, 1_000_000, 7))
    positions = PositionCounter()
    positions.begin(800)
    found = [event for change in changes for event in envelopes.events(change, 700, positions)]
    assert reread is None or asked
    return found


def told(event: EnvelopeMessage) -> tuple[str, Any, Any, Any]:
    body = json.loads(event.body)
    return body["value"]["op"], body["key"], body["value"]["before"], body["value"]["after"]


def row(id_: int, big: Any, photo: Any = None) -> dict[str, Any]:
    return {"id": id_, "big": big, "photo": photo}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Insert(1, ("1", "a", None)), [("c", {"id": 1}, None, row(1, "a"))]),
        (Update(1, None, None, ("1", "b", "\\x00")), [("u", {"id": 1}, None, row(1, "b", "AA=="))]),
        (Update(1, None, None, ("1", UNCHANGED, UNCHANGED)), [("u", {"id": 1}, None, row(1, UNAVAILABLE, UNAVAILABLE_BYTES))]),
        # The old key is written also where it has not changed.
        (Update(1, ("1", None, None), None, ("1", "b", None)), [("u", {"id": 1}, None, row(1, "b"))]),
        (Update(1, None, ("1", "a", None), ("1", UNCHANGED, None)), [("u", {"id": 1}, row(1, "a"), row(1, "a"))]),
        (
            Update(1, ("1", None, None), None, ("2", "b", None)),
            [("d", {"id": 1}, {"id": 1}, None), ("c", {"id": 2}, None, row(2, "b"))],
        ),
        (
            Update(1, None, ("1", "a", None), ("2", UNCHANGED, None)),
            [("d", {"id": 1}, row(1, "a"), None), ("c", {"id": 2}, None, row(2, "a"))],
        ),
        # Of the key's old columns only the key is known: what else is NULL there is not the row's.
        (
            Update(1, ("1", None, None), None, ("2", UNCHANGED, None)),
            [("d", {"id": 1}, {"id": 1}, None), ("c", {"id": 2}, None, row(2, UNAVAILABLE))],
        ),
        (Update(1, ("1", None, None), None, (UNCHANGED, "b", None)), [("u", {"id": 1}, None, row(1, "b"))]),
        (Delete(1, ("1", None, None), None), [("d", {"id": 1}, {"id": 1}, None)]),
        (Delete(1, None, ("1", "a", None)), [("d", {"id": 1}, row(1, "a"), None)]),
        (Truncate((1,)), [("t", None, None, None)]),
        (LogicalMessage(True, 700, "audit", b"x"), []),
    ],
)
def test_what_a_change_is_in_the_topic(change: Any, expected: list[Any]) -> None:
    assert [told(one) for one in events(change)] == expected


def test_what_the_server_did_not_send_of_a_row_that_moved_is_read_again() -> None:
    moved = Update(1, ("1", None, None), None, ("2", UNCHANGED, "\\x00"))
    assert told(events(moved, reread=("later",))[1]) == ("c", {"id": 2}, None, row(2, "later", "AA=="))
    assert [one.position & 3 for one in events(moved, Delete(1, ("2", None, None), None))] == [1, 2, 3]


@pytest.mark.parametrize("key", [None, UNCHANGED])
def test_a_table_whose_row_has_no_key_is_not_followed_any_more(key: Any) -> None:
    over = list[int]()
    found = events(Insert(1, ("1", "a", None)), Insert(1, (key, "a", None)), Insert(1, ("2", "a", None)), over=over)
    assert [told(one)[1] for one in found] == [{"id": 1}]
    assert over == [1, 1]


def test_a_table_that_has_lost_its_key_is_not_gone_on_with_as_it_was() -> None:
    keys, over = [("id",), None], list[int]()
    envelopes = EnvelopeEncoder(
        EventOrigin("db", "slot"),
        TypeConversions(lambda oid: None),
        keys=lambda relation: keys.pop(0),
        reread=lambda table, key, places, transaction: None,
        now_ms=lambda: 1,
        passed_over=lambda relation: over.append(relation.oid),
    )
    for _ in range(2):
        envelopes.relation(Relation(1, "public", "t", "d", COLUMNS))
    positions = PositionCounter()
    positions.begin(800)
    assert not envelopes.events(Insert(1, ("1", "a", None)), 700, positions)
    assert over == [1]


def test_a_table_that_is_not_taken_has_its_positions() -> None:
    """What was not sent yet of a transaction that the next capture is told again is to have the same ones."""
    changes = [
        Insert(1, ("1", "a", None)),
        Update(1, ("1", None, None), None, ("2", UNCHANGED, None)),
        Update(1, ("1", None, None), None, (UNCHANGED, "b", None)),
        Update(1, None, ("1", "a", None), ("1", "b", None)),
        Truncate((1, 2)),
        Delete(1, ("2", None, None), None),
    ]
    changes.append(Insert(2, ("1", "a", None)))
    for identity in ("d", "f"):
        both, one = (events(*changes, identity=identity, taken=taken)[-1] for taken in ({1, 2}, {2}))
        assert both.position == one.position


def test_what_a_partition_s_old_row_lacks_is_not_null() -> None:
    """The table has REPLICA IDENTITY FULL, and the partition that has the row has not."""
    moved = Update(1, None, ("1", None, None), ("2", UNCHANGED, None))
    assert [told(one) for one in events(moved, reread=("later",), identity="f")] == [
        ("d", {"id": 1}, {"id": 1}, None),
        ("c", {"id": 2}, None, row(2, "later")),
    ]
    [same] = events(Update(1, None, ("1", None, None), ("1", UNCHANGED, None)), identity="f")
    assert told(same) == ("u", {"id": 1}, None, row(1, UNAVAILABLE))


@pytest.mark.parametrize(("table", "tag"), [("t", "t"), ("a b", "a b"), ("a|b", None), ("a\nb", None)])
def test_a_row_is_found_by_its_table_and_its_key(table: str, tag: str | None) -> None:
    made, emptied = events(Insert(1, ("1", None, None)), Truncate((1,)), table=table)
    assert (made.tag, emptied.tag) == (tag, tag)
    assert made.keys == ((f"{table}-1",) if table.isprintable() else ())
    assert emptied.keys == ()
    if table.isprintable():
        assert (made.message_group, emptied.message_group) == (f"public.{table}-1", f"public.{table}")


@pytest.mark.parametrize(("length", "kept"), [(1022, True), (1023, False)])
def test_a_key_that_is_too_long_to_be_looked_up_has_none(length: int, kept: bool) -> None:
    columns = (RelationColumn("id", 25, True),)
    (one,) = events(Insert(1, ("k" * length,)), columns=columns)
    assert one.keys == ((f"t-{'k' * length}",) if kept else ())


@pytest.mark.parametrize(
    ("key", "whole"), [("k" * 54, True), ("k" * 55, False), ("ß" * 27, True), ("ß" * 28, False), ("a\x00b", False), (None, True)]
)
def test_a_message_group_has_at_most_63_bytes_and_tells_keys_apart(key: str | None, whole: bool) -> None:
    found = message_group_of("public", "t", key)
    assert len(found.encode()) <= 63
    assert (found == ("public.t" if key is None else f"public.t-{key}")) == whole
    assert found.isprintable()
    if key is not None:
        assert found != message_group_of("public", "t", key + "x")
        assert found != message_group_of("public", "u", key)
