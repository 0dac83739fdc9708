"""Broadcasting by the public API: `penstock.Lake.broadcast_consumer`, and the same on an event loop; redrive, too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult, FencedError, InvalidArgument, Message, MessageView, ReadOnlyError, TopicNotFound
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, fill, letters, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


def test_every_member_gets_everything_and_a_name_goes_on_where_it_was(lake: penstock.Lake) -> None:
    fill(lake, "aabb")
    one, two = Heard(), Heard(lambda message: FAILURE if message.body == b"a0" else SUCCESS)
    with (
        lake.broadcast_consumer("orders", group="screens", member="one", listener=one) as first,
        lake.broadcast_consumer("orders", group="screens", member="two", listener=two),
    ):
        assert (first.group, first.member, first.error) == ("screens", "one", None)
        one.until_done(4)
        two.until_done(3)  # the fourth failed, and nobody tries it again
        assert not first.wait(timedelta(milliseconds=1))
        assert not first.wait(0)
    assert first.wait(0)
    assert first.wait()
    assert one.offsets() == two.offsets() == [0, 1, 2, 3]
    send(lake, "c")
    again = Heard()
    with lake.broadcast_consumer("orders", group="screens", member="one", listener=again):
        again.until_done(1)
    assert again.bodies() == ["c0"]
    assert lake.groups() == {}  # such a group has no record


def test_another_process_of_the_name_ends_the_former() -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as lake, penstock.connect(store=store) as other:
        fill(lake, "a")
        heard = Heard()
        former = lake.broadcast_consumer("orders", group="screens", member="one", listener=heard)
        heard.until_done(1)
        with other.broadcast_consumer("orders", group="screens", member="one", listener=Heard()):
            send(lake, "b")
            with pytest.raises(FencedError, match="another process goes by this member's name"):
                former.wait(timedelta(seconds=TIMEOUT_S))
            assert isinstance(former.error, FencedError)
            with pytest.raises(FencedError):
                former.wait(0)
        with pytest.raises(FencedError):
            former.close()


def test_a_listener_that_closes_its_own_consumer_or_lake_is_told(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    told: list[str] = []

    def listen(message: MessageView) -> ConsumeResult:
        for close in (consumer.close, lake.close):
            try:
                close()
            except InvalidArgument as error:
                told.append(error.message)
        return SUCCESS

    opening = threading.Event()

    def patiently(message: MessageView) -> ConsumeResult:
        opening.wait(TIMEOUT_S)
        return listen(message)

    consumer = lake.broadcast_consumer("orders", group="screens", member="one", listener=patiently)
    opening.set()
    wait_until(lambda: len(told) == 4, "both messages")
    assert set(told) == {"a listener cannot close its own consumer: that waits for the listener's end"}
    consumer.close()


def test_what_was_done_is_saved_also_when_closing_gives_up_waiting(lake: penstock.Lake) -> None:
    fill(lake, "aaa")
    go_on = threading.Event()
    heard = Heard(lambda message: SUCCESS if message.offset < 2 or go_on.wait(TIMEOUT_S) else FAILURE)
    consumer = lake.broadcast_consumer("orders", group="screens", member="one", listener=heard)
    heard.until(lambda heard: len(heard.begun) == 3, "three messages begun")
    consumer.close(timeout=timedelta(0))
    go_on.set()
    again = Heard()
    with lake.broadcast_consumer("orders", group="screens", member="one", listener=again):
        again.until_done(1)
    assert again.offsets() == [2]


def test_what_is_wrong_with_a_call_is_said_before_anything_is_done(lake: penstock.Lake) -> None:
    fill(lake, "a")

    def opened(**how: Any) -> Callable[[], object]:
        return lambda: lake.broadcast_consumer(**{"topic": "orders", "group": "g", "member": "m", "listener": Heard(), **how})

    bad: list[tuple[Callable[[], object], str]] = [
        (opened(group="bad\nname"), "group"),
        (opened(member="a/b"), "bad member name"),
        (opened(member=7), "bad member name"),
        (opened(listener=7), "cannot be called"),
        (opened(listener=lambda: SUCCESS), "one argument"),
        (opened(filter="|| a"), "tag"),
        (opened(start=-1), "start"),
        (opened(topic={}), "subscribes"),
    ]
    for call, said in bad:
        with pytest.raises(InvalidArgument, match=said):
            call()
    with pytest.raises(TopicNotFound):
        opened(topic={"orders": None, "missing": None})()
    with penstock.connect(store=MemoryStore(), read_only=True) as reading, pytest.raises(ReadOnlyError, match="read_only"):
        reading.broadcast_consumer("orders", group="g", member="m", listener=Heard())


async def test_on_an_event_loop() -> None:
    async with penstock.aio.connect("memory://") as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders")
        await producer.send(Message(b"0"))
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        told: list[str] = []

        async def listen(message: MessageView) -> ConsumeResult:
            try:
                await consumer.close()
            except InvalidArgument as error:
                told.append(error.message)
            heard.put_nowait(message.body)
            return ConsumeResult.SUCCESS

        consumer = await lake.broadcast_consumer("orders", group="screens", member="one", listener=listen)
        assert await asyncio.wait_for(heard.get(), TIMEOUT_S) == b"0"
        assert len(told) == 1
        await lake.close()
        assert consumer.done


def test_redrive_sends_dead_letters_back_once_and_says_what_it_did(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    with consuming(lake, Heard(lambda _: FAILURE), max_attempts=1):
        until_settled(lake)
    assert sorted(letters(lake)) == ["a0", "b0"]
    report = lake.redrive("billing", where=lambda letter: letter.body == b"b0")
    assert (report.sent, report.skipped) == (1, 1)
    report = lake.redrive("billing")
    assert (report.sent, report.duplicates) == (1, 1)
    with consuming(lake, heard := Heard(), max_attempts=1):
        heard.until_done(2)
    assert sorted(heard.bodies()) == ["a0", "b0"]
    with pytest.raises(TopicNotFound):
        lake.redrive("nobody")
