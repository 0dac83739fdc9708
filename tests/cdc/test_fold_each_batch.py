"""The fold after each batch, not only in the end, over any queues: rows and their positions are what the judge says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.targets import Declared
from tests.cdc.applied import Memory
from tests.cdc.reference import Message, Reference
from tests.cdc.streams import By, Stream, batches, streams


def known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def check(stream: Stream, data: st.DataObject, by: By, *, guard: bool = True) -> None:
    tables = Memory(Declared.of(stream.declared, None), guard, tasks=data.draw(st.integers(1, 2)))
    reference = Reference(stream.declared, guard=guard)
    cut = data.draw(batches(stream.told, by))
    for batch in cut:
        reference.apply(batch)
        tables.apply(batch)
        wanted = {source: state.rows for source, state in reference.tables.items()}
        for source, rows in wanted.items():
            there = tables.tables.get(source, {})
            assert {key: (known(row.values), row.position) for key, row in there.items()} == {
                key: (known(row.values), row.position) for key, row in rows.items()
            }


@given(streams(), st.data())
def test_tables_in_their_queues(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table")


@given(streams(), st.data())
def test_tables_in_their_queues_without_the_guard(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table", guard=False)


# Rows of a snapshot without positions, and a truncate by another queue in the same batch: which came first cannot be told.
in_queues_by_row = streams(flavours=["mysql"], splits=True) | streams(splits=True, without=["truncate"])


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
