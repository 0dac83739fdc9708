"""Delayed messages that wait: listed, and called back before they are due; and what cannot be recalled."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from penstock.log.produce.delays import RecallHandle
from penstock.log.read.reader import Reader
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from penstock.testing import HandClock
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

Message = penstock.Message
SOON = timedelta(hours=1)


def connect(store: MemoryStore, **how: Any) -> penstock.Lake:
    """A lake in which nobody lets messages go."""
    return penstock.connect(store=store, maintenance=False, **how)


def delayed(lake: penstock.Lake, *delays: timedelta, topic: str = "orders", **fields: Any) -> list[str]:
    """The handles of messages sent with these delays, whose bodies count from 0."""
    lake.create_topic(topic, message_type="DELAY", queues=4)
    return sent_later(lake, *delays, topic=topic, **fields)


def sent_later(lake: penstock.Lake, *delays: timedelta, topic: str = "orders", **fields: Any) -> list[str]:
    with lake.producer(topic) as producer:
        receipts = [producer.send(Message(b"%d" % n, delay=delay, **fields)) for n, delay in enumerate(delays)]
        handles = [receipt.result(timeout=TIMEOUT_S).recall_handle for receipt in receipts]
    return [handle for handle in handles if handle is not None]


def test_what_waits_is_listed_by_delivery_time_with_all_that_was_sent() -> None:
    clock = HandClock()
    with connect(MemoryStore(), runtime=Runtime(clock=clock)) as lake:
        lake.create_topic("orders", message_type="DELAY", queues=4)
        clock.advance(SOON)  # a process that sends to a new topic lets its messages go
        handles = sent_later(lake, 3 * SOON, SOON, 2 * SOON, message_group="g", tag="t", keys=["k"], properties={"p": "1"})
        with lake.producer("orders") as producer:
            producer.send(Message(b"now", delay=timedelta(0)), queue=3).result(timeout=TIMEOUT_S)
        found = lake.waiting("orders")
        assert [one.body for one in found] == [b"now", b"1", b"2", b"0"]
        assert [one.recall_handle for one in found[1:]] == [handles[1], handles[2], handles[0]]
        first, second = found[:2]
        assert (first.topic, first.queue, first.properties, first.message_group) == ("orders", 3, {}, None)
        assert (second.queue, second.properties, second.message_group, second.tag, second.keys) == (
            None,
            {"p": "1"},
            "g",
            "t",
            ("k",),
        )
        assert second.delivery_timestamp - second.born_timestamp == pytest.approx(SOON, abs=timedelta(seconds=1))
        assert [one.body for one in lake.waiting("orders", limit=2)] == [b"now", b"1"]
        assert [one.body for one in lake.waiting("orders", until=found[2].delivery_timestamp)] == [b"now", b"1"]
        assert [one.body for one in lake.waiting("orders", until=found[2].delivery_timestamp, limit=1)] == [b"now"]


def test_a_recalled_message_waits_no_more_and_is_recalled_once() -> None:
    store = MemoryStore()
    with connect(store) as lake:
        handles = delayed(lake, SOON, SOON, SOON)
        assert lake.recall(handles[1]).body == b"1"
        with pytest.raises(penstock.NotRecallable, match=r"cannot be recalled any more.*it was recalled before"):
            lake.recall(handles[1])
    with connect(store) as lake:  # it is in the lake, and not in a process
        assert [one.body for one in lake.waiting("orders")] == [b"0", b"2"]
        with pytest.raises(penstock.NotRecallable):
            lake.recall(handles[1])
        listed = lake.waiting("orders")[1].recall_handle
        assert lake.recall(listed).body == b"2"


def test_a_message_that_was_delivered_is_not_recalled_and_the_error_says_so(
    penstock_memory_lake: penstock.Lake, penstock_clock: HandClock
) -> None:
    lake = penstock_memory_lake
    handles = delayed(lake, SOON, 3 * SOON)
    penstock_clock.advance(2 * SOON)
    reader = lake.reader("orders")
    wait_until(lambda: list(reader.messages()), "the first is delivered", timeout_s=TIMEOUT_S)
    for _ in range(2):
        with pytest.raises(penstock.NotRecallable) as caught:
            lake.recall(handles[0])
        message = RecallHandle.decode(handles[0]).message_id
        said = rf"the message cannot be recalled any more.*object: {message}.*a message that waits.*it was delivered, is on its way, or was recalled"
        assert re.search(said, str(caught.value)), str(caught.value)
    assert [one.body for one in lake.waiting("orders")] == [b"1"], "what waits is as it was"
    assert [one.body for one in reader.messages()] == [b"0"]


def test_a_reset_of_a_group_leaves_what_waits_for_its_time(penstock_memory_lake: penstock.Lake, penstock_clock: HandClock) -> None:
    lake = penstock_memory_lake
    lake.create_topic("orders", message_type="DELAY", queues=1)
    lake.create_group("billing")
    with lake.producer("orders") as producer:
        for minutes in (60, 180):
            producer.send(Message(b"%d" % minutes, delay=timedelta(minutes=minutes)))
    penstock_clock.advance(2 * SOON)
    reader = lake.reader("orders")
    wait_until(lambda: list(reader.messages()), "the first is delivered", timeout_s=TIMEOUT_S)
    offsets = [lake.reset_offsets("billing", "orders", place)[0] for place in ("earliest", "latest")]
    assert offsets == [0, 1]
    assert [one.body for one in lake.waiting("orders")] == [b"180"]
    penstock_clock.advance(2 * SOON)
    wait_until(lambda: len(list(reader.messages())) == 2, "the second is delivered", timeout_s=TIMEOUT_S)
    assert [one.body for one in reader.messages()] == [b"60", b"180"]
    (queue,) = lake.describe_group("billing").queues
    assert queue.committed_offset == 1, "and the group that was reset to the end has it before it"


async def test_the_same_on_a_running_loop() -> None:
    async with penstock.aio.connect(store=MemoryStore(), maintenance=False) as lake:
        await lake.create_topic("orders", penstock.aio.TopicSettings(message_type=penstock.MessageType.DELAY))
        producer = await lake.producer("orders")
        receipts = [producer.send(Message(b"%d" % n, delay=SOON)) for n in range(2)]
        handles = [(await receipt).recall_handle for receipt in receipts]
        assert handles[0] is not None
        assert (await lake.recall(handles[0])).body == b"0"
        assert [one.recall_handle for one in await lake.waiting("orders")] == handles[1:]


def test_what_cannot_be_recalled() -> None:
    with connect(MemoryStore()) as lake, connect(MemoryStore()) as other:
        (handle,) = delayed(lake, SOON)
        delayed(other, SOON)
        meant = RecallHandle.decode(handle)
        other.create_topic("plain")
        for foreign, said in (
            (meant, "another message in its place"),
            (meant._replace(offset=7), "messages sent below offset 1"),
            (meant._replace(offset=1), "no such message|messages sent below"),
            (meant._replace(due_us=meant.due_us + 1), "another message in its place"),
            (meant._replace(message_id="0" * 32), "another message in its place"),
            (meant._replace(topic="plain"), "no topic plain with delayed messages"),
            (meant._replace(topic="nowhere"), "no topic nowhere with delayed messages"),
        ):
            with pytest.raises(penstock.MessageNotFound, match=f"this lake has no message of this recall handle.*({said})"):
                other.recall(foreign.encode())
        with pytest.raises(penstock.InvalidArgument, match="this is no recall handle"):
            lake.recall("no-handle")
        assert len(other.waiting("orders")) == len(lake.waiting("orders")) == 1


def test_what_the_timer_log_keeps_no_more_is_looked_for_among_all_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after three days, when it has been gathered in a run."""

    async def gone(*_: object, **__: object) -> None:
        raise penstock.OffsetOutOfRange("as if retention had taken it")

    with connect(MemoryStore()) as lake:
        first, second = delayed(lake, SOON, SOON)
        monkeypatch.setattr(Reader, "to_arrow", gone)
        assert lake.recall(second).body == b"1"
        with pytest.raises(penstock.NotRecallable, match="it was delivered, is on its way, or was recalled"):
            lake.recall(second)
        of_nobody = RecallHandle.decode(first)._replace(message_id="0" * 32).encode()
        with pytest.raises(penstock.MessageNotFound, match="another message in its place"):
            lake.recall(of_nobody)
        assert [one.body for one in lake.waiting("orders")] == [b"0"]


