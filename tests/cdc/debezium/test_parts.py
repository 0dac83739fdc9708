"""Positions, records, the sender, the state and the history, without a Java."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.capture import record_sender
from penstock.cdc.capture.positions import has_caught_up, is_between, rows_go_on_at, snapshot_of
from penstock.cdc.capture.record_sender import Boundary, RecordSender
from penstock.cdc.capture.records import ConnectSchemas
from penstock.cdc.capture.records import heartbeat as make_beat
from penstock.cdc.capture.state import RowsChunk
from penstock.cdc.debezium.errors import HistoryLost
from penstock.cdc.debezium.follower import boundary
from penstock.cdc.debezium.history import SchemaHistory
from penstock.cdc.debezium.java import find_jvm, java_version
from penstock.cdc.debezium.memory import EVENTS_MIN, QUIET_S, BurstDetector
from penstock.cdc.debezium.positions import (
    FILE_BITS,
    POS_BITS,
    ROW_BITS,
    between,
    file_number,
    place_text,
    sequence_of,
)
from penstock.cdc.debezium.queries import KeyColumn, ServerTable, SourceColumn, table_behind
from penstock.cdc.debezium.records import heartbeat_ms, record_of, schemas_of, snapshot_truncate
from penstock.cdc.debezium.rows import RowsReader, whole_key
from penstock.cdc.debezium.state import EngineState, EngineStateStore
from penstock.cdc.events.debezium import decode_event, parse_change
from penstock.cdc.events.standard_envelope import standard_change
from penstock.log.errors import DataDamaged, FencedError, InvalidArgument, LimitExceeded, MissingDependency
from penstock.log.runtime.portal import Portal
from penstock.log.stores import open_store
from penstock.log.stores.protocol import Conflict, PutMode
from tests.cdc.capture.resources import resources_of

# --- Positions -------------------------------------------------------------------------------------------------------------------

PLACES = st.tuples(
    st.integers(0, (1 << FILE_BITS) - 1),
    st.integers(0, (1 << POS_BITS) - 1),
    st.integers(0, (1 << ROW_BITS) - 65),
    st.sampled_from("dc"),
)


@given(PLACES, PLACES)
def test_sequences_are_ordered_as_places_are(one: tuple[int, int, int, str], other: tuple[int, int, int, str]) -> None:
    def number(place: tuple[int, int, int, str]) -> int:
        return sequence_of(f"binlog.{place[0]:06}", *place[1:])

    def ordered(place: tuple[int, int, int, str]) -> tuple[int, int, int, bool]:
        return (*place[:3], place[3] == "c")

    assert 0 <= number(one) < 1 << 63
    assert (number(one) < number(other)) == (ordered(one) < ordered(other))


@given(PLACES, st.integers(0, (1 << FILE_BITS) - 1), st.integers(4, (1 << POS_BITS) - 1), st.integers(0, 1000))
def test_a_place_lies_behind_all_changes_before_it_and_before_all_others(
    change: tuple[int, int, int, str], file: int, pos: int, snapshot: int
) -> None:
    number, other = between(f"binlog.{file:06}", pos, snapshot), sequence_of(f"binlog.{change[0]:06}", *change[1:])
    assert 0 <= number < 1 << 63
    assert (other < number) == (change[:2] < (file, pos))
    assert is_between(number)
    assert not is_between(other)
    assert place_text(number) == f"{file:06}:{pos}"
    assert not is_between(-1)


def test_rows_begin_another_reading_where_a_place_has_caught_up() -> None:
    first = rows_go_on_at(-1, -1)
    assert first == 0
    assert rows_go_on_at(10, between("b.1", 50, 0)) == 1 << 40
    assert rows_go_on_at(10, sequence_of("b.1", 50, 0, "u")) == 11
    assert rows_go_on_at(1 << 40, between("b.1", 50, 0)) == (1 << 40) + 1
    assert snapshot_of(1 << 40) == 1
    assert not has_caught_up(between("b.1", 50, 0), 1 << 40)
    assert has_caught_up(between("b.1", 50, 1), 1 << 40)


def test_a_place_agrees_only_with_the_reading_that_it_names_however_many_there_were() -> None:
    rows = rows_go_on_at(-1, -1)
    for number in range(300):
        told = between("binlog.000001", 100 + number, snapshot_of(rows))
        assert has_caught_up(told, rows)
        for _ in range(3):  # snapshots that no change comes between
            rows = rows_go_on_at(rows, told)
            assert snapshot_of(rows) == number + 1
            assert not has_caught_up(told, rows)


@pytest.mark.parametrize(
    ("file", "pos", "row", "what"),
    [
        (f"b.{1 << FILE_BITS}", 4, 0, "number of the binlog file"),
        ("b.1", 1 << POS_BITS, 0, "position"),
        ("b.1", 4, 1 << ROW_BITS, "row"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(file: str, pos: int, row: int, what: str) -> None:
    with pytest.raises(LimitExceeded, match=what):
        sequence_of(file, pos, row, "u")


def test_a_file_without_a_number_is_refused() -> None:
    with pytest.raises(DataDamaged):
        file_number("binlog")


def test_what_is_counted_within_a_transaction_is_left_out_of_the_place_to_go_on() -> None:
    """As MariaDB's connector tells it after ALTER TABLE, and then some heartbeats of the server."""
    told = {
        "transaction_id": "0-7-16",
        "ts_sec": 1,
        "file": "b.1",
        "pos": 212,
        "gtids": "0-7-15",
        "server_id": 7,
        "event": 17,
        "row": 2,
    }
    assert boundary(told) == {"ts_sec": 1, "file": "b.1", "pos": 212, "gtids": "0-7-15", "server_id": 7}


