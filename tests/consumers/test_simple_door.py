"""SimpleConsumer by the public API: `penstock.Lake.simple_consumer`, and the same on an event loop."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import AlreadySettled, ClosedError, InvalidArgument, Message, MessageView, ReadOnlyError, TopicNotFound
from penstock.consumers import MemoryMetrics
from penstock.consumers.statistics import CONSUMER_CONNECTIONS, INFLIGHT_MESSAGES, MESSAGES_OUT
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, send_all

SOON = timedelta(seconds=TIMEOUT_S)
NOW = timedelta(0)
MINUTE = timedelta(minutes=1)


def fill(lake: penstock.Lake, *bodies: str, topic: str = "orders", queues: int = 1) -> None:
    lake.create_topic(topic, message_type="FIFO", queues=queues)
    send_all(lake, [Message(body.encode(), message_group=body[0]) for body in bodies], topic)


def received(consumer: penstock.SimpleConsumer, count: int) -> list[MessageView]:
    found: list[MessageView] = []
    while len(found) < count:
        more = consumer.receive(count - len(found), MINUTE, SOON)
        assert more, f"only {found}"
        found += more
    return found


def test_receive_acknowledge_and_go_on(lake: penstock.Lake) -> None:
    fill(lake, "a1", "b1", "c1")
    metrics = MemoryMetrics()
    with lake.simple_consumer("orders", group="audit", metrics=metrics) as simple:
        assert simple.group == "audit"
        a1, b1, c1 = received(simple, 3)
        assert metrics.value(CONSUMER_CONNECTIONS, consumer_group="audit") == 1
        assert metrics.value(INFLIGHT_MESSAGES, topic="orders", consumer_group="audit", queue="0") == 3
        assert metrics.value(MESSAGES_OUT, topic="orders", consumer_group="audit") == 3
        simple.ack(a1)
        simple.ack(b1.receipt_handle, c1)
        with pytest.raises(AlreadySettled):
            simple.ack(a1)
        assert simple.receive(await_duration=NOW) == []
        assert simple.error is None
        assert [one.inflight_messages for one in simple.statistics().queues] == [0]
    with pytest.raises(ClosedError):
        simple.receive()
    (queue,) = lake.describe_group("audit").queues
    assert (queue.lag, queue.owner) == (0, "")


def test_ending_a_delivery_at_once_is_a_retry(lake: penstock.Lake) -> None:
    fill(lake, "a1")
    with lake.simple_consumer("orders", group="audit") as simple:
        (a1,) = received(simple, 1)
        assert simple.change_invisible_duration(a1, MINUTE) is a1
        assert simple.change_invisible_duration(a1.receipt_handle, NOW) == a1.receipt_handle
        (again,) = received(simple, 1)
        assert (again.message_id, again.delivery_attempt) == (a1.message_id, 2)
        simple.ack(again)


def test_closing_in_another_thread_ends_a_receive(lake: penstock.Lake) -> None:
    fill(lake)
    simple = lake.simple_consumer("orders", group="audit")
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            simple.receive(await_duration=timedelta(hours=1))
        except ClosedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    simple.close()
    thread.join(TIMEOUT_S)
    assert len(ended) == 1


def test_a_lake_that_is_closed_closes_its_consumers() -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        fill(lake, "a1")
        simple = lake.simple_consumer("orders", group="audit")
        received(simple, 1)
    with penstock.connect(store=store) as lake:
        (queue,) = lake.describe_group("audit").queues
        assert queue.owner == ""


def test_several_topics_with_a_filter_each(lake: penstock.Lake) -> None:
    for topic in ("orders", "bills"):
        lake.create_topic(topic, queues=1)
        send_all(lake, [Message(topic.encode(), tag=tag) for tag in ("paid", "lost")], topic)
    with lake.simple_consumer({"orders": "paid", "bills": None}, group="audit", delivery_order="CONCURRENT") as simple:
        found = received(simple, 3)
        assert sorted((message.topic, message.tag) for message in found) == [
            ("bills", "lost"),
            ("bills", "paid"),
            ("orders", "paid"),
        ]
        simple.ack(*found)
        assert simple.receive(await_duration=NOW) == []


def test_what_was_received_is_acknowledged_after_the_process_is_gone(tmp_path: Path) -> None:
    """With cells in SQLite."""
    with penstock.connect(tmp_path / "lake") as lake:
        fill(lake, "a1", "a2")
        with lake.simple_consumer("orders", group="audit") as simple:
            handle = received(simple, 1)[0].receipt_handle
    with penstock.connect(tmp_path / "lake") as lake, lake.simple_consumer("orders", group="audit") as simple:
        simple.ack(handle)
        assert [message.body for message in received(simple, 1)] == [b"a2"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"delivery_order": "SOMEHOW"}, InvalidArgument, "no such delivery_order"),
        ({"filter": "a ||"}, InvalidArgument, "filter"),
        ({"start": "soon"}, InvalidArgument, "start is an offset"),
        ({"receive_max": 0}, InvalidArgument, "receive_max must be a positive whole number"),
        ({"max_attempts": 0}, InvalidArgument, "max_attempts must be a positive whole number"),
        ({"group": "no\nlines"}, InvalidArgument, "bad consumer group name"),
        ({"topic": "none"}, TopicNotFound, "none"),
    ],
)
def test_what_cannot_be_a_consumer_is_refused(
    lake: penstock.Lake, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    fill(lake)
    with pytest.raises(error, match=message):
        lake.simple_consumer(**{"topic": "orders", "group": "audit", **given})


def test_a_read_only_lake_has_no_consumers() -> None:
    with penstock.connect(store=MemoryStore(), read_only=True) as lake, pytest.raises(ReadOnlyError, match="read_only=True"):
        lake.simple_consumer("orders", group="audit")


async def test_on_an_event_loop() -> None:
    async with penstock.aio.connect("memory://") as lake:
        await lake.create_topic("orders", TopicSettings(queues=2))
        simple = await lake.simple_consumer("orders", group="audit", delivery_order="CONCURRENT")
        waiting = asyncio.ensure_future(simple.receive(1, MINUTE, SOON))
        producer = await lake.producer("orders")
        await producer.send(Message(b"x"))
        (message,) = await waiting
        await simple.ack(message)
        async with lake.simple_consumer("orders", group="other") as other:
            (message,) = await other.receive(1, MINUTE, SOON)
            assert message.body == b"x"
