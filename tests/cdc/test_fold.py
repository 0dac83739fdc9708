from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.fold import Fold, Plan, Refused
from penstock.cdc.targets import Column, Declared, Progress, Target
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
    cut = data.draw(batches(stream.told, by))
    in_the_source(stream, applied(stream, cut, tasks=data.draw(st.integers(1, 3))))


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


def changed(op: str, key: int, **row: Any) -> bytes:
    value = {"op": op, "before": None, "after": {"id": key, **row}, "source": {"table": "t", "schema": "s"}}
    return json.dumps({"key": {"id": key}, "value": value}).encode()


def test_what_cannot_be_applied_stops_its_table_in_its_queue_and_what_nobody_can_read_the_queue() -> None:
    source = ("s", "t")
    target = Target(source, "t", (Column("id", "bigint"), Column("n", "int")), ("id",))
    fold = Fold(Plan({source: target}))
    for queue, bodies in {
        0: [changed("c", 1, n=1), changed("x", 2, n=2), changed("c", 3, n=3)],
        1: [changed("c", 4, n=2**31), changed("c", 5, n=5)],
        2: [changed("c", 6, n=6), b"no json", changed("c", 7, n=7)],
        3: [b'{"ts_ms": 1}', b"null", changed("c", None, n=8)],  # type: ignore[arg-type]
    }.items():
        for offset, body in enumerate(bodies):
            fold.add(queue, offset, body)
    folded = fold.result()
    assert sorted(key for key, _ in folded.nets[source]) == [(1,), (6,)]
    assert {queue: one.place for queue, one in folded.refused[source].items()} == {0: (0, 1), 1: (1, 0), 3: (3, 2)}
    assert folded.refused[source][0].reason.startswith("this is no Debezium envelope: fields ")
    assert folded.refused[source][1].reason == "column n: 2147483648 does not fit int"
    assert folded.refused[source][3].reason == "key column id is NULL"
    assert folded.broken == {2: Refused((2, 1), "this is no JSON: b'no json'")}
    assert folded.ignored == 2


def test_events_before_a_target_s_vector_and_other_tables_change_nothing() -> None:
    source = ("s", "t")
    target = Target(source, "t", (Column("id", "bigint"),), ("id",), Progress({0: 2}))
    fold = Fold(Plan({source: target}, tables=frozenset({"t"})))
    for offset in range(3):
        fold.add(0, offset, changed("c", offset))
    fold.add(0, 3, changed("c", 9).replace(b'"table": "t"', b'"table": "other"'))
    folded = fold.result()
    assert [key for key, _ in folded.nets[source]] == [(2,)]
    assert (folded.passed, folded.ignored, folded.seen) == (2, 1, {})


def test_what_came_before_an_event_that_stops_a_new_table_is_applied() -> None:
    memory = Memory()
    memory.apply([Message(0, 0, changed("c", 1, n=1)), Message(0, 1, changed("x", 2)), Message(0, 2, changed("c", 3))])
    assert memory.rows() == {"t": {(1,): {"id": 1, "n": 1}}}
    assert [place for place, _ in memory.stopped[("s", "t")].values()] == [1]
    assert memory.targets[("s", "t")].progress.offsets == {0: 1}
