"""What a producer promises, by the public API: places, order, names and sequences, and that callers cannot harm it."""

from __future__ import annotations

import asyncio
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
from penstock import aio
from penstock.log import ProducerOptions, SendBatchResult, queue_of
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, bodies, read_all
from tests.log.producers import FULL, connect

Message = penstock.Message
LONG = timedelta(hours=1)


def test_a_receipt_tells_where_the_message_is_and_the_reader_finds_it_there() -> None:
    before = datetime.now(UTC)
    sent = Message(b"paid", message_group="user-7", tag="paid", keys=["order-1", "x"], properties={"amount": "10", "empty": ""})
    with connect() as lake:
        with lake.producer("orders") as producer:
            receipt = producer.send(sent)
            result = receipt.result(timeout=TIMEOUT_S)
        assert result == penstock.SendResult(receipt.message_id, queue_of("user-7", 4), 0)
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


async def test_without_linger_a_batch_takes_along_what_is_on_its_way_through_the_event_loop() -> None:
    """As calls of a server are, whose requests take several turns of the loop; a lone sender does not wait for others."""

    async def late(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await producer.send(Message(b"on its way"))

    async with aio.connect(store=MemoryStore()) as lake:
        await lake.create_topic("orders", aio.TopicSettings(queues=4))
        producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0), max_linger=timedelta(0)))
        await producer.send(Message(b"alone"))
        await asyncio.gather(*(producer.send(Message(b"one of two")) for _ in range(2)))
        before = producer.statistics().batches_durable
        await asyncio.gather(*map(late, range(0, 60, 4)))
        assert producer.statistics().batches_durable == before + 1


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
            assert producer.send_batch(table).result(timeout=0) == SendBatchResult(0, {}, 4)
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
    files = {sys.modules[name].__file__ for name in ("penstock.log.produce.producer", "penstock.log.produce.accumulator")}
    with connect() as lake:
        for line in itertools.count():
            struck, results, interrupted = strike(lake, files, line)
            stored = {one.message_id: one for one in read_all(lake) if one.body.startswith(b"%d:" % line)}
            assert {results[body] for body in results} == {
                penstock.SendResult(m.message_id, m.queue, m.offset) for m in stored.values() if m.body in results
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
