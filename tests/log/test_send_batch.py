"""Batches that callers hand over, by the public API: their form, their size, and when one goes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import ProducerOptions, SendBatchResult, queue_of
from penstock.log.append import appender as appender_module
from penstock.log.produce import producer as producer_module
from penstock.log.produce.accumulator import linger_s
from penstock.log.stage import jobs
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, bodies, keys, read_all
from tests.log.producers import FULL, connect
from tests.waiting import wait_until

Message = penstock.Message
LONG = timedelta(hours=1)


# --- Batches ----------------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_rows_keep_the_birth_time_that_they_are_given_and_others_are_born_now(unit: str) -> None:
    old = datetime(2001, 2, 3, 4, 5, 6, 789_000, UTC)
    born = pa.array([old, None, datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp(unit, "Europe/Berlin"))
    rows = pa.table({"body": [b"a", b"b", b"c"], "message_group": ["g"] * 3, "born_timestamp": born})
    with connect() as lake:
        before = datetime.now(UTC) - timedelta(minutes=5)
        with lake.producer("orders") as producer:
            producer.send_batch(rows).result(timeout=TIMEOUT_S)
        first, second, third = read_all(lake)
        assert (first.born_timestamp, third.born_timestamp.year) == (old, 9999)
        assert before < second.born_timestamp <= second.store_timestamp
        assert first.store_timestamp == second.store_timestamp
        lake.create_topic("later", message_type="DELAY", queues=1)
        with lake.producer("later") as producer:
            due = pa.array([datetime.now(UTC) + timedelta(hours=1)] * 3, pa.timestamp("us", "UTC"))
            producer.send_batch(rows.append_column("delivery_timestamp", due)).result(timeout=TIMEOUT_S)
        assert [one.born_timestamp for one in lake.waiting("later")][::2] == [old, third.born_timestamp]


def test_rows_of_a_schema_keep_the_birth_time_that_they_are_given() -> None:
    old = datetime(2001, 2, 3, tzinfo=UTC)
    rows = pa.table({"id": [1, 2], "born_timestamp": pa.array([old, None], pa.timestamp("ms", "UTC"))})
    with penstock.connect("memory://") as lake:
        lake.create_topic("typed", queues=1, schema="id bigint")
        with lake.producer("typed") as producer:
            producer.send_batch(rows).result(timeout=TIMEOUT_S)
        first, second = read_all(lake, "typed")
    assert (first.value, first.born_timestamp) == ({"id": 1}, old)
    assert second.born_timestamp > old


def sequenced(*sequences: int) -> pa.Table:
    rows = [(b"%d" % one, "g", one) for one in sequences]
    return pa.table(dict(zip(("body", "message_group", "sequence"), zip(*rows, strict=True), strict=True)))


def test_a_batch_goes_through_a_sequence_that_no_row_has() -> None:
    with connect() as lake:
        with lake.producer("orders", name="source") as producer:
            assert producer.send_batch(sequenced(1, 2), through=10).result(timeout=TIMEOUT_S).rows == 2
            assert producer.last_sequence == 10
            with pytest.raises(penstock.SequenceError):
                producer.send_batch(sequenced(10))
            producer.send_batch(sequenced(11), through=11).result(timeout=TIMEOUT_S)
        with lake.producer("orders", name="source") as producer:
            assert producer.last_sequence == 11
            assert producer.send_batch(sequenced(1, 2, 11), through=20).result(timeout=TIMEOUT_S).duplicates == 3
            assert producer.last_sequence == 11  # a batch without a new row is not written
            assert producer.send_batch(sequenced(21), through=30).result(timeout=TIMEOUT_S).rows == 1
        assert sorted(bodies(lake)) == [b"1", b"11", b"2", b"21"]


def test_what_cannot_go_through_a_sequence() -> None:
    with connect() as lake, lake.producer("orders", name="source") as producer:
        with pytest.raises(penstock.SequenceError, match="rows are behind the sequence"):
            producer.send_batch(sequenced(1, 5), through=4)
        with pytest.raises(penstock.InvalidArgument, match="give a sequence to all rows"):
            producer.send_batch(sequenced(1).drop_columns(["sequence"]), through=4)
        with pytest.raises(penstock.InvalidArgument, match="takes Arrow data"):
            producer.send_batch([Message(b"1", message_group="g")], through=4)
        assert producer.send_batch(sequenced(1, 5), through=5).result(timeout=TIMEOUT_S).rows == 2


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
            assert result == SendBatchResult(100, {queue: (1, 101)}, 0)
            assert before.result(timeout=0).offset == 0, "what was sent before it is durable before it"
            assert not after.done()
        assert bodies(lake) == [b"before", *(b"%d" % n for n in range(100)), b"after"]


@pytest.mark.parametrize("nothing", [[], FULL.slice(0, 0), FULL.slice(0, 0).to_batches()], ids=["list", "table", "no batches"])
def test_an_empty_batch_is_durable_at_once_and_changes_nothing(nothing: Any) -> None:
    store = MemoryStore()
    with connect(store) as lake, lake.producer("orders", name="n") as producer:
        before = keys(store)
        producer.send(Message(b"1", message_group="g"), sequence=1)
        assert producer.send_batch(nothing).result(timeout=0) == SendBatchResult(0, {}, 0)
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
    monkeypatch.setattr(jobs, "PART_BYTES", 50_000)
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
