"""What a producer promises, by the public API: places, order, sequences, back-pressure, and what follows a failure."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import linecache
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import ProducerOptions, queue_of, staging
from penstock.log import appender as appender_module
from penstock.log import producer as producer_module
from penstock.log.gathering import linger_s
from penstock.log.lake import Lake as AsyncLake
from penstock.log.settings import TopicSettings
from penstock.log.stores import Fault, FaultKind, FaultStore, MemoryStore
from tests.lakes import TIMEOUT_S, Gate, bodies, is_entry, keys, read_all
from tests.waiting import wait_until

Message = penstock.Message
LONG = timedelta(hours=1)


def connect(store: MemoryStore | None = None, **topic: Any) -> penstock.Lake:
    lake = penstock.connect(store=store or MemoryStore())
    lake.create_topic("orders", **{"message_type": "FIFO", "queues": 4, **topic})
    return lake


def test_a_receipt_tells_where_the_message_is_and_the_reader_finds_it_there() -> None:
    before = datetime.now(UTC)
    sent = Message(b"paid", message_group="user-7", tag="paid", keys=["order-1", "x"], properties={"amount": "10", "empty": ""})
    with connect() as lake:
        with lake.producer("orders") as producer:
            receipt = producer.send(sent)
            result = receipt.result(timeout=TIMEOUT_S)
        assert tuple(result) == (receipt.message_id, queue_of("user-7", 4), 0, False)
        assert len(receipt.message_id) == 32
        assert receipt.done()
        assert receipt.exception() is None
        (found,) = read_all(lake)
    assert (found.topic, found.queue, found.offset, found.message_id) == ("orders", result.queue, 0, result.message_id)
    assert (found.body, found.message_group, found.tag) == (b"paid", "user-7", "paid")
    assert (found.keys, found.properties) == (("order-1", "x"), {"amount": "10", "empty": ""})
    assert found.delivery_timestamp is None
    assert found.producer == producer.id
    assert before - timedelta(milliseconds=1) <= found.born_timestamp <= found.store_timestamp <= datetime.now(UTC)


def test_offsets_are_dense_per_queue_and_ids_unique_over_many_batches() -> None:
    with connect() as lake:
        with lake.producer("orders", linger=timedelta(0), batch_bytes=2_000) as producer:
            receipts = [producer.send(Message(b"%d" % n, message_group=f"g{n % 9}")) for n in range(500)]
            producer.flush()
            results = [receipt.result(timeout=0) for receipt in receipts]
        stored = {(one.queue, one.offset): (one.message_id, one.body) for one in read_all(lake)}
    assert len({one.message_id for one in results}) == 500
    assert stored == {(one.queue, one.offset): (one.message_id, b"%d" % n) for n, one in enumerate(results)}


def test_the_sender_may_name_the_queue() -> None:
    with connect(message_type="NORMAL") as lake, lake.producer("orders") as producer:
        named = [producer.send(Message(b"x"), queue=3) for _ in range(3)]
        turns = [producer.send(Message(b"y")) for _ in range(8)]
        producer.flush()
        assert [receipt.result().queue for receipt in named] == [3, 3, 3]
        taken = Counter(receipt.result().queue for receipt in turns)
        assert taken == {0: 2, 1: 2, 2: 2, 3: 2}, "without a group, queues are taken in turn"
        for bad in (4, -1, 1.0, "1", True):
            with pytest.raises(penstock.InvalidArgument, match=r"no such queue.*0 to 3"):
                producer.send(Message(b"z"), queue=bad)  # type: ignore[arg-type]


def test_json_goes_in_and_comes_out() -> None:
    value = {"id": 7, "name": "Grün", "lines": [1.5, None, True]}
    with connect() as lake:
        with lake.producer("orders") as producer:
            producer.send(Message.json(value, message_group="g", tag="t", keys=["k"], properties={"p": "v"}))
        (found,) = read_all(lake)
        assert found.json() == value
        assert found.body == '{"id":7,"name":"Grün","lines":[1.5,null,true]}'.encode()
        assert (found.tag, found.keys, found.properties) == ("t", ("k",), {"p": "v"})
        with pytest.raises(penstock.InvalidArgument, match=r"the value is not JSON.*set"):
            Message.json({1, 2})
        with pytest.raises(penstock.InvalidArgument, match="the value is not JSON"):
            Message.json(float("nan"))
        with pytest.raises(penstock.InvalidArgument, match=r"the body is not JSON.*orders, queue \d, offset 0"):
            found._replace(body=b"{").json()


# --- Batches ----------------------------------------------------------------------------------------------------------------------

FULL = pa.table(
    {
        "body": pa.array([b"a", b"", b"c", b"d"], pa.binary()),
        "message_group": ["g1", "g2", "g1", "g3"],
        "tag": ["t", None, "v", "u"],
        "keys": pa.array([["k1", "k2"], None, [], ["k3"]], pa.list_(pa.string())),
        "properties": pa.array([[("a", "1")], None, [], [("b", ""), ("c", "2")]], pa.map_(pa.string(), pa.string())),
        "queue": pa.array([None, 2, None, 2], pa.int32()),
    }
)


@pytest.mark.parametrize("form", ["table", "batch", "chunks", "large types"])
def test_arrow_data_with_every_column_is_stored_as_it_is(form: str) -> None:
    data: pa.Table | pa.RecordBatch = FULL
    if form == "batch":
        data = FULL.to_batches()[0]
    elif form == "chunks":
        data = pa.concat_tables([FULL.slice(0, 1), FULL.slice(1, 2), FULL.slice(3)])
    elif form == "large types":
        data = FULL.set_column(0, "body", FULL["body"].cast(pa.large_binary())).set_column(
            1, "message_group", FULL["message_group"].dictionary_encode()
        )
    with connect() as lake:
        with lake.producer("orders") as producer:
            result = producer.send_batch(data).result(timeout=TIMEOUT_S)
        found = {one.body: one for one in read_all(lake)}
    assert result.rows == 4
    assert result.duplicates == 0
    assert result.offsets is not None
    assert sum(last - first for first, last in result.offsets.values()) == 4
    queues = {b"a": queue_of("g1", 4), b"": 2, b"c": queue_of("g1", 4), b"d": 2}
    taken = itertools.count()
    order = sorted(queues, key=lambda body: (queues[body], next(taken)))
    assert [one.body for one in sorted(found.values(), key=lambda one: (one.queue, one.offset))] == order
    assert [found[body].tag for body in (b"a", b"", b"c", b"d")] == ["t", None, "v", "u"]
    assert [found[body].keys for body in (b"a", b"", b"c", b"d")] == [("k1", "k2"), (), (), ("k3",)]
    assert [found[body].properties for body in (b"a", b"", b"c", b"d")] == [{"a": "1"}, {}, {}, {"b": "", "c": "2"}]


def test_a_sliced_table_sends_its_own_rows_only() -> None:
    with connect() as lake:
        with lake.producer("orders") as producer:
            assert producer.send_batch(FULL.slice(1, 2)).result(timeout=TIMEOUT_S).rows == 2
        assert {(one.body, one.keys, tuple(one.properties)) for one in read_all(lake)} == {(b"", (), ()), (b"c", (), ())}


def test_messages_of_any_iterable_make_one_batch() -> None:
    with connect() as lake:
        with lake.producer("orders", linger=LONG) as producer:
            before = producer.send(Message(b"before", message_group="g"))
            receipt = producer.send_batch(Message(b"%d" % n, message_group="g") for n in range(100))
            after = producer.send(Message(b"after", message_group="g"))
            result = receipt.result(timeout=TIMEOUT_S)
            queue = queue_of("g", 4)
            assert result == (100, {queue: (1, 101)}, 0)
            assert before.result(timeout=0).offset == 0, "what was sent before it is durable before it"
            assert not after.done()
        assert bodies(lake) == [b"before", *(b"%d" % n for n in range(100)), b"after"]


@pytest.mark.parametrize("nothing", [[], FULL.slice(0, 0), FULL.slice(0, 0).to_batches()], ids=["list", "table", "no batches"])
def test_an_empty_batch_is_durable_at_once_and_changes_nothing(nothing: Any) -> None:
    store = MemoryStore()
    with connect(store) as lake, lake.producer("orders", name="n") as producer:
        before = keys(store)
        producer.send(Message(b"1", message_group="g"), sequence=1)
        assert producer.send_batch(nothing).result(timeout=0) == (0, {}, 0)
        producer.send(Message(b"2", message_group="g"), sequence=2)
        producer.flush()
        assert len(keys(store)) == len(before) + 1


def test_rows_over_a_mebibyte_are_handed_over_and_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender_module, "ALONE_INLINE_TIMES", 1)
    store = MemoryStore()
    table = pa.table({"body": [bytes([n % 251]) * 1000 for n in range(3000)], "message_group": [f"g{n % 50}" for n in range(3000)]})
    with connect(store) as lake:
        with lake.producer("orders") as producer:
            result = producer.send_batch(table).result(timeout=TIMEOUT_S)
        assert len(keys(store, "topics/orders/staged/handed/")) == 1
        assert len(keys(store, "topics/orders/log/0")) == 2, "one entry links it"
        assert result.rows == 3000
        assert same_order(lake, table)


def test_rows_over_the_handed_limit_are_staged_in_parts_as_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "HANDED_BYTES_MAX", 100_000)
    monkeypatch.setattr(staging, "PART_BYTES", 50_000)
    store = MemoryStore()
    table = pa.table({"body": [bytes([n % 251]) * 1000 for n in range(500)], "message_group": [f"g{n % 50}" for n in range(500)]})
    with connect(store) as lake:
        with lake.producer("orders") as producer:
            producer.send_batch(table).result(timeout=TIMEOUT_S)
        staged = keys(store, "topics/orders/staged/jobs/")
        assert sum(key.endswith("/record") for key in staged) == 1
        assert sum(key.endswith(".parquet") for key in staged) >= 10
        assert same_order(lake, table)


def same_order(lake: penstock.Lake, sent: pa.Table) -> bool:
    """Whether each group has its rows in the order they were sent."""

    def by_group(rows: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
        groups: dict[str, list[bytes]] = {}
        for group, body in rows:
            groups.setdefault(group, []).append(body)
        return groups

    stored = [(one.message_group or "", one.body) for one in read_all(lake)]
    wanted = list(zip(sent["message_group"].to_pylist(), sent["body"].to_pylist(), strict=True))
    return by_group(stored) == by_group(wanted)


# --- When a batch goes --------------------------------------------------------------------------------------------------------------


def test_a_batch_goes_when_its_time_is_up_when_it_is_full_or_when_told_so() -> None:
    with connect() as lake:
        with lake.producer("orders", linger=timedelta(milliseconds=1)) as producer:
            producer.send(Message(b"in time", message_group="g")).result(timeout=TIMEOUT_S)
        with lake.producer("orders", linger=LONG, batch_bytes=2_000) as producer:
            full = [producer.send(Message(b"x" * 500, message_group="g")) for _ in range(4)]
            full[0].result(timeout=TIMEOUT_S)
            waiting = producer.send(Message(b"told", message_group="g"))
            assert not waiting.done()
            producer.flush()
            assert waiting.done()
            closed = producer.send(Message(b"closed", message_group="g"))
        assert closed.result(timeout=0).offset == len(full) + 2


def test_who_asks_for_no_linger_never_waits() -> None:
    busy = 1e12
    assert linger_s(ProducerOptions(linger=timedelta(0)), busy) == 0
    assert linger_s(ProducerOptions(), busy) == pytest.approx(0.4)
    assert linger_s(ProducerOptions(), 0) == pytest.approx(0.025)


def test_close_loses_nothing_and_may_come_twice() -> None:
    with connect() as lake:
        producer = lake.producer("orders", linger=LONG)
        for n in range(1000):
            producer.send(Message(b"%d" % n, message_group="g"))
        producer.close()
        producer.close()
        assert bodies(lake) == [b"%d" % n for n in range(1000)]
        open_still = lake.producer("orders", linger=LONG)
        left = open_still.send(Message(b"left", message_group="g"))
    assert left.result(timeout=0).offset == 1000, "closing the lake closes its producers"
    open_still.close()
    lake.close()


def test_statistics_count_what_is_durable_and_what_waits() -> None:
    with connect() as lake, lake.producer("orders", linger=LONG) as producer:
        producer.send(Message(b"x" * 1000, message_group="g"))
        waiting = producer.statistics()
        assert waiting.bytes_waiting >= 1000
        assert (waiting.messages_durable, waiting.batches_durable, waiting.failed) == (0, 0, False)
        producer.flush()
        producer.send_batch(FULL).result(timeout=TIMEOUT_S)
        wait_until(lambda: producer.statistics().bytes_waiting == 0, "the memory is free again")
        assert producer.statistics() == (type(waiting))(5, 2, 0, False)


# --- Back-pressure ------------------------------------------------------------------------------------------------------------------


def stalled() -> tuple[Gate, penstock.Lake]:
    gate = Gate(MemoryStore(), is_entry)
    lake = penstock.connect(store=gate)
    lake.create_topic("orders", message_type="FIFO", queues=4)
    gate.closed = True
    return gate, lake


def fill(producer: penstock.Producer) -> None:
    for _ in range(100):
        producer.send(Message(b"x" * 1000, message_group="g"))


def test_a_full_producer_refuses_when_told_to() -> None:
    gate, lake = stalled()
    with lake, lake.producer("orders", memory_bytes=10_000, on_full="raise", linger=timedelta(0)) as producer:
        with pytest.raises(penstock.BackPressureError, match=r"too much waits.*below 10000 bytes.*\d+ bytes.*memory_bytes"):
            fill(producer)
        assert producer.statistics().bytes_waiting < 12_000
        gate.open()
        producer.flush()
        producer.send(Message(b"again", message_group="g"))


def test_a_full_producer_blocks_no_longer_than_its_time_out() -> None:
    gate, lake = stalled()
    short = timedelta(milliseconds=20)
    with lake, lake.producer("orders", memory_bytes=10_000, linger=timedelta(0), block_timeout=short) as producer:
        with pytest.raises(penstock.BackPressureError, match="too much waits"):
            fill(producer)
        gate.open()


@pytest.mark.parametrize("way", ["room", "close", "lake"])
def test_a_blocked_sender_goes_on_when_there_is_room_and_ends_when_the_producer_does(way: str) -> None:
    gate, lake = stalled()
    producer = lake.producer("orders", memory_bytes=10_000, linger=timedelta(0))
    sent: list[bytes] = []
    ends: list[BaseException | None] = []

    def send() -> None:
        try:
            for n in range(50):
                producer.send(Message(b"%04d" % n * 250, message_group="g"))
                sent.append(b"%04d" % n)
            ends.append(None)
        except penstock.PenstockError as error:
            ends.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: producer.statistics().bytes_waiting >= 10_000, "the producer is full")
    closer = threading.Thread(target={"room": gate.open, "close": producer.close, "lake": lake.close}[way])
    closer.start()
    if way != "room":
        wait_until(lambda: ends, "the sender ends")
        assert isinstance(ends[0], penstock.ClosedError)
    gate.open()
    closer.join(TIMEOUT_S)
    thread.join(TIMEOUT_S)
    if way == "room":
        assert ends == [None]
        assert len(sent) == 50
        producer.close()
    if way != "lake":
        assert [body[:4] for body in bodies(lake)] == sent, "close wrote all that was taken over"
        lake.close()


# --- Threads ------------------------------------------------------------------------------------------------------------------------


def test_each_of_eight_threads_finds_its_messages_in_its_order() -> None:
    with connect() as lake:
        results: dict[int, list[penstock.Receipt]] = {}
        producer = lake.producer("orders", linger=timedelta(0), batch_bytes=20_000)
        start = threading.Barrier(8)

        def send(thread: int) -> None:
            start.wait()
            results[thread] = [producer.send(Message(b"%d %d" % (thread, n), message_group=f"g{n % 3}")) for n in range(400)]

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        producer.close()
        stored = {one.message_id: one for one in read_all(lake)}
    assert len(stored) == 8 * 400
    for thread, receipts in results.items():
        for group in range(3):
            places = [receipt.result(timeout=0) for receipt in receipts[group::3]]
            assert [place.offset for place in places] == sorted(place.offset or 0 for place in places)
            assert [stored[p.message_id].body for p in places] == [b"%d %d" % (thread, n) for n in range(group, 400, 3)]
            assert all((stored[p.message_id].queue, stored[p.message_id].offset) == (p.queue, p.offset) for p in places)


# --- Names and sequences ------------------------------------------------------------------------------------------------------------


def test_a_named_producer_goes_on_where_it_was() -> None:
    with connect() as lake:
        with lake.producer("orders", name="loader") as first:
            assert (first.id, first.last_sequence) == ("loader", -1)
            for sequence in (0, 5, 9):
                first.send(Message(b"%d" % sequence, message_group="g"), sequence=sequence)
        assert first.last_sequence == 9
        with lake.producer("orders", name="loader") as second:
            assert second.last_sequence == 9
            receipts = {n: second.send(Message(b"%d" % n, message_group="g"), sequence=n) for n in (0, 3, 9, 10, 12)}
            second.flush()
            results = {n: receipt.result(timeout=0) for n, receipt in receipts.items()}
            assert [n for n, result in results.items() if result.duplicate] == [0, 3, 9]
            assert [(results[n].queue, results[n].offset) for n in (0, 3, 9)] == [(None, None)] * 3
            assert [results[n].offset for n in (10, 12)] == [3, 4]
            assert second.last_sequence == 12
        assert bodies(lake) == [b"0", b"5", b"9", b"10", b"12"]


def test_batches_carry_sequences_too_and_leave_out_what_was_accepted() -> None:
    table = FULL.append_column("sequence", pa.array([3, 4, 7, 8], pa.int64()))
    with connect() as lake:
        with lake.producer("orders", name="loader") as producer:
            assert producer.send_batch(table.slice(0, 2)).result(timeout=TIMEOUT_S).rows == 2
        with lake.producer("orders", name="loader") as producer:
            result = producer.send_batch(table).result(timeout=TIMEOUT_S)
            assert (result.rows, result.duplicates) == (2, 2)
            assert producer.last_sequence == 8
        with lake.producer("orders", name="loader") as producer:
            assert producer.send_batch(table).result(timeout=0) == (0, {}, 4)
        assert sorted(bodies(lake)) == [b"", b"a", b"c", b"d"]


def test_a_sequence_that_does_not_rise_is_an_error_and_harms_nothing() -> None:
    with connect() as lake, lake.producer("orders", name="loader") as producer:
        producer.send(Message(b"5", message_group="g"), sequence=5)
        for bad in (5, 4, 0):
            with pytest.raises(penstock.SequenceError, match=f"does not rise.*above 5.*{bad}"):
                producer.send(Message(b"no", message_group="g"), sequence=bad)
        with pytest.raises(penstock.SequenceError, match=r"do not rise from row to row.*row 2.*above 7.*observed: 7"):
            producer.send_batch(FULL.append_column("sequence", pa.array([6, 7, 7, 8])))
        with pytest.raises(penstock.SequenceError, match="does not rise"):
            producer.send_batch(FULL.append_column("sequence", pa.array([5, 7, 8, 9])))
        with pytest.raises(penstock.InvalidArgument, match="to all rows, or to none"):
            producer.send_batch(FULL.append_column("sequence", pa.array([6, None, 7, 8], pa.int64())))
        for odd in (-1, 2**63, True, "7", 7.0):
            with pytest.raises(penstock.InvalidArgument, match=r"whole number from 0 to 2\^63 - 1"):
                producer.send(Message(b"no", message_group="g"), sequence=odd)  # type: ignore[arg-type]
        with pytest.raises(penstock.InvalidArgument, match="to all messages of a producer, or to none"):
            producer.send(Message(b"no", message_group="g"))
        producer.send(Message(b"6", message_group="g"), sequence=2**63 - 1)
        producer.flush()
        assert bodies(lake) == [b"5", b"6"]


def test_a_refused_sequence_does_not_decide_how_an_unnamed_producer_goes_on() -> None:
    with connect() as lake, lake.producer("orders") as producer:
        with pytest.raises(penstock.InvalidArgument, match="only a named producer takes sequences"):
            producer.send(Message(b"no", message_group="g"), sequence=1)
        producer.send(Message(b"yes", message_group="g"))
        producer.flush()
        assert bodies(lake) == [b"yes"]


@pytest.mark.parametrize("where", ["another process", "the same lake"])
def test_a_newer_instance_fences_the_older(where: str) -> None:
    store = MemoryStore()
    with connect(store) as here, penstock.connect(store=store) as other:
        there = here if where == "the same lake" else other
        old = here.producer("orders", name="loader")
        old.send(Message(b"old", message_group="g"), sequence=1).result(timeout=TIMEOUT_S)
        new = there.producer("orders", name="loader")
        assert new.last_sequence == 1
        with pytest.raises(penstock.FencedError, match=r"newer instance of this named producer is open.*loader"):
            old.send(Message(b"late", message_group="g"), sequence=2).result(timeout=TIMEOUT_S)
        with pytest.raises(penstock.FencedError):
            old.send(Message(b"later", message_group="g"), sequence=3)
        old.close()
        new.send(Message(b"new", message_group="g"), sequence=2).result(timeout=TIMEOUT_S)
        assert bodies(there) == [b"old", b"new"]


# --- After a failure ----------------------------------------------------------------------------------------------------------------


def failing(kind: FaultKind) -> tuple[FaultStore, list[int], penstock.Lake]:
    """A lake that refuses to append while the list has something in it."""
    broken: list[int] = []

    def plan(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(kind) if broken and verb == "put" and "/log/0" in key else None

    store = FaultStore(MemoryStore(), plan)
    lake = penstock.connect(store=store)
    lake.create_topic("orders", message_type="FIFO", queues=4)
    return store, broken, lake


@pytest.mark.parametrize(
    ("kind", "error"), [(FaultKind.PERMISSION, penstock.PermissionDenied), (FaultKind.STORAGE_FULL, penstock.PenstockError)]
)
def test_nothing_overtakes_a_failed_send(kind: FaultKind, error: type[penstock.PenstockError]) -> None:
    _, broken, lake = failing(kind)
    with lake:
        producer = lake.producer("orders", linger=LONG)
        producer.send(Message(b"stored", message_group="g"))
        producer.flush()
        broken.append(1)
        failed = producer.send(Message(b"failed", message_group="g"))
        batch = producer.send_batch([Message(b"behind", message_group="g")])
        with pytest.raises(error):
            failed.result(timeout=TIMEOUT_S)
        with pytest.raises(penstock.ProducerFailedError, match=r"earlier send of this producer failed.*reopen") as raised:
            batch.result(timeout=TIMEOUT_S)
        assert isinstance(raised.value.__cause__, error)
        broken.clear()
        with pytest.raises(penstock.ProducerFailedError):
            producer.send(Message(b"later", message_group="g"))
        with pytest.raises(error):
            producer.flush()
        assert producer.statistics().failed
        producer.close()
        with lake.producer("orders") as reopened:
            reopened.send(Message(b"again", message_group="g"))
        assert bodies(lake) == [b"stored", b"again"]


def test_leaving_the_block_says_what_was_not_written_even_when_nobody_asked() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        broken.append(1)
        producer = lake.producer("orders", linger=timedelta(0))

        def block() -> None:
            with producer:
                receipt = producer.send(Message(b"x", message_group="g"))
                wait_until(receipt.done, "the send fails before the block ends")

        with pytest.raises(penstock.PermissionDenied):
            block()


def test_an_error_in_the_block_is_not_replaced_by_that_of_closing() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        broken.append(1)

        def block() -> None:
            with lake.producer("orders", linger=LONG) as producer:
                producer.send(Message(b"x", message_group="g"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            block()


def test_one_failed_producer_does_not_keep_the_lake_from_closing_the_others() -> None:
    store, broken, lake = failing(FaultKind.PERMISSION)
    lake.create_topic("other")
    bad, good = lake.producer("orders", linger=LONG), lake.producer("other", linger=LONG)
    bad.send(Message(b"x", message_group="g"))
    receipt = good.send(Message(b"y"))
    broken.append(1)

    def plan(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(FaultKind.PERMISSION) if verb == "put" and key.startswith("topics/orders/log/0") else None

    store._plan = plan
    with pytest.raises(penstock.PermissionDenied):
        lake.close()
    assert receipt.result(timeout=0).offset == 0
    lake.close()


TELLERS: dict[str, Callable[[penstock.Producer, penstock.Receipt], object]] = {
    "receipt": lambda _, receipt: receipt.result(timeout=TIMEOUT_S),
    "its error": lambda _, receipt: receipt.exception(timeout=TIMEOUT_S),
    "send": lambda producer, receipt: wait_until(receipt.done, "it failed") and producer.send(Message(b"y", message_group="g")),
    "flush": lambda producer, _: producer.flush(),
}


def test_closing_repeats_nothing_that_was_told() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        for tell in TELLERS.values():
            producer = lake.producer("orders", linger=timedelta(0))
            broken.append(1)
            with contextlib.suppress(penstock.PenstockError):
                tell(producer, producer.send(Message(b"x", message_group="g")))
            broken.clear()
            producer.close()


def test_a_store_that_stays_away_ends_a_send_as_not_written_or_unknown() -> None:
    _, broken, lake = failing(FaultKind.FAIL_BEFORE)
    with lake:
        producer = lake.producer("orders", linger=timedelta(0), delivery_timeout=timedelta(milliseconds=200))
        broken.append(1)
        receipt = producer.send(Message(b"x", message_group="g"))
        with pytest.raises(penstock.UnknownOutcome, match="may still get into the log"):
            receipt.result(timeout=TIMEOUT_S)
        with pytest.raises(penstock.ProducerFailedError, match="may still get into the log"):
            producer.send(Message(b"y", message_group="g"))
        producer.close()


def test_a_waiter_that_gives_up_disturbs_nobody() -> None:
    gate, lake = stalled()
    with lake:
        producer = lake.producer("orders", linger=timedelta(0))
        mine, yours = (producer.send(Message(body, message_group="g")) for body in (b"1", b"2"))
        with pytest.raises(penstock.StoreUnavailable, match=r"not durable yet.*within 0.01 s.*ask the receipt again"):
            mine.result(timeout=0.01)
        gate.open()
        assert [mine.result(timeout=TIMEOUT_S).offset, yours.result(timeout=TIMEOUT_S).offset] == [0, 1]
        producer.close()


def test_topic_changes_reach_open_producers() -> None:
    """Altering leaves them alone; deleting ends them, also when both are done by the same lake."""
    with connect() as lake:
        producer = lake.producer("orders")
        lake.alter_topic("orders", retention=timedelta(days=1))
        producer.send(Message(b"1", message_group="g")).result(timeout=TIMEOUT_S)
        assert lake.describe_topic("orders").settings.retention == timedelta(days=1)
        lake.delete_topic("orders")
        with pytest.raises(penstock.TopicDeleted, match="the topic was deleted"):
            producer.send(Message(b"2", message_group="g")).result(timeout=TIMEOUT_S)
        lake.create_topic("orders", queues=1)
        with lake.producer("orders") as fresh:
            assert fresh.send(Message(b"3")).result(timeout=TIMEOUT_S).offset == 0


def test_a_flush_that_is_given_up_leaves_others_to_theirs() -> None:
    async def work() -> None:
        gate = Gate(MemoryStore(), is_entry)
        lake = AsyncLake(gate)
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders", options=ProducerOptions(linger=LONG))
        gate.closed = True
        producer.send(Message(b"1"))
        first = asyncio.ensure_future(producer.flush())
        assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
        receipt = producer.send(Message(b"2"))
        second = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        gate.open()
        async with asyncio.timeout(TIMEOUT_S):
            await second
        assert receipt.done()
        await lake.close()

    asyncio.run(work())


def test_who_waits_for_room_hears_that_the_producer_was_stopped() -> None:
    async def work() -> None:
        gate = Gate(MemoryStore(), is_entry)
        lake = AsyncLake(gate)
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0), memory_bytes=1000))
        gate.closed = True
        producer.send(Message(b"x" * 1000))
        waiting = asyncio.ensure_future(producer.wait_for_room())
        closing = asyncio.ensure_future(producer.close())
        assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
        assert not waiting.done()
        closing.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            await waiting
        with pytest.raises(penstock.ClosedError):
            producer.send(Message(b"y"))
        gate.open()
        await lake.close()

    asyncio.run(work())


def test_a_slice_counts_as_what_it_has_and_not_as_what_it_was_cut_from() -> None:
    large = pa.table({"body": [b"x" * 1000] * 10_000, "message_group": ["g"] * 10_000})
    with connect() as lake, lake.producer("orders", linger=LONG, on_full="raise", memory_bytes=100_000) as producer:
        for start in (0, 10):
            producer.send_batch(large.slice(start, 10))
        assert 20_000 < producer.statistics().bytes_waiting < 80_000


# --- What callers do to what they sent, and to themselves -----------------------------------------------------------------------------


def test_what_was_sent_is_what_it_was_when_it_was_sent() -> None:
    body, properties, names = bytearray(b"before"), {"state": "before"}, ["before"]
    with connect() as lake:
        with lake.producer("orders", linger=LONG) as producer:
            for view in (body, memoryview(body)):
                producer.send(Message(view, message_group="g", properties=properties, keys=names))  # type: ignore[arg-type]
            body[:] = b"after!"
            properties["state"] = 7  # type: ignore[assignment]
            names.append("after")
        assert [(one.body, one.properties, one.keys) for one in read_all(lake)] == [
            (b"before", {"state": "before"}, ("before",))
        ] * 2


def test_an_interrupt_at_any_line_of_send_leaves_the_producer_whole() -> None:
    """A KeyboardInterrupt may strike between any two lines: what is acknowledged is stored at its place, under its id, and sending goes on."""
    files = {sys.modules[name].__file__ for name in ("penstock.log.producer", "penstock.log.gathering")}
    with connect() as lake:
        for line in itertools.count():
            struck, results, interrupted = strike(lake, files, line)
            stored = {one.message_id: one for one in read_all(lake) if one.body.startswith(b"%d:" % line)}
            assert {results[body] for body in results} == {
                (m.message_id, m.queue, m.offset, False) for m in stored.values() if m.body in results
            }
            assert {one.body for one in stored.values()} - results.keys() <= {interrupted}
            if not struck:
                break
        assert line > 30, "it went through all of send"


def strike(lake: penstock.Lake, files: set[str | None], line: int) -> tuple[bool, dict[bytes, penstock.SendResult], bytes]:
    """Send three messages, the second of which is interrupted at its ``line``-th line; returns what became of the others."""
    lines = itertools.count()
    struck = False
    # The interpreter looks for signals after calls and before jumps back: never at a bare `try`, nor between a body and its lock's release.

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        nonlocal struck
        if frame.f_code.co_filename not in files:
            return None
        code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and code != "try:" and not code.startswith("with ") and not struck and next(lines) == line:
            struck = True
            raise KeyboardInterrupt
        return trace

    receipts: dict[bytes, penstock.Receipt] = {}
    names = [b"%d:%d" % (line, n) for n in range(3)]
    with lake.producer("orders", linger=LONG) as producer:
        for name in names:
            message = Message(name, message_group="g", tag="t")
            if name is names[1]:
                sys.settrace(trace)
            try:
                receipts[name] = producer.send(message)
            except KeyboardInterrupt:
                continue
            finally:
                sys.settrace(None)
    return struck, {name: receipt.result(timeout=0) for name, receipt in receipts.items()}, names[1]
