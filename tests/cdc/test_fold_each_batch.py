"""The fold after each batch, not only in the end, over any queues: rows and their positions are what the judge says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold import UNORDERED
from penstock.cdc.target import TableDeclarations
from tests.cdc.applied import Memory
from tests.cdc.reference import MARKER, Message, Reference
from tests.cdc.streams import By, Stream, batches, streams


def known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def check(stream: Stream, data: st.DataObject, by: By, *, by_position: bool = True) -> None:
    tables = Memory(TableDeclarations.of(stream.declared, None), by_position, tasks=data.draw(st.integers(1, 2)))
    reference = Reference(stream.declared, by_position=by_position)
    cut = data.draw(batches(stream.told, by))
    for batch in cut:
        reference.apply(batch)
        tables.apply(batch)
        wanted = {source: state.rows for source, state in reference.tables.items()}
        found = {(source.schema, source.table): rows for source, rows in tables.tables.items()}
        for source, rows in wanted.items():
            there = found.get(source, {})
            assert {key: (known(row.values), row.position) for key, row in there.items()} == {
                key: (known(row.values), row.position) for key, row in rows.items()
            }


@given(streams(), st.data())
def test_tables_in_their_queues(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table")


@given(streams(), st.data())
def test_tables_in_their_queues_without_the_guard(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table", by_position=False)


# Rows of a snapshot without positions, and a truncate by another queue in the same batch: which came first cannot be told.
in_queues_by_row = streams(flavours=["mysql", "mysql, compressed"], splits=True) | streams(splits=True, without=["truncate"])


@given(in_queues_by_row, st.data())
def test_rows_in_their_queues(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "row")


@given(streams(flavours=["mysql"], splits=True), st.data())
def test_events_of_a_row_by_any_queues(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "chance")


def event(op: str, position: int | None, key: dict[str, int] | None) -> bytes:
    source = {"connector": "mysql", "db": "shop", "table": "t", "file": "binlog.1", "pos": position, "row": 0}
    return json.dumps({"key": key, "value": {"op": op, "before": None, "after": key, "source": source}}).encode()


def test_the_delete_of_a_snapshot_s_row_beside_a_truncate_by_another_queue() -> None:
    tables = Memory()
    tables.apply(
        [Message(0, 0, event("t", 11, None)), Message(1, 0, event("r", None, {"id": 1})), Message(1, 1, event("d", 9, {"id": 1}))]
    )
    assert tables.rows()["t"] == {}


@pytest.mark.parametrize("op", ["d", "u"])
def test_what_is_older_than_a_truncate_of_an_earlier_batch_ends_a_row_without_a_position(op: str) -> None:
    tables = Memory()
    tables.apply([Message(0, 0, event("c", 7, {"id": 2})), Message(0, 1, event("t", 11, None))])
    tables.apply([Message(1, 0, event("r", None, {"id": 1})), Message(1, 1, event(op, 9, {"id": 1}))])
    assert tables.rows()["t"] == {}


def test_rows_from_before_a_truncate_that_come_after_it_although_nothing_else_of_the_table_had_come() -> None:
    tables = Memory()
    tables.apply([Message(0, 0, event("t", 9, None))])
    tables.apply([Message(1, 0, event("c", 5, {"id": 1})), Message(1, 1, event("c", 10, {"id": 2}))])
    assert tables.rows()["t"].keys() == {(2,)}


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_changes_of_one_position_count_in_the_order_of_the_topic(cut: int) -> None:
    """MySQL writes a compressed transaction at one position; the rows of each of its statements begin at 0."""

    def at(op: str, key: int, value: str, row: int) -> bytes:
        source = {"connector": "mysql", "db": "shop", "table": "t", "file": "binlog.1", "pos": 900, "row": row}
        return json.dumps({"key": {"id": key}, "value": {"op": op, "after": {"id": key, "v": value}, "source": source}}).encode()

    bodies = [at("c", 1, "1", 0), at("c", 2, "1", 1), at("u", 2, "2", 0)]
    messages = [Message(0, offset, body) for offset, body in enumerate(bodies)]
    tables = Memory()
    for start in range(0, 3, cut):
        tables.apply(messages[start : start + cut])
    assert tables.rows()["t"] == {(1,): {"id": 1, "v": "1"}, (2,): {"id": 2, "v": "2"}}


@pytest.mark.parametrize("cut", [1, 2, 5])
@pytest.mark.parametrize("turns", [(0, 0, 0, 1, 1), (1, 1, 0, 0, 0), (0, 1, 0, 1, 0)])
def test_a_truncate_that_nothing_orders_stops_its_table_however_batches_are_cut(cut: int, turns: tuple[int, ...]) -> None:
    queues = {
        0: [event("c", None, {"id": 1}), event("t", None, None), event("c", None, {"id": 2})],
        1: [event("c", None, {"id": 3}), event("c", None, {"id": 4})],
    }
    messages = [Message(queue, len(turns[:place]) - turns[:place].count(1 - queue), b"") for place, queue in enumerate(turns)]
    messages = [Message(one.queue, one.offset, queues[one.queue][one.offset]) for one in messages]
    tables = Memory(truncates="ordered")
    for start in range(0, 5, cut):
        tables.apply(messages[start : start + cut])
    assert tables.stopped == {TableId("shop", "t"): {0: (1, UNORDERED)}}
    assert (1,) in tables.rows()["t"]
    assert (2,) not in tables.rows()["t"]


def test_a_truncate_before_anything_else_of_its_table_stops_it_too_unless_truncates_are_ignored() -> None:
    messages = [Message(0, 0, event("t", None, None)), Message(1, 0, event("c", None, {"id": 3}))]
    for cut in (1, 2):
        tables = Memory(truncates="ordered")
        for start in range(0, 2, cut):
            tables.apply(messages[start : start + cut])
        assert tables.stopped == {TableId("shop", "t"): {0: (0, UNORDERED)}}
    tables = Memory(truncates="ignore")
    tables.apply([*messages, Message(1, 1, event("t", 7, None))])
    assert (tables.stopped, tables.rows()) == ({}, {"t": {(3,): {"id": 3}}})


def test_without_the_guard_no_truncate_has_a_position() -> None:
    tables = Memory(by_position=False, truncates="ordered")
    tables.apply([Message(0, 0, event("c", 1, {"id": 1})), Message(0, 1, event("t", 2, None))])
    assert tables.stopped == {TableId("shop", "t"): {0: (1, UNORDERED)}}


@pytest.mark.parametrize("turns", [(0, 0), (0, 1), (1, 0)])
def test_a_row_that_moved_takes_along_what_it_had_beside_an_older_truncate(turns: tuple[int, int]) -> None:
    """The truncate is told again, or comes late by another queue; what the source did not log was in the row of the old key."""

    def at(position: int, op: str, before: Any, after: Any) -> bytes:
        source = {"connector": "mysql", "db": "shop", "table": "t", "file": "binlog.1", "pos": position, "row": 0}
        key = after and {"id": after["id"]}
        return json.dumps({"key": key, "value": {"op": op, "before": before, "after": after, "source": source}}).encode()

    made = at(11, "c", None, {"id": 1, "v": "x"})
    moved = at(12, "u", {"id": 1}, {"id": 2, "v": MARKER})
    for cut in (1, 2):
        tables = Memory()
        tables.apply([Message(turns[0], 0, made)])
        late = [Message(turns[0], 1, moved), Message(turns[1], 2, at(10, "t", None, None))]
        for start in range(0, 2, cut):
            tables.apply(late[start : start + cut])
        assert tables.rows()["t"] == {(2,): {"id": 2, "v": "x"}}


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("goes", [True, False])
def test_a_row_that_moved_has_nothing_of_the_row_that_got_its_key_later(positions: bool, goes: bool) -> None:
    """In the same batch; with positions also where all is told again behind it."""

    def at(position: int, op: str, before: Any, after: Any) -> bytes:
        source = {"connector": "mysql", "db": "shop", "table": "t"} | ({"file": "binlog.1", "pos": position} if positions else {})
        key = {"id": (after or before)["id"]}
        return json.dumps({"key": key, "value": {"op": op, "before": before, "after": after, "source": source}}).encode()

    told = [
        at(11, "c", None, {"id": 1, "v": "x"}),
        at(12, "u", {"id": 1}, {"id": 2, "v": MARKER}),
        at(13, "c", None, {"id": 1, "v": "y"}),
    ]
    if goes:
        told.append(at(14, "d", {"id": 1}, None))
    told += told[1:] if positions else []
    messages = [Message(0, offset, body) for offset, body in enumerate(told)]
    for cut in range(len(messages)):
        tables = Memory()
        tables.apply(messages[:cut])
        tables.apply(messages[cut:])
        rows = {(2,): {"id": 2, "v": "x"}}
        assert tables.rows()["t"] == (rows if goes else rows | {(1,): {"id": 1, "v": "y"}})