# --- Records ---------------------------------------------------------------------------------------------------------------------

ROW = {"type": "struct", "fields": [{"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at", "optional": True}]}
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{**ROW, "field": "before"}, {**ROW, "field": "after"}, {"type": "string", "field": "op"}]}
)
KEY_SCHEMA = json.dumps({"type": "struct", "fields": [{"type": "int32", "field": "id"}]})


def told(op: str, pos: int = 484, row: int | None = 0, **more: Any) -> bytes:
    """A change as MySQL's connector 3.5 writes it."""
    place = {
        "version": "3.5.0.Final",
        "connector": "mysql",
        "name": "p",
        "ts_ms": 5,
        "snapshot": "false",
        "db": "shop",
        "sequence": None,
    }
    place |= {
        "table": "users",
        "server_id": 223344,
        "gtid": "24bc7850-2c16-11e6-a073-0242ac110002:5",
        "file": "mysql-bin.000003",
        "pos": pos,
    }
    place |= {"row": row, "thread": 7, "query": None}
    after = None if op in "dt" else {"id": 7, "at": 1_000_000}
    value = {"before": {"id": 7, "at": 0} if op in "ud" else None, "after": after, "source": place, "op": op, "ts_ms": 6, **more}
    return json.dumps(value, separators=(",", ":")).encode()


KNOWN = {"0": schemas_of(KEY_SCHEMA, SCHEMA)}


@pytest.mark.parametrize("op", ["c", "u", "d", "r"])
def test_the_sync_reads_what_is_sent(op: str) -> None:
    record = record_of(b'{"id":7}', told(op), KNOWN, "0")
    assert record is not None
    assert (record.message_group, record.tag, record.keys, record.table) == ("shop.users-7", "users", ("users-7",), "shop.users")
    change = standard_change(record.body)
    assert change is not None
    assert change == parse_change(decode_event(record.body))
    assert (change.op, change.key, change.table, change.origin) == (op, {"id": 7}, "users", "24bc7850-2c16-11e6-a073-0242ac110002")
    assert change.schema_of_row is not None
    assert change.schema_of_row.fields["at"].name == "io.debezium.time.MicroTimestamp"


def test_a_key_that_changes_is_two_messages_in_their_order() -> None:
    """The delete and the create stand at one place."""
    gone, there = (record_of(b'{"id":7}', told(op, row=3), KNOWN, "0") for op in "dc")
    assert gone is not None
    assert there is not None
    assert gone.sequence < there.sequence


def test_a_truncate_has_no_row_whatever_the_connector_says() -> None:
    first, again = (record_of(b"null", told("t", row=row), KNOWN, "0") for row in (6, None))
    assert first is not None
    assert again is not None
    assert first.sequence == again.sequence
    assert first.message_group == "shop.users"
    change = parse_change(decode_event(first.body))
    assert change is not None
    assert (change.op, change.position) == ("t", (3 << 32 | 484) << 12)