def test_a_handle_is_of_one_life_of_its_topic() -> None:
    with connect(MemoryStore()) as lake:
        (handle,) = delayed(lake, SOON)
        lake.delete_topic("orders")
        assert lake.topics() == {}
        with pytest.raises(penstock.MessageNotFound, match="no topic orders with delayed messages"):
            lake.recall(handle)
        delayed(lake, SOON)
        with pytest.raises(penstock.MessageNotFound, match="another message in its place"):
            lake.recall(handle)
        assert len(lake.waiting("orders")) == 1


def test_a_process_that_slept_through_a_topic_s_deletion_lists_and_recalls_in_its_later_life() -> None:
    store = MemoryStore()
    with connect(store) as lake, connect(store) as sleeper:
        (handle,) = delayed(lake, SOON)
        assert len(sleeper.waiting("orders")) == 1
        lake.delete_topic("orders")
        delayed(lake, SOON, SOON)
        assert len(sleeper.waiting("orders")) == 2
        lake.delete_topic("orders")
        (later,) = delayed(lake, SOON)
        with pytest.raises(penstock.MessageNotFound, match="another message in its place"):
            sleeper.recall(handle)
        assert sleeper.recall(later).body == b"0"
        lake.delete_topic("orders")
        with pytest.raises(penstock.TopicNotFound):
            sleeper.waiting("orders")


def test_who_only_reads_lists_and_recalls_nothing() -> None:
    store = MemoryStore()
    with connect(store) as lake:
        (handle,) = delayed(lake, SOON)
    with connect(store, read_only=True) as lake:
        assert len(lake.waiting("orders")) == 1
        with pytest.raises(penstock.ReadOnlyError, match=r"operation: recall"):
            lake.recall(handle)


def test_of_what_nothing_can_be_listed() -> None:
    with connect(MemoryStore()) as lake:
        lake.create_topic("plain")
        delayed(lake, SOON)
        with pytest.raises(penstock.InvalidArgument, match=r"its messages are not delayed.*type DELAY.*NORMAL"):
            lake.waiting("plain")
        with pytest.raises(penstock.TopicNotFound):
            lake.waiting("nowhere")
        with pytest.raises(penstock.InvalidArgument, match=r"timer log, which comes.*name the topic: orders"):
            lake.waiting("%TIMER%orders")
        for until in (datetime(2030, 1, 1), "tomorrow"):  # noqa: DTZ001 - what is refused
            with pytest.raises(penstock.InvalidArgument, match=r"must have a zone|until must be a datetime"):
                lake.waiting("orders", until=until)  # type: ignore[arg-type]
        for limit in (0, -1, True, "3"):
            with pytest.raises(penstock.InvalidArgument, match="limit must be a positive whole number"):
                lake.waiting("orders", limit=limit)  # type: ignore[arg-type]
        assert lake.waiting("orders", until=datetime.now(UTC)) == []
