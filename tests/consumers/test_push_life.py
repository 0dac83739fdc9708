"""PushConsumer by the public API: what is given up, what operators order while it runs, asyncio, and its end."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import penstock
from penstock import BatchResult, ConsumeResult, MessageView, aio
from penstock.consumers import MemoryMetrics, push
from penstock.consumers.limits import QueueLimits
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.statistics import CONSUMER_CONNECTIONS, OWNED_QUEUES
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.log import Runtime, TopicSettings
from penstock.log.errors import InternalError
from penstock.log.stores import MemoryStore
from penstock.testing import HandClock
from tests.consumers.heard import AT_ONCE, FAILURE, SUCCESS, Heard, consuming, failing, fill, letters, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

# --- Given up: dead letters, parking ----------------------------------------------------------------------------------------------------------


def test_what_a_listener_raises_is_one_line_of_the_log(lake: penstock.Lake, caplog: pytest.LogCaptureFixture) -> None:
    fill(lake, "a")

    def raising(message: penstock.MessageView) -> penstock.ConsumeResult:
        raise ValueError("bad\nERROR all is lost")

    with consuming(lake, Heard(raising), max_attempts=1):
        until_settled(lake)
    told = [record.getMessage() for record in caplog.records if "a dead letter in" in record.getMessage()]
    assert len(told) == 1
    assert r"bad\nERROR all is lost" in told[0]


def test_after_its_last_attempt_a_message_is_a_dead_letter_and_its_group_goes_on(
    lake: penstock.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, "aaab")
    heard = Heard(failing(b"a1", lambda: FAILURE, attempts=99))
    with consuming(lake, heard, max_attempts=3):
        until_settled(lake)
    assert heard.offsets("a") == [0, 1, 1, 1, 2]
    (letter,) = lake.reader("%DLQ%billing").messages()
    origin = heard.begun[heard.offsets().index(1)]
    assert (letter.body, letter.message_id, letter.message_group) == (b"a1", origin.message_id, "a")
    given_up = [record for record in caplog.records if "was given up after 3 attempts" in record.getMessage()]
    assert [record.levelno for record in given_up] == [logging.ERROR]
    assert "failed at attempt 3, and is given up" in caplog.text


@pytest.mark.parametrize("order", ["release", "skip"])
def test_a_parked_message_group_stands_still_until_it_is_released_or_skipped_while_the_consumer_runs(
    lake: penstock.Lake, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, "aaab")
    mended = threading.Event()
    heard = Heard(lambda message: FAILURE if message.body == b"a1" and not mended.is_set() else SUCCESS)
    with consuming(lake, heard, max_attempts=2, dead_letter_policy="park"):
        (parked,) = wait_until(lambda: lake.parked("billing"), "the group parked")
        assert (parked.message_group, parked.offset, parked.failed_attempts) == ("a", 1, 2)
        send(lake, "ac")
        heard.until(lambda one: "c0" in one.bodies(), "everything else runs on")
        assert heard.offsets("a") == [0, 1, 1]
        mended.set()
        getattr(lake, order)("billing", message_group="a")
        heard.until(lambda one: one.offsets("a")[-1] == 4, "the group went on to its end")
        until_settled(lake)
    if order == "release":
        assert heard.offsets("a") == [0, 1, 1, 1, 2, 4]
        assert letters(lake) == []
    else:
        assert heard.offsets("a") == [0, 1, 1, 2, 4]
        assert letters(lake) == ["a1"]
        (letter,) = lake.reader("%DLQ%billing").messages()
        assert (letter.properties["RECONSUME_TIMES"], letter.properties["DLQ_REASON"]) == (
            "1",
            "the listener answered FAILURE; an operator skipped it",
        )
        assert "offset 1 was given up after 2 attempts" in caplog.text
    assert re.search(r"message group 'a' is parked at offset 1", caplog.text)


# --- Backtrack --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_group_is_reset_while_its_consumer_runs_and_what_is_in_flight_counts_no_more(lake: penstock.Lake, order: str) -> None:
    fill(lake, "aaaa")
    entered, release = threading.Event(), threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a3" and not entered.is_set():
            entered.set()
            assert release.wait(TIMEOUT_S)
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, delivery_order=order):
        assert entered.wait(TIMEOUT_S)
        heard.until_done(3)
        lake.reset_offsets("billing", "orders", 2)
        wait_until(lambda: lake.describe_group("billing").queues[0].generation == 1, "the new generation")
        release.set()
        heard.until(lambda one: [m.offset for m in one.done].count(3) >= 2, "the messages from offset 2 on, again")
        until_settled(lake)
    assert heard.offsets().count(0) == heard.offsets().count(1) == 1
    assert heard.offsets().count(2) == heard.offsets().count(3) == 2


def test_a_reset_to_the_end_leaves_a_failing_message_behind(lake: penstock.Lake) -> None:
    fill(lake, "aa")
    heard = Heard(failing(b"a0", lambda: FAILURE, attempts=10**6))
    with consuming(lake, heard, max_attempts=None):
        heard.until(lambda one: len(one.begun) > 3, "retries")
        lake.reset_offsets("billing", "orders", "latest")
        until_settled(lake)
        send(lake, "b")
        heard.until_done(1)
    assert heard.bodies() == ["b0"]


# --- asyncio ----------------------------------------------------------------------------------------------------------------------------------


def test_a_coroutine_function_runs_on_the_caller_s_own_loop() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", TopicSettings(message_type=penstock.MessageType.FIFO, queues=2))
            producer = await lake.producer("orders")
            for n in range(10):
                producer.send(penstock.Message(b"%d" % n, message_group=f"g{n % 2}"))
            loop, done, all_done = asyncio.get_running_loop(), list[int](), asyncio.Event()

            async def listen(message: MessageView) -> ConsumeResult:
                assert asyncio.get_running_loop() is loop
                await asyncio.sleep(0)
                if message.body == b"4" and message.delivery_attempt == 1:
                    raise ValueError("once")
                done.append(int(message.body))
                if len(done) == 10:
                    all_done.set()
                return SUCCESS

            async with lake.push_consumer("orders", group="billing", listener=listen, retry=AT_ONCE) as consumer:
                await all_done.wait()
                assert consumer.group == "billing"
            assert [n for n in done if n % 2 == 0] == [0, 2, 4, 6, 8]
            assert [n for n in done if n % 2 == 1] == [1, 3, 5, 7, 9]

            class Batch:
                async def __call__(self, messages: list[MessageView]) -> BatchResult:
                    again.extend(int(one.body) for one in messages)
                    if len(again) == 10:
                        all_again.set()
                    return BatchResult(len(messages))

            again, all_again = list[int](), asyncio.Event()
            opened = await lake.push_consumer("orders", group="audit", listener=Batch(), batch="queue")
            await all_again.wait()
            await opened.close()
            assert sorted(again) == list(range(10))

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S), debug=True)


# --- Its end ----------------------------------------------------------------------------------------------------------------------------------


def test_closing_lets_handlers_end_settles_them_and_starts_nothing_more(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    entered, release = threading.Event(), threading.Event()

    def answer(message: MessageView) -> object:
        if message.message_group == "a":
            entered.set()
            assert release.wait(TIMEOUT_S)
        return SUCCESS

    heard, later = Heard(answer), Heard()
    with consuming(lake, heard) as consumer:
        assert entered.wait(TIMEOUT_S)
        heard.until_done(1)
        consumer.drain()
        assert not consumer.wait(timedelta(0)), "the handler still runs"
        release.set()
        consumer.close()
        assert consumer.wait()
    assert heard.offsets("a") == [0]
    with consuming(lake, later):
        until_settled(lake)
    assert [(one.offset, one.delivery_attempt) for one in later.begun] == [(1, 1)], "what was not started is as fresh as before"


def test_closing_waits_no_longer_than_it_is_told_and_what_was_running_runs_again(lake: penstock.Lake) -> None:
    fill(lake, "aa")
    entered, release = threading.Event(), threading.Event()

    def answer(message: MessageView) -> object:
        entered.set()
        assert release.wait(TIMEOUT_S)
        return SUCCESS

    heard, later = Heard(answer), Heard()
    with consuming(lake, heard) as consumer:
        assert entered.wait(TIMEOUT_S)
        consumer.close(timedelta(0))
    release.set()
    with consuming(lake, later):
        until_settled(lake)
    assert later.offsets() == [0, 1]
    assert later.begun[0].delivery_attempt == 2


def test_a_lake_that_is_closed_closes_its_consumers_first(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    heard = Heard(failing(b"b0", lambda: ConsumeResult.DEAD_LETTER, attempts=9))
    consumer = lake.push_consumer("orders", group="billing", listener=heard)
    heard.until(lambda one: len(one.begun) == 3, "all handlers begun")
    store = lake._core.store
    lake.close()
    assert consumer.wait()
    with penstock.connect(store=store) as again:
        assert again.describe_group("billing").members == ()
        until_settled(again)
        assert letters(again) == ["b0"]


def test_a_lake_tells_once_what_ended_a_consumer_that_nobody_closed(lake: penstock.Lake) -> None:
    fill(lake, "a")
    heard = Heard()
    consumer = lake.push_consumer("orders", group="billing", listener=heard)
    heard.until_done(1)
    lake.delete_group("billing", force=True)
    wait_until(lambda: consumer.error, "it ends")
    with pytest.raises(penstock.PenstockError) as raised:
        lake.close()
    assert raised.value is consumer.error
    lake.close()


def test_a_listener_cannot_close_its_consumer_or_its_lake(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    opened: list[Any] = []
    ready = threading.Event()

    def answer(message: MessageView) -> object:
        assert ready.wait(TIMEOUT_S)
        with pytest.raises(penstock.InvalidArgument, match="a listener cannot close its own consumer"):
            (opened[0] if message.body == b"a0" else lake).close()
        return SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard) as consumer:
        opened.append(consumer)
        ready.set()
        heard.until_done(2)


def test_a_consumer_whose_group_is_deleted_ends_and_says_why(lake: penstock.Lake) -> None:
    fill(lake, "a")
    heard = Heard()
    consumer = lake.push_consumer("orders", group="billing", listener=heard)
    heard.until_done(1)
    lake.delete_group("billing", force=True)
    with pytest.raises(penstock.PenstockError, match="group") as raised:
        consumer.wait(timedelta(seconds=TIMEOUT_S))
    assert raised.value is consumer.error
    with pytest.raises(penstock.PenstockError):
        consumer.close()


def test_gauges_are_there_while_it_runs(lake: penstock.Lake) -> None:
    fill(lake, "a", queues=3)
    metrics = MemoryMetrics()
    heard = Heard()
    with consuming(lake, heard, metrics=metrics):
        heard.until_done(1)
        assert metrics.value(CONSUMER_CONNECTIONS, consumer_group="billing") == 1
        wait_until(lambda: metrics.value(OWNED_QUEUES, topic="orders", consumer_group="billing") == 3, "all queues owned")
    assert metrics.value(CONSUMER_CONNECTIONS, consumer_group="billing") is None


@pytest.mark.parametrize("batch", [None, "group"])
@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
def test_whatever_a_coroutine_raises_is_a_failure_of_its_message_alone(
    lake: penstock.Lake, error: type[BaseException], batch: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, "ab")
    attempts: list[int] = []

    async def listen(given: Any) -> ConsumeResult:
        message: MessageView = given[0] if batch else given
        if message.body == b"a0":
            attempts.append(message.delivery_attempt)
            if message.delivery_attempt == 1:
                raise error
        return SUCCESS

    with consuming(lake, listen, batch=batch):
        until_settled(lake)
    assert attempts == [1, 2]
    assert "failed at attempt 1, next at 20" in caplog.text
    assert error.__name__ in caplog.text


def test_closing_cancels_a_coroutine_that_takes_longer_than_it_is_told_to_wait(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    cancelled, entered = threading.Event(), threading.Event()

    async def listen(message: MessageView) -> ConsumeResult:
        if message.body == b"a0" and message.delivery_attempt == 1:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        return SUCCESS

    with consuming(lake, listen) as consumer:
        assert entered.wait(TIMEOUT_S)
        consumer.close(timedelta(0))
    assert cancelled.wait(TIMEOUT_S)
    heard = Heard()
    with consuming(lake, heard):
        until_settled(lake)
    assert heard.begun[0].body == b"a0"


def test_a_listener_may_let_its_consumer_drain(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    opened: list[penstock.PushConsumer] = []
    ready = threading.Event()

    def answer(message: MessageView) -> object:
        assert ready.wait(TIMEOUT_S)
        if message.body == b"a0":
            opened[0].drain()
        return SUCCESS

    heard = Heard(answer)
    consumer = lake.push_consumer("orders", group="billing", listener=heard)
    opened.append(consumer)
    ready.set()
    assert consumer.wait(timedelta(seconds=TIMEOUT_S))
    consumer.close()
    assert heard.offsets("a") == [0]


# --- Messages that are gone -------------------------------------------------------------------------------------------------------------------


def test_messages_that_retention_took_before_the_group_had_them_are_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    store = MemoryStore(clock=clock)

    async def maintain() -> None:
        async with aio.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as opened:
            await maintain_once(opened, ["orders"], lambda *_: None)

    with penstock.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
        fill(lake, "aabb")
        lake.create_group("billing", retry=AT_ONCE)
        lake.reset_offsets("billing", "orders", "earliest")
        for _ in range(5):  # kept for 72 hours: those of the first two days go
            asyncio.run(maintain())
            clock.advance(timedelta(hours=20))
            send(lake, "c")
        asyncio.run(maintain())
        heard = Heard()
        with consuming(lake, heard):
            until_settled(lake)
    assert heard.offsets() == [5, 6, 7, 8]
    assert "orders queue 0: offsets 0 to 4 are gone by retention before the group had them, and are passed over" in caplog.text


def test_what_nobody_foresaw_ends_the_consumer_and_is_told(lake: penstock.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake, "a")

    def plan(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(PushSchedule, "plan", plan)
    consumer = lake.push_consumer("orders", group="billing", listener=Heard())
    wait_until(lambda: consumer._core.error is not None, "the consumer ended")
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        consumer.close()


def test_a_flood_of_messages_that_are_given_up_waits_for_the_dead_letters(
    lake: penstock.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "QueueLimits", partial(QueueLimits, tracked=2))
    fill(lake, "abcdefghijklmnop")
    with consuming(lake, Heard(lambda _: FAILURE), max_attempts=1, cache_messages=2):
        wait_until(lambda: len(letters(lake)) == 16, "all are dead letters")