def test_records_about_the_stream_are_no_messages() -> None:
    beat = b'{"ts_ms":17}'
    assert record_of(b'{"serverName":"p"}', beat, {}, "0") is None
    assert heartbeat_ms(beat) == 17
    for other in (
        b'{"status":"BEGIN","id":"0-7-14","ts_ms":17}',
        b'{"source":{"db":"shop"},"ts_ms":1,"ddl":"ALTER TABLE x","tableChanges":[]}',
    ):
        assert record_of(b"{}", other, {}, "0") is None
        assert heartbeat_ms(other) is None


def test_a_row_without_a_key_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no primary key"):
        record_of(b"null", told("c"), KNOWN, "0")


def test_a_snapshot_s_truncate_lies_before_its_rows() -> None:
    change = parse_change(
        decode_event(snapshot_truncate("mariadb", "p", ("shop", "users"), {"file": "b.000003", "pos": 484}, 9).body)
    )
    read = record_of(b'{"id":7}', told("r"), KNOWN, "0")
    assert read is not None
    row = parse_change(decode_event(read.body))
    assert change is not None
    assert row is not None
    assert change.position is not None
    assert row.position is not None
    assert (change.op, change.source.table) == ("t", "users")
    assert change.position < row.position


# --- The sender ------------------------------------------------------------------------------------------------------------------


class Sent:
    """A producer that keeps the sequences of its batches."""

    def __init__(self, last_sequence: int) -> None:
        self.last_sequence, self.batches, self.through = last_sequence, list[list[int]](), list[int | None]()

    def send_batch(self, table: Any, *, through: int | None = None) -> Any:
        self.batches.append(table.column("sequence").to_pylist())
        self.through.append(through)
        return SimpleNamespace(done=lambda: True, result=lambda: None)


def records(*places: int) -> list[Any]:
    return [record_of(b'{"id":7}', told("u", pos=pos), KNOWN, "0") for pos in places]


def place(pos: int, snapshot: int = 0) -> Boundary:
    return Boundary(f"at {pos}", between("mysql-bin.000003", pos, snapshot))


def test_what_an_earlier_life_has_sent_is_left_out() -> None:
    (_, second, _) = records(10, 20, 30)
    producer = Sent(second.sequence)
    sender = RecordSender(producer)  # type: ignore[arg-type]
    assert sender.add(records(10, 20, 30), place(50), 0.0)
    sender.settle()
    assert (len(producer.batches), len(producer.batches[0])) == (1, 1)
    assert (sender.events, sender.duplicates, sender.offset) == (1, 2, "at 50")


def opened(producer: Sent, *, whole_from: int = 4, heartbeat: bool = False, snapshot: int = 0) -> RecordSender:
    beat = (lambda number: make_beat("p", number, 7)) if heartbeat else None
    return RecordSender(producer, whole_from=place(whole_from, snapshot).number, heartbeat=beat)  # type: ignore[arg-type]


def test_the_changes_of_a_transaction_wait_for_its_end() -> None:
    producer = Sent(-1)
    sender = opened(producer)
    sender.add(records(10, 20, 30), place(15), 0.0)
    assert (len(producer.batches[0]), producer.through) == (1, [place(15).number])
    assert not sender.tick(1.0)
    sender.add([], place(50), 1.0)
    assert (len(producer.batches[1]), producer.through[1]) == (2, place(50).number)


def test_they_wait_neither_for_long_nor_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Sent(-1)
    sender = opened(producer)
    sender.add(records(10), place(5), 0.0)
    sender.add([], place(5), 1.5)
    assert sender.tick(2.0)
    monkeypatch.setattr(record_sender, "HELD_RECORDS_MAX", 2)
    sender.add(records(20, 30), place(5), 3.0)
    assert producer.through == [None, None]
    sender.settle()
    assert sender.offset == "at 5"


def test_no_place_is_named_before_that_of_the_rows_nor_behind_what_was_sent() -> None:
    producer = Sent(-1)
    sender = opened(producer, whole_from=40)
    sender.add(records(10), place(20), 0.0)
    sender.add(records(30), place(40), 0.0)
    sender.add(records(50), place(45), 0.0)
    assert sender.tick(9.0)
    sender.add([], place(45), 9.0)
    assert producer.through == [None, place(40).number, None]


