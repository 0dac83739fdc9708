"""Checkers that answer, raise, hang or talk nonsense: whoever asks gets an answer in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.coordinator.transactions.checking import checker as asking
from penstock.coordinator.transactions.checking.checker import (
    AT_ONCE_MAX,
    CheckedTransaction,
    RegisteredChecker,
    TransactionResolution,
)

COMMIT, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.UNKNOWN
TRANSACTION = CheckedTransaction("a" * 32, "pay", datetime(2026, 1, 1, tzinfo=UTC), 1, ())
TIMEOUT_S = 60.0


def answered(checker: Callable[..., object]) -> TransactionResolution:
    return asyncio.run(RegisteredChecker(checker, group="pay").ask(TRANSACTION))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_S", 0.05)


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Set when the test is over, whatever became of it."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("resolution", list(TransactionResolution))
def test_an_answer_is_an_answer_of_a_function_a_coroutine_function_and_an_object(resolution: TransactionResolution) -> None:
    asked: list[CheckedTransaction] = []

    def function(transaction: CheckedTransaction) -> TransactionResolution:
        asked.append(transaction)
        assert threading.current_thread() is not threading.main_thread()
        return resolution

    async def coroutine(transaction: CheckedTransaction) -> TransactionResolution:
        asked.append(transaction)
        assert threading.current_thread() is threading.main_thread()
        return resolution

    class Checker:
        async def __call__(self, transaction: CheckedTransaction) -> TransactionResolution:
            return await coroutine(transaction)

    assert [answered(one) for one in (function, coroutine, Checker())] == [resolution] * 3
    assert asked == [TRANSACTION] * 3


async def test_the_checker_that_was_given_last_is_asked() -> None:
    async def knows(_: CheckedTransaction) -> TransactionResolution:
        return COMMIT

    asked = RegisteredChecker(lambda _: UNKNOWN, group="pay")
    assert await asked.ask(TRANSACTION) is UNKNOWN
    asked.ask_instead(knows)
    assert await asked.ask(TRANSACTION) is COMMIT


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyError("no such order"), SystemExit(3), StopIteration(), Odd(), asyncio.CancelledError()])
def test_one_that_raises_does_not_know_and_the_log_says_why(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def function(_: object) -> None:
        raise error

    async def coroutine(_: object) -> None:
        raise error

    assert answered(function) is UNKNOWN
    assert "the checker of producer group pay, asked about transaction aaaa" in caplog.text
    assert "raised: asked again later" in caplog.text
    assert type(error).__name__ in caplog.text
    if not isinstance(error, Odd):
        assert answered(coroutine) is UNKNOWN


def test_what_is_no_answer_is_none_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def coroutine(_: object) -> TransactionResolution:
        return COMMIT

    answers: list[Any] = [None, True, "commit", "x" * 1000]
    for answer in answers:
        assert answered(lambda _, answer=answer: answer) is UNKNOWN
        assert f"answered {answer!r:.200}, which is no TransactionResolution" in caplog.text

    def forgetful(transaction: object) -> object:
        return coroutine(transaction)

    assert answered(forgetful) is UNKNOWN
    assert "make it a coroutine function" in caplog.text


@pytest.mark.usefixtures("impatient")
def test_one_that_hangs_does_not_know_and_keeps_its_place_until_it_ends(
    end: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def hanging(_: object) -> TransactionResolution:
        end.wait(TIMEOUT_S)
        return COMMIT

    async def run() -> None:
        asked = RegisteredChecker(hanging, group="pay")
        answers = await asyncio.gather(*(asked.ask(TRANSACTION) for _ in range(AT_ONCE_MAX)))
        assert answers == [UNKNOWN] * AT_ONCE_MAX
        assert asked.late == AT_ONCE_MAX
        questions = list(asked._late)
        end.set()
        await asyncio.wait(questions, timeout=TIMEOUT_S)
        assert asked.late == 0

    asyncio.run(run())
    assert "did not answer within 0.05 s: asked again later" in caplog.text


@pytest.mark.usefixtures("impatient")
async def test_a_coroutine_that_hangs_is_cancelled() -> None:
    ended: list[str] = []

    async def hanging(_: object) -> TransactionResolution:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return COMMIT

    asked = RegisteredChecker(hanging, group="pay")
    assert await asked.ask(TRANSACTION) is UNKNOWN
    await asyncio.wait(list(asked._late), timeout=TIMEOUT_S)
    assert (asked.late, ended) == (0, ["cancelled"])


@pytest.mark.usefixtures("impatient")
def test_a_process_ends_although_a_checker_hangs(end: threading.Event) -> None:
    def hanging(_: object) -> None:
        end.wait(TIMEOUT_S)

    assert answered(hanging) is UNKNOWN  # asyncio.run has ended
    thread = next(one for one in threading.enumerate() if one.name == "penstock-check-pay" and one.is_alive())
    assert thread.daemon


def test_a_process_without_threads_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert answered(lambda _: COMMIT) is UNKNOWN
