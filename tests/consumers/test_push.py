"""PushConsumer by the public API: what a listener may say, batches, time-outs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock import BatchResult, ConsumeResult, MessageView, RetryAfter, RetryPolicy
from penstock.consumers import MemoryMetrics
from penstock.consumers.statistics import FAILED_ATTEMPTS, FAILURES
from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.keys import queue_key
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, failing, fill, letters, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

HOUR = RetryPolicy(interval=timedelta(hours=1))


def raising() -> object:
    raise ValueError("no such user")


# --- What a listener may say ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda: FAILURE, "the listener answered FAILURE"),
        (raising, "ValueError: no such user"),
        (lambda: None, "the listener returned None"),
        (lambda: "yes", "the listener answered 'yes', which is no ConsumeResult"),
        (lambda: True, "the listener answered True, which is no ConsumeResult"),
        (lambda: BatchResult(5), "answered BatchResult"),
        (lambda: asyncio.sleep(0), "the listener answered a coroutine; make it a coroutine function"),
    ],
)
def test_what_is_not_success_is_a_failure_that_is_logged_with_its_reason_and_run_again(
    lake: penstock.Lake, caplog: pytest.LogCaptureFixture, result: Callable[[], object], reason: str
) -> None:
    fill(lake, "aab")
    heard = Heard(failing(b"a0", result, attempts=2))
    metrics = MemoryMetrics()
    with caplog.at_level(logging.WARNING, "penstock.consumers"), consuming(lake, heard, metrics=metrics):
        until_settled(lake)
        assert metrics.value(FAILED_ATTEMPTS, topic="orders", consumer_group="billing") == 2
        assert sum(one.value for one in metrics.samples() if one.metric is FAILURES) == 2
    assert [one.delivery_attempt for one in heard.begun if one.body == b"a0"] == [1, 2, 3]
    lines = [record.getMessage() for record in caplog.records if "failed at attempt" in record.getMessage()]
    message_id = heard.begun[0].message_id
    for attempt, line in enumerate(lines, 1):
        assert line.startswith(
            f"group billing, orders queue 0: offset 0 (message {message_id}) failed at attempt {attempt}, next at 20"
        )
        assert reason in line
    assert len(lines) == 2
    facts = next(vars(record)["fields"] for record in caplog.records if hasattr(record, "fields"))
    assert {name: facts[name] for name in ("group", "topic", "queue", "offset", "message_group", "attempt")} == {
        "group": "billing",
        "topic": "orders",
        "queue": 0,
        "offset": 0,
        "message_group": "a",
        "attempt": 1,
    }
    told = [record for record in caplog.records if "returned None, which counts as a failure" in record.getMessage()]
    assert len(told) == (reason == "the listener returned None"), "once, however often it happens"


def test_a_listener_says_how_long_to_wait(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    # The policy's interval would be an hour: what runs again at once does so as the listener says.
    heard = Heard(failing(b"a0", lambda: RetryAfter(timedelta(0), "busy")))
    with consuming(lake, heard, retry=HOUR):
        heard.until_done(2)
        until_settled(lake)
    assert [one.delivery_attempt for one in heard.begun if one.body == b"a0"] == [1, 2]


def test_a_listener_s_wait_holds_although_the_policy_would_retry_at_once(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    heard = Heard(failing(b"a0", lambda: RetryAfter(timedelta(hours=1))))
    with consuming(lake, heard):
        heard.until_done(1)
        wait_until(lambda: lake.describe_group("billing").queues[0].blocked == 1, "message group a waits")
        send(lake, "c")
        heard.until_done(2)
    assert heard.offsets("a") == [0]


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_each_message_of_a_failing_group_counts_its_own_attempts(lake: penstock.Lake, order: str) -> None:
    fill(lake, "aaaab")
    heard = Heard(lambda message: FAILURE if message.message_group == "a" else SUCCESS)
    with consuming(lake, heard, delivery_order=order, max_attempts=3):
        until_settled(lake)
    attempts = {body: [one.delivery_attempt for one in heard.begun if one.body == body] for body in (b"a0", b"a1", b"a2", b"a3")}
    assert attempts == {body: [1, 2, 3] for body in attempts}
    assert [one.properties["RECONSUME_TIMES"] for one in lake.reader("%DLQ%billing").messages()] == ["2"] * 4


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_message_that_can_never_succeed_is_given_up_at_once(lake: penstock.Lake, order: str) -> None:
    fill(lake, "aab")
    heard = Heard(failing(b"a0", lambda: ConsumeResult.DEAD_LETTER, attempts=99))
    with consuming(lake, heard, delivery_order=order):
        until_settled(lake)
    assert letters(lake) == ["a0"]
    assert sorted(heard.bodies()) == ["a1", "b0"]


@pytest.mark.parametrize("coroutine", [False, True])
def test_messages_that_may_run_side_by_side_wait_for_no_slow_one(lake: penstock.Lake, coroutine: bool) -> None:
    """Though a thread is given many of them together."""
    fill(lake, "a" * 100)
    seen: list[bytes] = []
    others = threading.Event()

    def note(message: MessageView) -> bool:
        seen.append(message.body)
        if len(seen) == 100:
            others.set()
        return message.body == b"a0"

    def handle(message: MessageView) -> object:
        return SUCCESS if not note(message) or others.wait(TIMEOUT_S) else FAILURE

    async def task(message: MessageView) -> object:
        if note(message):
            await asyncio.to_thread(others.wait, TIMEOUT_S)
            assert others.is_set()
        return SUCCESS

    with consuming(lake, task if coroutine else handle, delivery_order="CONCURRENT", threads=2):
        until_settled(lake)
    assert sorted(seen) == sorted(f"a{n}".encode() for n in range(100)), "each once"


def test_all_threads_work_as_long_as_there_are_messages_that_may_run_side_by_side(lake: penstock.Lake) -> None:
    """However many of them a thread was given: each handler ends only beside as many others as there are threads."""
    fill(lake, "abcde" * 100)
    together = threading.Barrier(20)

    def handle(_: MessageView) -> object:
        together.wait(TIMEOUT_S)
        return SUCCESS

    heard = Heard(handle)
    with consuming(lake, heard, delivery_order="CONCURRENT", threads=20, cache_messages=70):
        until_settled(lake)
    assert (len(heard.done), len(heard.begun)) == (500, 500)


@pytest.mark.parametrize("coroutine", [False, True])
def test_what_is_taken_from_behind_a_slow_message_waits_for_no_write(
    lake: penstock.Lake, monkeypatch: pytest.MonkeyPatch, coroutine: bool
) -> None:
    """Nor what is behind a failure. It is granted: a table that takes long to answer leaves no thread without work."""
    fill(lake, "a" * 100)
    write, answers, others = Cells.write, threading.Event(), threading.Event()
    answers.set()
    seen: list[bytes] = []

    async def late(self: Cells, key: str, data: bytes, **how: Any) -> StoredCell:
        if key.startswith(queue_key("billing", "orders", 0).removesuffix("0")):
            await asyncio.to_thread(answers.wait, TIMEOUT_S)
        return await write(self, key, data, **how)

    def note(message: MessageView) -> bool:
        if not seen:
            answers.clear()
        seen.append(message.body)
        if len(seen) == 100:
            others.set()
        return message.body == b"a0"

    def answer(message: MessageView) -> object:
        return FAILURE if message.body == b"a60" and message.delivery_attempt == 1 else SUCCESS

    def handle(message: MessageView) -> object:
        assert not note(message) or others.wait(TIMEOUT_S)
        return answer(message)

    async def task(message: MessageView) -> object:
        assert not note(message) or await asyncio.to_thread(others.wait, TIMEOUT_S)
        return answer(message)

    monkeypatch.setattr(Cells, "write", late)
    with consuming(lake, task if coroutine else handle, delivery_order="CONCURRENT", threads=2):
        try:
            assert others.wait(TIMEOUT_S), f"{len(seen)} of 100 began"
        finally:
            answers.set()
        until_settled(lake)


def test_a_message_that_fails_costs_those_behind_it_in_its_thread_no_attempt(lake: penstock.Lake) -> None:
    fill(lake, "a" * 100)
    heard = Heard(lambda message: FAILURE if message.body in (b"a0", b"a60") else SUCCESS)
    with consuming(lake, heard, delivery_order="CONCURRENT", threads=2, max_attempts=2):
        until_settled(lake)
    assert sorted(letters(lake)) == ["a0", "a60"]
    again = [(one.body, one.delivery_attempt) for one in heard.begun if one.delivery_attempt > 1]
    assert sorted(again) == [(b"a0", 2), (b"a60", 2)]
    assert len(heard.begun) == 102


# --- Batches ------------------------------------------------------------------------------------------------------------------------------------


class Batches:
    """Notes the batches it is given, and answers as it is told."""

    def __init__(self, answer: Callable[[list[str]], object] = lambda _: SUCCESS) -> None:
        self._answer = answer
        self.given: list[list[str]] = []
        self.groups: list[set[str | None]] = []

    def __call__(self, messages: list[MessageView]) -> object:
        bodies = [one.body.decode() for one in messages]
        self.given.append(bodies)
        self.groups.append({one.message_group for one in messages})
        return self._answer(bodies)

    def times(self, body: str) -> int:
        return sum(bodies.count(body) for bodies in self.given)


def test_batches_of_a_message_group_hold_one_group_in_order(lake: penstock.Lake) -> None:
    fill(lake, "aabab" * 4)
    batches = Batches()
    with consuming(lake, batches, batch="group", batch_messages=5):
        until_settled(lake)
    assert all(len(groups) == 1 for groups in batches.groups)
    assert all(len(bodies) <= 5 for bodies in batches.given)
    assert [body for bodies in batches.given for body in bodies if body[0] == "a"] == [f"a{n}" for n in range(12)]
    assert len(batches.given) < 20, "more than one message at a time"


def test_batches_of_a_queue_hold_it_in_its_order(lake: penstock.Lake) -> None:
    fill(lake, "abcabc" * 3)
    batches = Batches()
    with consuming(lake, batches, batch="queue", batch_messages=4):
        until_settled(lake)
    assert [body for bodies in batches.given for body in bodies] == [f"{g}{n}" for n in range(6) for g in "abc"]
    assert max(map(len, batches.given)) == 4


@pytest.mark.parametrize("batch", ["group", "queue"])
def test_of_a_batch_that_partly_succeeded_nothing_settled_runs_again(lake: penstock.Lake, batch: str) -> None:
    fill(lake, "aaaaaa")
    tried: list[str] = []

    def answer(bodies: list[str]) -> object:
        if "a3" in bodies and len(tried) < 2:
            tried.append("a3")
            return BatchResult(bodies.index("a3"))
        return BatchResult(len(bodies))

    batches = Batches(answer)
    with consuming(lake, batches, batch=batch):
        until_settled(lake)
    assert [batches.times(f"a{n}") for n in range(4)] == [1, 1, 1, 3]
    order = [body for bodies in batches.given for body in bodies]
    assert order.index("a4") > order.index("a3")


@pytest.mark.parametrize("batch", ["group", "queue"])
@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_a_batch_that_raises_is_halved_until_the_culprit_is_alone_and_only_that_is_given_up(
    lake: penstock.Lake, batch: str, order: str
) -> None:
    fill(lake, "a" * 16)

    def answer(bodies: list[str]) -> object:
        return raising() if "a5" in bodies else SUCCESS

    batches = Batches(answer)
    with consuming(lake, batches, batch=batch, delivery_order=order, max_attempts=2):
        until_settled(lake)
    assert letters(lake) == ["a5"]
    assert batches.given.count(["a5"]) == 2, "a strike is what fails alone"
    good = [body for bodies in batches.given if "a5" not in bodies for body in bodies]
    assert sorted(good, key=lambda body: int(body[1:])) == [f"a{n}" for n in range(16) if n != 5], "each succeeds once"
    if order == "ORDERLY":
        assert good == [f"a{n}" for n in range(16) if n != 5]


def test_a_batch_says_what_becomes_of_the_first_that_failed(lake: penstock.Lake) -> None:
    fill(lake, "aaaa")

    def answer(bodies: list[str]) -> object:
        return BatchResult(bodies.index("a1"), ConsumeResult.DEAD_LETTER) if "a1" in bodies else SUCCESS

    batches = Batches(answer)
    with consuming(lake, batches, batch="group"):
        until_settled(lake)
    assert letters(lake) == ["a1"]
    assert [batches.times(f"a{n}") for n in (0, 1)] == [1, 1]


# --- Time-outs ----------------------------------------------------------------------------------------------------------------------------------


def test_a_handler_that_hangs_has_failed_its_late_result_counts_no_more_and_its_group_waits_for_it(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    release = threading.Event()

    def answer(message: MessageView) -> object:
        if message.body == b"a0" and message.delivery_attempt == 1:
            assert release.wait(TIMEOUT_S)
        return FAILURE if message.body == b"a0" and message.delivery_attempt == 2 else SUCCESS

    heard = Heard(answer)
    with consuming(lake, heard, threads=1, consume_timeout=timedelta(milliseconds=200)):
        heard.until(lambda one: "b0" in one.bodies(), "another thread took over from the one that hangs")
        wait_until(lambda: lake.describe_group("billing").queues[0].in_flight, "its message is granted again")
        assert heard.offsets("a") == [0], "nothing of its message group starts while its handler runs"
        release.set()
        until_settled(lake)
    assert [(one.offset, one.delivery_attempt) for one in heard.begun if one.message_group == "a"] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
    ]
    assert heard.most[0, "a"] == 1


def test_a_coroutine_that_hangs_is_cancelled(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    cancelled: list[bytes] = []
    done: list[bytes] = []

    async def listen(message: MessageView) -> ConsumeResult:
        if message.body == b"a0" and message.delivery_attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(message.body)
                raise
        done.append(message.body)
        return SUCCESS

    with consuming(lake, listen, threads=1, consume_timeout=timedelta(milliseconds=200)):
        until_settled(lake)
    assert cancelled == [b"a0"]
    assert sorted(done) == [b"a0", b"a1", b"b0"]
    assert done.index(b"a0") < done.index(b"a1")


def test_a_batch_that_hangs_is_halved_until_the_culprit_is_alone(lake: penstock.Lake) -> None:
    fill(lake, "a" * 8)
    given: list[list[str]] = []

    async def listen(messages: list[MessageView]) -> ConsumeResult:
        bodies = [one.body.decode() for one in messages]
        given.append(bodies)
        if "a5" in bodies:
            await asyncio.Event().wait()
        return SUCCESS

    with consuming(lake, listen, batch="group", max_attempts=1, consume_timeout=timedelta(milliseconds=200)):
        until_settled(lake)
    assert letters(lake) == ["a5"]
    assert given.count(["a5"]) == 1
    done = [body for bodies in given if "a5" not in bodies for body in bodies]
    assert done == [f"a{n}" for n in range(8) if n != 5]