def test_a_heartbeat_tells_a_place_once_for_each_snapshot() -> None:
    producer = Sent(-1)
    sender = opened(producer, heartbeat=True)
    for _ in range(2):
        sender.add([], place(20), 0.0)
    assert (producer.batches, producer.through) == ([[place(20).number]], [place(20).number])
    again = Sent(place(20).number)
    opened(again, heartbeat=True, snapshot=1).add([], place(20, 1), 0.0)
    assert again.through == [place(20, 1).number]


def test_two_changes_at_one_place_are_refused() -> None:
    """As those of a transaction that MySQL has written compressed."""
    sender = RecordSender(Sent(-1))  # type: ignore[arg-type]
    sender.add(records(10), place(20), 0.0)
    with pytest.raises(DataDamaged, match="one position") as caught:
        sender.add(records(10), place(20), 0.0)
    assert "binlog_transaction_compression" in str(caught.value.hint)


# --- State and history -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def states(tmp_path: Path, portal: Portal) -> Any:
    return lambda: EngineStateStore(open_store(str(tmp_path / "lake")), portal.run, topic="t", name="n")


def test_the_state_is_what_was_saved_and_only_one_process_writes_it(states: Any) -> None:
    first, second = states(), states()
    assert first.load() is None
    state = EngineState(
        "life",
        "mariadb",
        "7 x",
        '{"file":"binlog.000007","pos":4}',
        ("a.b", "a.c"),
        ("a.b",),
        RowsChunk("a.b", False, (1, 2), (3, 4), 17),
        history=2,
    )
    first.save(state)
    assert second.load() == state
    second.save(EngineState("life", "mariadb", "7 x"))
    with pytest.raises(FencedError, match="another capture of this name"):
        first.save(state)


def test_the_process_that_opened_its_producer_last_takes_the_state_over_and_keeps_it(states: Any) -> None:
    first, second, third = states(), states(), states()
    assert first.take_over("life", (5, 0)) is None
    first.save(state := EngineState("life", "mariadb", "7 x", opened=(5, 0)))
    assert first.take_over("life", (5, 0)) == state
    assert second.take_over("life", (5, 1)) == replace(state, opened=(5, 1))
    with pytest.raises(FencedError, match="another capture of this name"):
        first.save(state)
    with pytest.raises(FencedError, match="another capture of this name"):
        first.take_over("life", (5, 0))
    assert second.take_over("life", (5, 1)) == replace(state, opened=(5, 1))
    assert third.take_over("another life", (1, 0)).life == "life"  # it is made anew


@pytest.mark.parametrize(
    "offset", ["", "7", "[]", "{}", '{"file":7,"pos":4}', '{"file":"binlog.000007","pos":-4}', '{"file":"b.1","pos":4,"more":1}']
)
def test_a_place_that_is_none_is_damaged(states: Any, offset: str) -> None:
    states().save(EngineState("life", "mariadb", "7 x", offset))
    with pytest.raises(DataDamaged, match=r"debezium/n/state"):
        states().load()


def test_the_history_goes_into_the_lake_line_by_line(states: Any, tmp_path: Path) -> None:
    kept, path = states(), tmp_path / "history"
    kept.expect_history(0)
    kept.add_history(0, b"one\n")
    path.write_bytes(kept.history(1))
    history = SchemaHistory(path, kept, 1)
    assert not history.keep()
    with path.open("ab") as file:
        file.write(b"two\nhal")
    assert history.keep()
    assert not history.keep()
    assert (history.parts, kept.history(2)) == (2, b"one\ntwo\n")
    with pytest.raises(HistoryLost):
        kept.history(3)


def test_a_process_that_stood_still_spoils_no_history(states: Any) -> None:
    """It knew of one statement when it was stopped; the one that took over has followed two by then."""
    first, second = states(), states()
    first.expect_history(0)
    first.add_history(0, b"tables\n")
    first.history(1)
    second.history(1)
    second.add_history(1, b"one\ntwo\n")
    with pytest.raises(FencedError, match="another capture of this name"):
        first.add_history(1, b"one\n")
    assert states().history(2) == b"tables\none\ntwo\n"


