from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.choice.tables import Policy
from penstock.cdc.events.conversion import exact_json
from penstock.cdc.events.placeholders import PLACEHOLDER as MARKER
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.stop_message import STOPPED
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.fold_result import FoldResult, RefusedEvent, combined
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.target import SourceWatermark, TableDeclarations, Target, TargetProgress
from tests.cdc import nasty
from tests.cdc.applied import Memory
from tests.cdc.columns import target_column
from tests.cdc.reference import Message, Reference
from tests.cdc.streams import By, Stream, batches, streams
from tests.cdc.sync.streams import event
from tests.cdc.test_reference import in_queues_by_row, in_the_source


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_nasty_stream_ends_with_the_tables_written_by_hand(tasks: int) -> None:
    memory = Memory(TableDeclarations.of(nasty.DECLARED, None), tasks=tasks)
    for batch in nasty.batches():
        memory.apply(batch)
    assert memory.stopped == {}
    found = memory.rows()
    for table, wanted in nasty.expected().items():
        columns = next(iter(wanted.values())).keys()
        rows = {key: {name: row.get(name) for name in columns} for key, row in found[table].items()}
        # Structs are JSON text in targets.
        assert rows == {key: {name: as_text(value) for name, value in row.items()} for key, row in wanted.items()}, table


