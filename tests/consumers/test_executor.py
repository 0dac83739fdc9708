"""Executors: what their owners hear of runs."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import penstock
from penstock.consumers import ConsumeResult
from penstock.consumers.handlers.executor import ThreadExecutor
from penstock.consumers.schedule.lanes import Lane, LaneRun, OpenLane
from penstock.log import MessageView
from penstock.log.runtime.runtime import SystemClock
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def message(offset: int) -> MessageView:
    return MessageView("orders", 0, offset, f"{offset:032x}", "g", None, (), {}, b"", _TIME, _TIME, None, "p")


class Listed:
    """Notes what it hears."""

    until_s = math.inf

    changed = False
    """Whether a run ended while it was looked at."""

    def __init__(self, last: LaneRun) -> None:
        self.heard: list[tuple[int, bool]] = []
        self.over = asyncio.Event()
        self._last = last

    def moved(self, *runs: LaneRun) -> None:
        self.heard += [(run.done, run.ended) for run in runs]
        if self._last in runs:
            asyncio.get_running_loop().call_soon(self.over.set)  # behind what else is told now


class Hurrying(SystemClock):
    """A second passes from look to look, so that every message is told about."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 1
        return self._now_s


def test_the_end_of_a_run_is_heard_of_once_however_late_the_loop_looks() -> None:
    run, last = LaneRun(Lane(1), [message(0)]), LaneRun(Lane(2), [message(1)])
    owner, ended = Listed(last), threading.Event()

    def listen(one: MessageView) -> ConsumeResult:
        if one.offset == 1:
            ended.set()
        return ConsumeResult.SUCCESS

    async def main() -> None:
        executor = ThreadExecutor(listen, batches=False, threads=1, clock=Hurrying(), name="test")
        executor.start(owner, [run, last])
        ended.wait(TIMEOUT_S)  # the loop stands still meanwhile, so both tellings of the first run lie in the outbox
        await executor.close()
        await owner.over.wait()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    assert owner.heard == [(1, True), (1, True)], "once for each run"


def test_an_executor_is_idle_when_one_of_its_threads_is() -> None:
    """Not as soon as no run waits: what others have not begun would be taken from them for nobody."""
    gate, begun = threading.Event(), threading.Semaphore(0)

    def listen(_: MessageView) -> ConsumeResult:
        begun.release()
        gate.wait(TIMEOUT_S)
        return ConsumeResult.SUCCESS

    async def main() -> None:
        idle = asyncio.Event()
        executor = ThreadExecutor(listen, batches=False, threads=2, clock=SystemClock(), name="test", idle=idle.set)
        runs = [LaneRun(OpenLane(0), [message(0)]), LaneRun(OpenLane(0), [message(1)])]
        executor.start(Listed(runs[1]), runs)
        for _ in runs:
            assert await asyncio.to_thread(begun.acquire, timeout=TIMEOUT_S)
        assert not executor.is_idle
        gate.set()
        await idle.wait()
        assert executor.is_idle
        await executor.close()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


class Waiting(LaneRun):
    """Its thread puts off the end until the owner looks."""

    def __init__(self, lane: Lane, messages: list[MessageView]) -> None:
        self.looked_at = threading.Event()
        super().__init__(lane, messages)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "since_s" and value is None and getattr(self, "done", False):
            self.looked_at.wait(TIMEOUT_S)
        super().__setattr__(name, value)


def test_a_run_does_not_end_while_its_owner_looks_at_it() -> None:
    """Else its end would be counted twice, and a message that succeeded meanwhile could be taken for one that was not started."""
    run, returned = Waiting(Lane(1), [message(0)]), threading.Event()

    class Looking(Listed):
        def moved(self, *runs: LaneRun) -> None:
            (run,) = runs
            before = run.ended
            if not self.heard:
                run.looked_at.set()  # type: ignore[attr-defined]  # it is one that waits
                returned.wait(TIMEOUT_S)
            assert run.done == 1
            self.changed |= run.ended is not before
            super().moved(*runs)

    def tell_when_over(thread: threading.Thread) -> None:
        thread.join(TIMEOUT_S)
        returned.set()

    owner = Looking(run)

    async def main() -> None:
        before = threading.enumerate()  # earlier tests may have left one of this name
        executor = ThreadExecutor(lambda _: ConsumeResult.SUCCESS, batches=False, threads=1, clock=Hurrying(), name="test")
        threads = [one for one in threading.enumerate() if one not in before]
        executor.start(owner, [run])
        await executor.close()
        threading.Thread(target=tell_when_over, args=threads).start()
        await owner.over.wait()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    assert not owner.changed
    assert [ended for _, ended in owner.heard] == [False, True]


@pytest.fixture
def threads_left(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many threads of executors start, and no more, as where a process may have no more of them."""
    start, left = threading.Thread.start, [math.inf]

    def count_down(self: threading.Thread) -> None:
        if self.name.startswith("penstock-"):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("can't start new thread")
        start(self)

    def allow(count: int) -> None:
        left[0] = count

    monkeypatch.setattr(threading.Thread, "start", count_down)
    return allow


def of_executors() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("penstock-billing-")]


def test_a_consumer_that_cannot_have_its_threads_ends_those_it_started_and_leaves(threads_left: Callable[[int], None]) -> None:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", queues=1)
        threads_left(3)
        with pytest.raises(penstock.RetryError, match=r"not all of the threads.*7 threads.*3, then: can't start new thread"):
            lake.push_consumer("orders", group="billing", listener=lambda _: ConsumeResult.SUCCESS, threads=7)
        wait_until(lambda: not of_executors(), "those that started end")
        assert lake.describe_group("billing").members == ()
        threads_left(2)
        heard = threading.Event()

        def hear(_: object) -> ConsumeResult:
            heard.set()
            return ConsumeResult.SUCCESS

        with lake.producer("orders") as producer:
            producer.send(penstock.Message(b"x"))
        with lake.push_consumer("orders", group="billing", listener=hear, threads=2):
            assert heard.wait(TIMEOUT_S)


def test_a_thread_that_was_given_up_and_cannot_be_replaced_stays_in_its_place(threads_left: Callable[[int], None]) -> None:
    gate, begun = threading.Event(), threading.Event()
    hung, later = LaneRun(Lane(0), [message(0)]), LaneRun(Lane(1), [message(1)])

    def listen(one: MessageView) -> ConsumeResult:
        begun.set()
        if one.offset == 0:
            gate.wait(TIMEOUT_S)
        return ConsumeResult.SUCCESS

    async def main() -> None:
        executor = ThreadExecutor(listen, batches=False, threads=1, clock=SystemClock(), name="penstock-billing")
        owner = Listed(later)
        executor.start(owner, [hung])
        assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
        threads_left(0)
        hung.time_out("too slow")
        executor.gave_up(hung)
        executor.start(owner, [later])
        gate.set()
        await owner.over.wait()
        await executor.close()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    wait_until(lambda: not of_executors(), "its end")