def test_a_part_that_an_earlier_process_put_late_is_replaced_by_who_has_the_state(states: Any) -> None:
    first, second, third = states(), states(), states()
    first.save(EngineState("life", "mariadb", "7 x", opened=(1, 0)))
    first.history(0)
    second.take_over("life", (2, 0))
    second.history(0)
    first.add_history(0, b"late\n")
    second.add_history(0, b"one\n")
    assert states().history(1) == b"one\n"
    third.take_over("life", (3, 0))
    third.history(1)
    third.add_history(1, b"three\n")
    with pytest.raises(FencedError):
        second.add_history(1, b"two\n")
    assert states().history(2) == b"one\nthree\n"


def test_a_part_that_is_refused_though_nothing_has_come_is_another_s(states: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = states()
    one.save(EngineState("life", "mariadb", "7 x"))
    one.expect_history(0)
    one.add_history(0, b"tables\n")
    one.expect_history(0)
    tries = iter([Conflict("refused")])

    async def put(key: str, data: bytes, *, mode: PutMode) -> NoReturn:
        raise next(tries)

    monkeypatch.setattr(one._store, "put", put)
    with pytest.raises(FencedError):
        one.add_history(0, b"one\n")


def test_a_part_that_an_earlier_process_has_not_noted_is_replaced(states: Any) -> None:
    """Should it put another one late, neither goes on as if that were its own."""
    first, second = states(), states()
    first.expect_history(0)
    first.add_history(0, b"tables\n")
    first.add_history(1, b"one\n")
    second.history(1)
    second.add_history(1, b"one\ntwo\n")
    first.add_history(2, b"two\n")
    with pytest.raises(FencedError):
        second.add_history(2, b"three\n")
    third = states()
    assert third.history(2) == b"tables\none\ntwo\n"
    third.add_history(2, b"three\n")
    assert third.history(3) == b"tables\none\ntwo\nthree\n"


def test_a_part_that_another_life_has_left_is_replaced(states: Any) -> None:
    """As all parts are once more, after a history was begun anew."""
    former, later = states(), states()
    former.expect_history(0)
    for number in range(3):
        former.add_history(number, b"former\n")
    later.expect_history(0)
    for number in range(3):
        later.add_history(number, b"later\n")
    assert later.history(3) == 3 * b"later\n"


def test_signals_are_kept_until_they_are_noted(states: Any) -> None:
    kept = states()
    kept.signal("one", ["a.b"])
    kept.signal("two", ["a.c", "a.b"])
    assert sorted(kept.signals().values()) == [("a.b",), ("a.c", "a.b")]
    kept.forget_signals(kept.signals())
    assert kept.signals() == {}


# --- Rows ------------------------------------------------------------------------------------------------------------------------


@dataclass
class Keys:
    """A server that knows keys only."""

    resumable: bool

    def table(self, joined: str) -> ServerTable:
        database, name = joined.split(".")
        return ServerTable(database, name, (SourceColumn("id", "int"),), (KeyColumn("id", self.resumable),))


def planned(chunk: RowsChunk, last_sequence: int, *, resumable: bool = True) -> tuple[EngineState, str]:
    """What is read after a kill, and how."""
    server: Any = Keys(resumable)
    state = EngineState("l", "mariadb", "s", "{}", ("a.b", "a.c"), (), chunk, history=1)
    reader = RowsReader("mariadb", "p", server, state, resources_of(Sent(last_sequence), None), on_rows=lambda count: None)
    return reader.state, reader.properties()["snapshot.select.statement.overrides.`a`.`b`"]


@pytest.mark.parametrize(("last_sequence", "begins"), [(9, "(r.`id`) > (5)"), (10, "(r.`id`) > (8)")])
def test_reading_goes_on_with_the_chunk_that_was_planned_or_behind_it(last_sequence: int, begins: str) -> None:
    state, query = planned(RowsChunk("a.b", False, (5,), (8,), 10), last_sequence)
    assert query == f"SELECT r.`id` FROM `a`.`b` AS r WHERE {begins} ORDER BY r.`id`"
    assert state.emptied == ()


@pytest.mark.parametrize(
    ("chunk", "last_sequence", "emptied"),
    [
        (RowsChunk("a.b", True, None, None, 10), 9, ()),  # nothing of the table is there
        (RowsChunk("a.b", True, None, None, 10), 10, ("a.b",)),
        (RowsChunk("a.b", False, None, None, 10), 9, ("a.b",)),
    ],
)
def test_a_table_whose_key_is_no_number_is_read_from_its_beginning(
    chunk: RowsChunk, last_sequence: int, emptied: tuple[str, ...]
) -> None:
    state, query = planned(chunk, last_sequence, resumable=False)
    assert query == "SELECT r.`id` FROM `a`.`b` AS r ORDER BY r.`id`"
    assert state.emptied == emptied


@pytest.mark.parametrize(
    ("key", "names", "behind"),
    [
        ({"id": 7}, ("id",), (7,)),
        ({"line": 2, "id": 7}, ("id", "line"), (7, 2)),
        ({"code": 7}, ("id",), None),  # of message.key.columns
        ({"id": 7, "code": 1}, ("id",), None),
        ({"id": 7}, ("id", "line"), None),
        ({"id": "a"}, ("id",), None),
        (None, ("id",), None),
        ({}, (), None),
    ],
)
def test_reading_goes_on_behind_the_primary_key_only(
    key: dict[str, Any] | None, names: tuple[str, ...], behind: tuple[int, ...] | None
) -> None:
    assert whole_key(key, [KeyColumn(name, True) for name in names]) == behind


# --- Java ------------------------------------------------------------------------------------------------------------------------


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cdc.debezium.java._FOLDERS", (str(tmp_path / "*"),))
    for name, version in (("a", "1.8.0_392"), ("b", "21.0.2")):
        library = tmp_path / name / "lib" / "server" / "libjvm.so"
        library.parent.mkdir(parents=True)
        library.touch()
        (tmp_path / name / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    assert java_version(tmp_path / "a") == 8
    assert find_jvm({"PATH": ""}) == tmp_path / "b" / "lib" / "server" / "libjvm.so"
    (tmp_path / "b" / "release").unlink()
    with pytest.raises(MissingDependency, match="needs Java") as caught:
        find_jvm({"PATH": ""})
    assert "Java 8 in" in str(caught.value.observed)


def test_schemas_keep_what_says_the_types() -> None:
    assert schemas_of(None, SCHEMA) == ConnectSchemas(
        b"null", json.dumps({"type": "struct", "fields": [{**ROW, "field": "after"}]}, separators=(",", ":")).encode()
    )


# --- Memory ----------------------------------------------------------------------------------------------------------------------


def test_memory_is_given_back_once_behind_each_burst() -> None:
    burst = BurstDetector(0.0)
    assert not burst.is_over(0, 1.0)
    assert burst.is_over(0, QUIET_S)  # what went before may have read tables
    assert not burst.is_over(0, 100.0)
    assert not burst.is_over(EVENTS_MIN - 1, 101.0)
    assert not burst.is_over(EVENTS_MIN - 1, 200.0)  # too few
    assert not burst.is_over(EVENTS_MIN, 201.0)
    assert not burst.is_over(EVENTS_MIN + 1, 205.0)
    assert not burst.is_over(EVENTS_MIN + 1, 205.0 + QUIET_S - 0.1)
    assert burst.is_over(EVENTS_MIN + 1, 205.0 + QUIET_S)
    assert not burst.is_over(EVENTS_MIN + 1, 1000.0)


@pytest.mark.parametrize(
    ("pos", "table"), [(2000, None), (2038, "no_day.u"), (2134, "no_day.u"), (2188, "odd.day.t (x)"), (2270, None)]
)
def test_the_table_of_an_event_is_the_one_that_its_number_was_given_to_before(pos: int, table: str | None) -> None:
    said = (
        (2000, "table_id: 18 flags: STMT_END_F"),
        (2038, "table_id: 18 (odd.day.t (x))"),
        (2086, "table_id: 22 (no_day.u)"),
        (2134, "table_id: 22"),
        (2188, "table_id: 18 flags: STMT_END_F"),
        (2270, "COMMIT /* xid=23 */"),
    )
    assert table_behind([("b.1", str(place), "of a type", "7", "0", text) for place, text in said], pos) == table