def moves_to_a_key_that_was_free(of_old: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Batches: a row goes, another one takes its key without saying all columns, and that one's own key is used again."""
    rows = [event("c", "t", {"id": 1}, {"id": 1, "a": 1, "more": 5}, at=1)]
    rows += [event("c", "t", {"id": 2}, {"id": 2, **of_old}, at=2)] if of_old else []
    told = [
        event("d", "t", {"id": 1}, before={"id": 1}, at=3),
        event("u", "t", {"id": 2}, {"id": 2, "a": 2}, at=4),
        event("u", "t", {"id": 1}, {"id": 1, "a": 3}, before={"id": 2}, at=5),
        event("c", "t", {"id": 2}, {"id": 2, "a": 4}, at=6),
        event("d", "t", {"id": 2}, before={"id": 2}, at=7),
    ]
    return [rows, told, told]


@pytest.mark.parametrize(("of_old", "more"), [({}, None), ({"a": 9}, None), ({"a": 9, "more": 7}, 7)])
def test_a_row_that_takes_a_key_has_nothing_of_the_row_that_was_there(of_old: dict[str, Any], more: int | None) -> None:
    """However it is cut, and told again."""
    rows, told, again = moves_to_a_key_that_was_free(of_old)
    for cut in ([rows, told, again], [[one] for one in (*rows, *told)]):
        memory, offset = Memory(), 0
        for batch in cut:
            memory.apply([Message(0, offset + number, json.dumps(one).encode()) for number, one in enumerate(batch)])
            offset += len(batch)
            if offset >= len(rows) + len(told):
                assert memory.rows()["t"] == {(1,): {"id": 1, "a": 3, "more": more}}


@pytest.mark.parametrize("takes_over", [False, True], ids=["a free key", "a key of before"])
def test_a_row_that_moves_has_nothing_of_what_a_truncate_removed(takes_over: bool) -> None:
    """However it is cut, and told again: a column that nobody says any more is not taken from the row under the old key before."""
    rows = [event("c", "t", {"id": 1}, {"id": 1, "a": 1, "more": 5}, at=1)]
    rows += [event("c", "t", {"id": 2}, {"id": 2, "a": 1, "more": 6}, at=2)] if takes_over else []
    told = [
        event("t", "t", None, at=3),
        event("c", "t", {"id": 1}, {"id": 1, "a": 2}, at=4),
        event("u", "t", {"id": 2}, {"id": 2, "a": 3}, before={"id": 1}, at=5),
    ]
    for cut in ([rows, told, told], [[one] for one in (*rows, *told)], [[*rows, *told]]):
        memory, offset = Memory(), 0
        for batch in cut:
            memory.apply([Message(0, offset + number, json.dumps(one).encode()) for number, one in enumerate(batch)])
            offset += len(batch)
            if offset >= len(rows) + len(told):
                assert memory.rows()["t"] == {(2,): {"id": 2, "a": 3, "more": None}}


def as_text(value: Any) -> Any:
    return exact_json(value) if isinstance(value, dict) else value


def applied(stream: Stream, cut: list[list[Message]], *, tasks: int) -> dict[str, dict[Any, Any]]:
    memory = Memory(TableDeclarations.of(stream.declared, None), tasks=tasks)
    for batch in cut:
        memory.apply(batch)
    assert memory.stopped == {}
    return memory.rows()


def check(stream: Stream, data: st.DataObject, by: By) -> None:
    cut = data.draw(batches(stream.told, by))
    in_the_source(stream, applied(stream, cut, tasks=data.draw(st.integers(1, 3))))


@given(streams(flavours=["postgres", "mysql", "mysql, compressed"]), st.data())
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


def changed(op: str, key: int | str | None, **row: Any) -> bytes:
    value = {"op": op, "before": None, "after": {"id": key, **row}, "source": {"table": "t", "schema": "s"}}
    return json.dumps({"key": {"id": key}, "value": value}).encode()


def test_what_cannot_be_applied_stops_its_table_in_its_queue_and_what_nobody_can_read_the_queue() -> None:
    source = TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"), target_column("n", "int")), ("id",))
    fold = Fold(FoldPlan({source: target}))
    for queue, bodies in {
        0: [changed("c", 1, n=1), changed("x", 2, n=2), changed("c", 3, n=3)],
        1: [changed("c", 4, n=2**31), changed("c", 5, n=5)],
        2: [changed("c", 6, n=6), b"no json", changed("c", 7, n=7)],
        3: [b'{"ts_ms": 1}', b"null", changed("c", None, n=8)],
    }.items():
        for offset, body in enumerate(bodies):
            fold.add(queue, offset, body)
    folded = fold.result()
    assert sorted(key for key, _ in folded.nets[source]) == [(1,), (6,)]
    assert {queue: one.place for queue, one in folded.refused[source].items()} == {0: (0, 1), 1: (1, 0), 3: (3, 2)}
    assert folded.refused[source][0].reason.startswith("this is no Debezium envelope: fields ")
    assert folded.refused[source][1].reason == "column n: 2147483648 does not fit int"
    assert folded.refused[source][3].reason == "key column id is NULL"
    assert folded.broken == {2: RefusedEvent((2, 1), "this is no JSON: b'no json'")}
    assert folded.ignored == 2


def test_an_empty_body_is_a_tombstone_and_what_is_too_much_for_a_reader_stops_its_table_only() -> None:
    source = TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"), target_column("n", "string")), ("id",))
    fold = Fold(FoldPlan({source: target}))
    deep = changed("c", 2, n=0).replace(b'"n": 0', b'"n": ' + b"[" * 5_000 + b'"]{"' + b"]" * 5_000)
    bodies = {
        0: [b"", changed("c", 1, n=1)],
        1: [deep],
        2: [changed("c", 3, n=json.loads("[" * 300 + "]" * 300))],
        3: [changed("c", 4, n="half of a pair: \ud800")],
        4: [changed("c", 5, n=["\udc00"])],
        5: [changed("c", 6, **{"\ud800": 1})],
        6: [changed("c", 7, n=0).replace(b'"n": 0', b'"n": ' + b"9" * 5_000)],
        7: [changed("c", 0, n=0).replace(b'"id": 0', b'"id": ' + b"9" * 5_000)],
        8: [changed("c", 8, n="a pair: \U0001f600")],
    }
    for queue, of_queue in bodies.items():
        for offset, body in enumerate(of_queue):
            fold.add(queue, offset, body)
    folded = fold.result()
    assert folded.broken == {}
    assert {queue: one.reason for queue, one in folded.refused[source].items()} == {
        1: "it is nested too deep to be read",
        2: "column n: it is nested deeper than 200 levels",
        3: "column n: it has half of a surrogate pair, which is no character",
        4: "column n: it has half of a surrogate pair, which is no character",
        5: "column '\\ud800': it has half of a surrogate pair, which is no character",
        7: f"column id: {'9' * 60} does not fit bigint",
    }
    assert {key: net.values[1] for key, net in folded.nets[source]} == {(1,): "1", (7,): "9" * 5_000, (8,): "a pair: \U0001f600"}
    assert folded.ignored == 1


@pytest.mark.parametrize("is_told_again", [False, True])
def test_the_word_of_the_latest_position_counts_on_whether_a_table_is_captured(is_told_again: bool) -> None:
    """A capture that goes on from before tells its words again, behind later ones."""
    read_anew, stands_still = event("t", "t", None, at=3), event("m", "t", None, at=5)
    stands_still["value"]["message"] = {"prefix": STOPPED, "content": "it has no key"}
    fold = Fold(FoldPlan({}))
    for offset, one in enumerate([stands_still, read_anew] if is_told_again else [read_anew, stands_still]):
        fold.add(0, offset, json.dumps(one).encode())
    (left,) = fold.result().coverage.values()
    assert left.reason == "it has no key"


@pytest.mark.parametrize("body", [b" ", b"[" * 5_000, b"[" * 5_000 + b"]" * 5_000, b"9" * 5_000, b"9" * 5_000 + b"x", b"\xff"])
def test_what_names_no_table_is_nobody_s(body: bytes) -> None:
    fold = Fold(FoldPlan({}))
    fold.add(0, 0, body)
    assert list(fold.result().broken) == [0]


@pytest.mark.parametrize(
    ("keys", "first", "reason"),
    [
        ({}, changed("c", None, n=1), "key column id is NULL"),
        ({}, changed("c", MARKER, n=1), "key column id is not logged"),
        ({"t": ["idd"]}, changed("c", 1, n=1), "key column idd is missing"),
        (
            {},
            changed("c", 1, n=1).replace(b'"key": {"id": 1}', b'"key": null'),
            "it has no key, and no key is declared for its table",
        ),
    ],
)
def test_a_table_whose_first_event_has_no_whole_key_stands_still_and_gets_no_target(
    keys: dict[str, list[str]], first: bytes, reason: str
) -> None:
    memory = Memory(TableDeclarations.of(None, keys))
    other = changed("c", 1, n=1).replace(b'"table": "t"', b'"table": "other"')
    memory.apply([Message(0, 0, first), Message(0, 1, other)])
    assert memory.stopped == {TableId("s", "t"): {0: (0, reason)}}
    assert memory.rows() == {"other": {(1,): {"id": 1, "n": 1}}}


def test_a_table_has_a_target_by_other_events_than_those_without_a_whole_key() -> None:
    memory = Memory()
    gone = json.dumps({"value": {"op": "d", "before": {"id": 7}, "source": {"table": "t", "schema": "s"}}}).encode()
    memory.apply(
        [Message(0, 0, gone), Message(0, 1, changed("c", 1)), Message(1, 0, changed("c", None)), Message(1, 1, changed("c", 3))]
    )
    assert memory.stopped == {TableId("s", "t"): {1: (0, "key column id is NULL")}}
    assert memory.rows() == {"t": {(1,): {"id": 1}}}


def test_a_declared_key_counts_before_the_event_s_and_deletes_take_it_from_the_row_before() -> None:
    memory = Memory(TableDeclarations.of(None, {"t": ["tenant", "id"]}))
    gone = {"op": "d", "before": {"tenant": 7, "id": 1}, "source": {"table": "t", "schema": "s"}}
    lost = {**gone, "before": {"id": 1}}
    bodies = [changed("c", 1, tenant=7), changed("c", 1, tenant=8)]
    bodies += [json.dumps({"key": {"id": 1}, "value": value}).encode() for value in (gone, lost)]
    memory.apply([Message(0, offset, body) for offset, body in enumerate(bodies)])
    assert memory.rows() == {"t": {(8, 1): {"tenant": 8, "id": 1}}}
    assert memory.stopped == {TableId("s", "t"): {0: (3, "key column tenant is missing")}}


@pytest.mark.parametrize(("kind", "zero"), [("double", 0.0), ("float", 0.0), ("decimal(4,2)", Decimal("0.00"))])
def test_zeros_of_either_sign_are_one_key_and_nan_is_none(kind: str, zero: object) -> None:
    source = TableId("s", "t")
    fold = Fold(FoldPlan({source: Target(source, "t", (target_column("id", kind), target_column("n", "double")), ("id",))}))
    for queue, said in enumerate(("0.0", "-0.0", '"-0"')):
        fold.add(queue, 0, changed("c", 0, n=-0.0).replace(b'"id": 0', b'"id": ' + said.encode()))
    gone = {"op": "d", "before": None, "source": {"table": "t", "schema": "s"}}
    fold.add(3, 0, json.dumps({"key": {"id": -0.0}, "value": gone}).encode())
    fold.add(4, 0, changed("c", "NaN", n=1))
    fold.add(5, 0, json.dumps({"key": {"id": float("nan")}, "value": gone}).encode())
    folded = fold.result()
    assert [repr(key) for key, _ in folded.nets[source]] == [repr((zero,))] * 4
    assert [repr(net.values) for _, net in folded.nets[source] if net.put] == [repr((zero, -0.0))] * 3
    assert sorted(folded.refused[source]) == [4, 5]


def test_events_that_lie_behind_what_their_queue_has_told_are_counted_until_it_is_there_again() -> None:
    source = TableId("s", "t")

    def at(position: int, op: str = "u") -> bytes:
        place = {"file": f"binlog.{position:06}", "pos": 4, "row": 0}
        return changed(op, 1, n=position).replace(b'"table": "t"', b'"table": "t", ' + json.dumps(place).encode()[1:-1])

    def told(target: Target, queues: dict[int, list[int]], *, by_position: bool = True) -> dict[int, tuple[int, int]]:
        parts = []
        for queue, positions in queues.items():
            fold = Fold(FoldPlan({source: target}, by_position=by_position))
            for offset, position in enumerate(positions):
                fold.add(queue, offset, at(position))
            fold.add(queue, len(positions), changed("u", 1))  # of no position
            parts.append(fold.result())
        return {queue: (one.position >> 44, one.behind) for queue, one in combined(parts).watermarks.get(source, {}).items()}

    target = Target(source, "t", (target_column("id", "bigint"), target_column("n", "bigint")), ("id",))
    assert told(target, {0: [1, 2, 1, 2], 1: [412, 1, 2], 2: []}) == {0: (2, 0), 1: (412, 2)}
    before = replace(
        target, progress=TargetProgress(watermarks={0: SourceWatermark(412 << 44 | 4 << 12, 3), 3: SourceWatermark(7 << 44)})
    )
    assert told(before, {0: [1]}) == {0: (412, 4)}
    assert told(before, {0: [1, 412]}) == {0: (412, 0)}
    assert told(target, {0: [1]}, by_position=False) == {}
    assert told(before, {0: [1]}, by_position=False) == {0: (412, 0)}


def test_a_change_whose_time_no_version_can_have_stops_its_table() -> None:
    source = TableId("s", "t")
    fold = Fold(FoldPlan({source: Target(source, "t", (target_column("id", "bigint"),), ("id",), history=True)}))
    for queue, ts_ms in enumerate((253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001)):
        fold.add(queue, 0, changed("c", 1).replace(b'"table": "t"', b'"table": "t", "ts_ms": %d' % ts_ms))
    assert sorted(fold.result().refused[source]) == [1, 2]


def test_events_before_a_target_s_vector_and_other_tables_change_nothing() -> None:
    source = TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"),), ("id",), TargetProgress({0: 2}))
    fold = Fold(FoldPlan({source: target}, tables=frozenset({"t"})))
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
    assert [place for place, _ in memory.stopped[TableId("s", "t")].values()] == [1]
    assert memory.targets[TableId("s", "t")].progress.offsets == {0: 1}


@pytest.mark.parametrize(
    ("row", "partial"), [({"id": 1, "n": 2}, False), ({"id": 1, "n": MARKER}, True), ({"id": MARKER, "n": 2}, False)]
)
def test_a_table_is_partial_if_rows_lack_columns(row: dict[str, object], partial: bool) -> None:
    source = TableId("s", "t")
    fold = Fold(FoldPlan({source: Target(source, "t", (target_column("id", "bigint"), target_column("n", "string")), ("id",))}))
    value = {"op": "u", "before": None, "after": row, "source": {"table": "t", "schema": "s"}}
    fold.add(0, 0, json.dumps({"key": {"id": 1}, "value": value}).encode())
    folded = fold.result()
    assert [(key, net.values[0]) for key, net in folded.nets[source]] == [((1,), 1)]
    assert (source in folded.partial) is partial


def test_events_of_tables_that_nobody_asked_for_need_not_be_right() -> None:
    fold = Fold(FoldPlan({}, tables=frozenset({"other"})))
    fold.add(0, 0, changed("x", 1))
    folded = fold.result()
    assert (folded.ignored, folded.refused, folded.broken) == (1, {}, {})


def test_a_row_before_that_does_not_say_its_key_had_the_same() -> None:
    source = TableId("s", "t")
    fold = Fold(FoldPlan({source: Target(source, "t", (target_column("id", "bigint"), target_column("n", "int")), ("id",))}))
    fold.add(0, 0, changed("u", 1, n=2).replace(b'"before": null', b'"before": {"n": 1}'))
    folded = fold.result()
    assert folded.refused == {}
    assert [(key, net.put, net.moved) for key, net in folded.nets[source]] == [((1,), True, None)]


def test_what_nobody_can_read_of_a_table_that_nobody_wants_is_ignored() -> None:
    fold = Fold(FoldPlan({}, tables=frozenset({"t"})))
    fold.add(0, 0, changed("x", 1).replace(b'"table": "t"', b'"table": "other"'))
    fold.add(0, 1, changed("x", 1))
    fold.add(1, 0, b"[]")
    folded = fold.result()
    assert (folded.ignored, list(folded.refused), list(folded.broken)) == (1, [TableId("s", "t")], [1])


def test_a_change_at_the_last_truncate_s_position_came_after_it() -> None:
    source = TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"),), ("id",), TargetProgress(truncated=5 << 44 | 4 << 12))
    fold = Fold(FoldPlan({source: target}))
    for file in (4, 5):
        place = b'"table": "t", "file": "binlog.%d", "pos": 4' % file
        fold.add(0, file, changed("c", file).replace(b'"table": "t"', place))
    assert [(key, net.put) for key, net in fold.result().nets[source]] == [((4,), False), ((5,), True)]


ROWS = Target(TableId("public", "t", "shop"), "t", (target_column("id", "int"), target_column("n", "int")), ("id",))


def of_rows(*told: tuple[int, int, dict[str, Any]], policy: Policy = "stop") -> FoldResult:
    fold = Fold(FoldPlan({ROWS.source: ROWS}, policy=policy))
    for queue, offset, one in told:
        fold.add(queue, offset, json.dumps(one).encode())
    return fold.result()


def test_a_table_stands_still_at_the_first_of_several_events_that_cannot_be_applied() -> None:
    unfit = event("c", "t", {"id": 1}, {"id": 1, "n": "x"})
    no_change = event("u", "t", {"id": 2})
    for first, then in ((unfit, no_change), (no_change, unfit), (no_change, no_change)):
        found = of_rows((0, 3, first), (0, 4, then), (1, 0, event("c", "t", {"id": 5}, {"id": 5, "n": 5})))
        assert {queue: one.place for queue, one in found.refused[ROWS.source].items()} == {0: (0, 3)}
        assert found.counts == {ROWS.source: 1}


def test_a_null_of_an_event_that_is_not_applied_is_no_other_event_s() -> None:
    moved = event("u", "t", {"id": 1}, {"id": 1, "n": "x"}, before={"id": "bad", "n": 1})
    found = of_rows((0, 0, moved), (1, 0, event("c", "t", {"id": 5}, {"id": 5, "n": 5})), policy="null")
    assert list(found.refused[ROWS.source]) == [0]
    assert found.rejected == []
