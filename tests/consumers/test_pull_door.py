"""PullConsumer by the public API: `penstock.Lake.pull_consumer`, and the same on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock import ClosedError, InvalidArgument, Message, OffsetOutOfRange, ReadOnlyError, TopicNotFound
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, send_all
from tests.waiting import wait_until

SOON = timedelta(seconds=TIMEOUT_S)
NOW = timedelta(0)


def fill(lake: penstock.Lake, count: int, *, queues: int = 1, topic: str = "orders") -> None:
    lake.create_topic(topic, queues=queues)
    send_all(lake, [Message(b"%d" % n, tag="odd" if n % 2 else "even") for n in range(count)], topic)


def polled(consumer: penstock.PullConsumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        more = consumer.poll(timeout=SOON)
        assert more, f"only {found}"
        found += [int(message.body) for message in more]
    return found


def test_poll_commit_and_go_on(lake: penstock.Lake) -> None:
    fill(lake, 10)
    with lake.pull_consumer("orders", group="audit") as consumer:
        assert consumer.group == "audit"
        assert polled(consumer, 10) == list(range(10))
        assert consumer.assignment == [("orders", 0)]
        assert (consumer.position("orders", 0), consumer.committed("orders", 0)) == (10, 0)
        consumer.commit()
        assert consumer.committed("orders", 0) == 10
        assert consumer.poll(timeout=NOW) == []
    (queue,) = lake.describe_group("audit").queues
    assert (queue.lag, queue.owner) == (0, "")
    send_all(lake, [Message(b"10")], "orders")
    with lake.pull_consumer("orders", group="audit") as consumer:
        assert polled(consumer, 1) == [10]
    with lake.pull_consumer("orders", group="audit") as consumer:
        assert polled(consumer, 1) == [10]  # nobody committed it


def test_seek_goes_back_and_forward(lake: penstock.Lake) -> None:
    fill(lake, 10)
    with lake.pull_consumer("orders", group="audit") as consumer:
        polled(consumer, 10)
        assert consumer.seek("orders", 0, 7) == 7
        assert polled(consumer, 3) == [7, 8, 9]
        assert consumer.seek("orders", 0, "earliest") == 0
        assert [int(batch.column("body")[0].as_py()) for _, batch in consumer.poll_arrow(1, timeout=SOON)] == [0]
        with pytest.raises(OffsetOutOfRange):
            consumer.seek("orders", 0, 11)


def test_several_topics_with_a_filter_each(lake: penstock.Lake) -> None:
    fill(lake, 6)
    fill(lake, 6, topic="refunds")
    with lake.pull_consumer({"orders": "odd", "refunds": None}, group="audit") as consumer:
        found: list[tuple[str, int]] = []
        while len(found) < 9:
            found += [(message.topic, int(message.body)) for message in consumer.poll(timeout=SOON)]
        assert sorted(found) == [*(("orders", n) for n in (1, 3, 5)), *(("refunds", n) for n in range(6))]


def test_queues_that_are_asked_for_come_without_the_others(lake: penstock.Lake) -> None:
    fill(lake, 40, queues=4)
    with (
        lake.pull_consumer("orders", group="audit", queues=[1]) as one,
        lake.pull_consumer("orders", group="audit", queues={"orders": [0, 2, 2]}) as others,
    ):
        wait_until(lambda: one.assignment == [("orders", 1)], "one's queue")
        wait_until(lambda: others.assignment == [("orders", 0), ("orders", 2)], "the others' queues")


def test_two_members_share_the_queues(lake: penstock.Lake) -> None:
    fill(lake, 0, queues=4)
    with lake.pull_consumer("orders", group="audit") as one, lake.pull_consumer("orders", group="audit") as two:
        wait_until(lambda: len(one.assignment) == len(two.assignment) == 2, "an even share")
        assert {*one.assignment, *two.assignment} == {("orders", queue) for queue in range(4)}


def test_a_lake_closes_its_consumers_and_polling_says_so(lake: penstock.Lake) -> None:
    fill(lake, 1)
    consumer = lake.pull_consumer("orders", group="audit")
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError, match="closed"):
        consumer.poll()
    another = lake.pull_consumer("orders", group="audit")
    lake.close()
    with pytest.raises(ClosedError):
        another.poll()
    another.close()


def test_what_is_wrong_with_a_call_is_said_before_anything_is_done(lake: penstock.Lake) -> None:
    fill(lake, 1, queues=2)
    bad: list[tuple[Callable[[], Any], str]] = [
        (lambda: lake.pull_consumer("orders", group="bad\nname"), "group"),
        (lambda: lake.pull_consumer([], group="g"), "subscribes"),  # type: ignore[arg-type]
        (lambda: lake.pull_consumer("orders", group="g", filter="a ||"), "tag"),
        (lambda: lake.pull_consumer("orders", group="g", start="yesterday"), "start"),  # type: ignore[arg-type]
        (lambda: lake.pull_consumer("orders", group="g", queues=[]), "whole numbers from 0"),
        (lambda: lake.pull_consumer("orders", group="g", queues=[-1]), "whole numbers from 0"),
        (lambda: lake.pull_consumer("orders", group="g", queues="0"), "whole numbers from 0"),  # type: ignore[arg-type]
        (lambda: lake.pull_consumer("orders", group="g", queues={"refunds": [0]}), "by topic"),
        (lambda: lake.pull_consumer({"orders": None, "b": None}, group="g", queues=[0]), "by topic"),
        (lambda: lake.pull_consumer("orders", group="g", queues=[2]), "no such queue"),
    ]
    for call, said in bad:
        with pytest.raises(InvalidArgument, match=said):
            call()
    with pytest.raises(TopicNotFound):
        lake.pull_consumer("missing", group="g")
    assert lake.groups() == {}


def test_a_lake_for_reading_has_no_consumers() -> None:
    with penstock.connect(store=MemoryStore(), read_only=True) as lake, pytest.raises(ReadOnlyError, match="read_only"):
        lake.pull_consumer("orders", group="audit")


async def test_on_an_event_loop() -> None:
    async with penstock.aio.connect("memory://") as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders")
        await producer.send(Message(b"0"))
        async with lake.pull_consumer("orders", group="audit") as consumer:
            (message,) = await consumer.poll(timeout=SOON)
            assert message.body == b"0"
            await consumer.commit()
        again = await lake.pull_consumer("orders", group="audit")
        polling = asyncio.ensure_future(again.poll(timeout=SOON))
        await asyncio.sleep(0)
        await lake.close()
        with pytest.raises(ClosedError):
            await polling
