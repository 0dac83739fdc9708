from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.targets import Declared
from penstock.cdc.types import exact_json
from tests.cdc import nasty
from tests.cdc.applied import Memory
from tests.cdc.reference import Message, Reference
from tests.cdc.streams import By, Stream, batches, streams
from tests.cdc.test_reference import in_queues_by_row, in_the_source


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_nasty_stream_ends_with_the_tables_written_by_hand(tasks: int) -> None:
    memory = Memory(Declared.of(nasty.DECLARED, None), tasks=tasks)
    for batch in nasty.batches():
        memory.apply(batch)
    assert memory.stopped == {}
    found = memory.rows()
    for table, wanted in nasty.expected().items():
        columns = next(iter(wanted.values())).keys()
        rows = {key: {name: row.get(name) for name in columns} for key, row in found[table].items()}
        # Arrays and structs are JSON text in targets.
        assert rows == {key: {name: as_text(value) for name, value in row.items()} for key, row in wanted.items()}, table


def as_text(value: Any) -> Any:
    return exact_json(value) if isinstance(value, list | dict) else value


def applied(stream: Stream, cut: list[list[Message]], *, tasks: int) -> dict[str, dict[Any, Any]]:
    memory = Memory(Declared.of(stream.declared, None), tasks=tasks)
    for batch in cut:
        memory.apply(batch)
    assert memory.stopped == {}
    return memory.rows()


def check(stream: Stream, data: st.DataObject, by: By) -> None:
    in_the_source(stream, applied(stream, data.draw(batches(stream.told, by)), tasks=data.draw(st.integers(1, 3))))


@given(streams(flavours=["postgres", "mysql"]), st.data())
def test_tables_in_their_queues_end_as_the_source(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table")


@given(streams(without=["restart"]), st.data())
def test_without_positions_too_as_long_as_nothing_is_sent_again(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "table")


@given(in_queues_by_row, st.data())
def test_rows_in_their_queues_end_as_the_source(stream: Stream, data: st.DataObject) -> None:
    check(stream, data, "row")


@given(streams(), st.data())
def test_one_queue_in_any_batches_ends_as_the_judge_says(stream: Stream, data: st.DataObject) -> None:
    cut = [[Message(0, message.offset, message.body) for message in batch] for batch in data.draw(batches(stream.told, "table"))]
    line = [message for batch in cut for message in batch]
    numbered = iter(range(len(line)))
    cut = [[Message(0, next(numbered), message.body) for message in batch] for batch in cut]
    reference = Reference(declared=stream.declared)
    for batch in cut:
        reference.apply(batch)
    found = applied(stream, cut, tasks=1)
    for (_, table), rows in reference.rows().items():
        names = {name for row in rows.values() for name in row}
        assert {k: {n: row.get(n) for n in names} for k, row in found.get(table, {}).items()} == {
            k: {n: row.get(n) for n in names} for k, row in rows.items()
        }
